import type { Dirent } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";

import { isHidden } from "./globs";
import { searched } from "./ripgrep";
import { goOn } from "./waiting";

/** The most files that one search looks at. */
export const MOST_FILES = 500_000;

/** What a search leaves out. */
export interface Choice {
  /** Also what begins with a dot. */
  hidden: boolean;
  /** Also what git ignores. */
  ignored: boolean;
}

/** Files below a directory, by their paths from there. */
export interface Listing {
  paths: string[];
  incomplete: boolean;
}

/** Lists files with ripgrep. */
export async function listed(rg: string, directory: string, choice: Choice, signal: AbortSignal): Promise<Listing> {
  const paths: string[] = [];
  const words = ["--files", "--null", "--no-messages", "--no-config", ...chosen(choice)];
  const ending = await searched(
    rg,
    words,
    { cwd: directory, end: "\0" },
    (path) => paths.push(path.replace(/^\.\//, "").replaceAll("\\", process.platform === "win32" ? "/" : "\\")) < MOST_FILES,
    signal,
  );
  goOn(signal);
  return { paths, incomplete: ending.cut };
}

/** The words for ripgrep that leave out what is not wanted; `.git` in any case. */
export function chosen(choice: Choice): string[] {
  return [...(choice.hidden ? ["--hidden"] : []), ...(choice.ignored ? ["--no-ignore"] : []), "--glob", "!.git"];
}

/** Lists files without ripgrep: what git says of a repository, or all of them. */
export async function walked(directory: string, choice: Choice, signal: AbortSignal): Promise<Listing> {
  const tracked = choice.ignored ? undefined : await knownToGit(directory, signal);
  const { paths, incomplete } = tracked ?? (await everything(directory, choice.hidden, signal));
  return { paths: choice.hidden ? paths : paths.filter((path) => !isHidden(path)), incomplete };
}

async function knownToGit(directory: string, signal: AbortSignal): Promise<Listing | undefined> {
  const paths = new Set<string>();
  const words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  try {
    const ending = await searched(
      "git",
      words,
      { cwd: directory, end: "\0" },
      (path) => paths.add(path).size < MOST_FILES,
      signal,
    );
    return ending.exitCode === 0 || ending.cut ? { paths: [...paths], incomplete: ending.cut } : undefined;
  } catch {
    goOn(signal);
    return undefined;
  }
}

async function everything(directory: string, hidden: boolean, signal: AbortSignal): Promise<Listing> {
  const paths: string[] = [];
  const ahead = [""];
  for (let at = ahead.pop(); at !== undefined; at = ahead.pop()) {
    goOn(signal);
    for (const entry of await entriesOf(join(directory, at))) {
      const path = at === "" ? entry.name : `${at}/${entry.name}`;
      if (entry.name === ".git" || (!hidden && entry.name.startsWith("."))) {
        continue;
      }
      if (entry.isDirectory()) {
        ahead.push(path);
      } else if (entry.isFile() && paths.push(path) >= MOST_FILES) {
        return { paths, incomplete: true };
      }
    }
  }
  return { paths, incomplete: false };
}

async function entriesOf(directory: string): Promise<Dirent[]> {
  try {
    return await readdir(directory, { withFileTypes: true });
  } catch {
    return [];
  }
}
