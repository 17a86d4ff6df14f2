import { stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import * as vscode from "vscode";

import type { Found, Glob, Grep, Line, Lines } from "../protocol";
import type { Containment } from "./containment";
import { includeMatcher, matcher, namesHidden } from "./globs";
import { Matches } from "./matches";
import { Refusal } from "./refusal";
import { findRipgrep, searched } from "./ripgrep";
import { scanned } from "./scanning";
import { goOn } from "./waiting";
import { type Choice, chosen, listed, type Listing, walked } from "./walking";

/** So many files are looked at together. */
const TOGETHER = 64;

/** Finds files by name and lines by content. */
export class Search {
  private ripgrep: Promise<string | undefined> | undefined;

  constructor(private readonly containment: Containment) {}

  async glob(order: Glob, signal: AbortSignal): Promise<Found> {
    const place = await this.containment.inside(order.path);
    if (!(await stat(place.path)).isDirectory()) {
      throw new Refusal("not_directory", `${order.path} is not a directory.`);
    }
    const matches = matcher(order.pattern.replace(/^\.\//, ""), order.hidden);
    const choice = { hidden: order.hidden || namesHidden(order.pattern), ignored: order.ignored };
    const listing = await this.list(place.path, choice, signal);
    const paths = listing.paths.filter(matches).map((path) => join(place.path, path));
    const sorted = await newestFirst(paths, signal);
    return {
      kind: "found",
      paths: sorted.slice(0, order.most),
      incomplete: listing.incomplete || sorted.length > order.most,
    };
  }

  async grep(order: Grep, signal: AbortSignal): Promise<Lines> {
    const place = await this.containment.inside(order.path);
    const isDirectory = (await stat(place.path)).isDirectory();
    const directory = isDirectory ? place.path : dirname(place.path);
    const file = isDirectory ? "" : basename(place.path);
    const wanted = order.include === "" || !isDirectory ? (): boolean => true : includeMatcher(order.include);
    const rg = await this.program();
    const { lines, incomplete } =
      rg === undefined
        ? await this.scan(order, directory, file, wanted, signal)
        : await grepped(rg, order, { directory, file, wanted }, signal);
    goOn(signal);
    return { kind: "lines", lines: lines.map((line) => ({ ...line, path: join(directory, line.path) })), incomplete };
  }

  private async scan(
    order: Grep,
    directory: string,
    file: string,
    wanted: (path: string) => boolean,
    signal: AbortSignal,
  ): Promise<{ lines: Line[]; incomplete: boolean }> {
    const listing = file === "" ? await walked(directory, order, signal) : { paths: [file], incomplete: false };
    const found = await scanned(order, directory, listing.paths.filter(wanted), signal);
    return { lines: found.lines, incomplete: found.incomplete || listing.incomplete };
  }

  private async list(directory: string, choice: Choice, signal: AbortSignal): Promise<Listing> {
    const rg = await this.program();
    return rg === undefined ? walked(directory, choice, signal) : listed(rg, directory, choice, signal);
  }

  private program(): Promise<string | undefined> {
    this.ripgrep ??= findRipgrep(vscode.env.appRoot);
    return this.ripgrep;
  }
}

/** Where a search looks: all of a directory, or one file of it. */
interface Where {
  directory: string;
  file: string;
  wanted: (path: string) => boolean;
}

async function grepped(
  rg: string,
  order: Grep,
  where: Where,
  signal: AbortSignal,
): Promise<{ lines: Line[]; incomplete: boolean }> {
  const isWanted = (path: string): boolean => where.wanted(path.replace(/^\.\//, ""));
  const matches = new Matches(order.before, order.after, isWanted);
  const words = [
    ...["--json", "--no-config", "--no-messages", "--sort", "path"],
    ...chosen(order),
    ...(order.literal ? ["--fixed-strings"] : []),
    ...(order.ignore_case ? ["--ignore-case"] : []),
    ...["--before-context", order.before.toString(), "--after-context", order.after.toString()],
    ...["--regexp", order.pattern, "--", where.file === "" ? "./" : `./${where.file}`],
  ];
  const take = (record: string): boolean => {
    matches.take(record);
    // One more than is wanted, to know that there is more; and what comes after the last one.
    return matches.lines.length <= order.most;
  };
  const ending = await searched(rg, words, { cwd: where.directory, end: "\n" }, take, signal);
  matches.finish();
  if (ending.exitCode === 2 && /regex|pattern/i.test(ending.errors)) {
    throw new Refusal("bad_pattern", `The pattern is wrong: ${ending.errors.trim()}`);
  }
  const lines = matches.lines.slice(0, order.most);
  return {
    lines: lines.map((line) => ({ ...line, path: line.path.replace(/^\.\//, "") })),
    incomplete: ending.cut,
  };
}

async function newestFirst(paths: string[], signal: AbortSignal): Promise<string[]> {
  const times = new Map<string, number>();
  for (let at = 0; at < paths.length; at += TOGETHER) {
    goOn(signal);
    await Promise.all(paths.slice(at, at + TOGETHER).map(async (path) => times.set(path, await modified(path))));
  }
  const time = (path: string): number => times.get(path) ?? 0;
  return paths.sort((one, other) => time(other) - time(one) || (one < other ? -1 : 1));
}

async function modified(path: string): Promise<number> {
  try {
    return (await stat(path)).mtimeMs;
  } catch {
    return 0;
  }
}
