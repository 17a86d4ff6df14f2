import type { Dirent } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";

import { throwIfCancelled } from "./concurrency";
import { isHidden } from "./globs";
import { runSearch } from "./ripgrep";

/** The most files in a listing. */
const MAX_FILES = 500_000;

/** Which files a search includes. */
export interface FileFilter {
  /** Also files whose names start with a dot. */
  hidden: boolean;
  /** Also files that git ignores. */
  ignored: boolean;
}

/** Files below a directory, by their relative paths. */
export interface Listing {
  paths: string[];
  incomplete: boolean;
}

/** List files with ripgrep. */
export async function listWithRipgrep(rg: string, directory: string, filter: FileFilter, signal: AbortSignal): Promise<Listing> {
  const paths: string[] = [];
  const parameters = ["--files", "--null", "--no-messages", "--no-config", ...filterArguments(filter)];
  const end = await runSearch(
    rg,
    parameters,
    { cwd: directory, end: "\0" },
    (path) => paths.push(path.replace(/^\.\//, "").replaceAll("\\", process.platform === "win32" ? "/" : "\\")) < MAX_FILES,
    signal,
  );
  throwIfCancelled(signal);
  return { paths, incomplete: end.cut };
}

/** The arguments of ripgrep for a filter; `.git` is never included. */
export function filterArguments(filter: FileFilter): string[] {
  return [...(filter.hidden ? ["--hidden"] : []), ...(filter.ignored ? ["--no-ignore"] : []), "--glob", "!.git"];
}

/** List files without ripgrep: with git in a repository, else by walking the directories. */
export async function listWithoutRipgrep(directory: string, filter: FileFilter, signal: AbortSignal): Promise<Listing> {
  const tracked = filter.ignored ? undefined : await listWithGit(directory, signal);
  const { paths, incomplete } = tracked ?? (await walk(directory, filter.hidden, signal));
  return { paths: filter.hidden ? paths : paths.filter((path) => !isHidden(path)), incomplete };
}

async function listWithGit(directory: string, signal: AbortSignal): Promise<Listing | undefined> {
  const paths = new Set<string>();
  const parameters = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  try {
    const end = await runSearch(
      "git",
      parameters,
      { cwd: directory, end: "\0" },
      (path) => paths.add(path).size < MAX_FILES,
      signal,
    );
    return end.exitCode === 0 || end.cut ? { paths: [...paths], incomplete: end.cut } : undefined;
  } catch {
    throwIfCancelled(signal);
    return undefined;
  }
}

async function walk(directory: string, hidden: boolean, signal: AbortSignal): Promise<Listing> {
  const paths: string[] = [];
  const ahead = [""];
  for (let at = ahead.pop(); at !== undefined; at = ahead.pop()) {
    throwIfCancelled(signal);
    for (const entry of await readEntries(join(directory, at))) {
      const path = at === "" ? entry.name : `${at}/${entry.name}`;
      if (entry.name === ".git" || (!hidden && entry.name.startsWith("."))) {
        continue;
      }
      if (entry.isDirectory()) {
        ahead.push(path);
      } else if (entry.isFile() && paths.push(path) >= MAX_FILES) {
        return { paths, incomplete: true };
      }
    }
  }
  return { paths, incomplete: false };
}

async function readEntries(directory: string): Promise<Dirent[]> {
  try {
    return await readdir(directory, { withFileTypes: true });
  } catch {
    return [];
  }
}
