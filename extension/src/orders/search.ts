import { stat } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import * as vscode from "vscode";

import type { Found, Glob, Grep, Lines } from "../protocol";
import { throwIfCancelled } from "./concurrency";
import type { Containment } from "./containment";
import { grepFiles, type GrepResult } from "./fallback_grep";
import { filterArguments, type FileFilter, type Listing, listWithoutRipgrep, listWithRipgrep } from "./file_listing";
import { excluder, includeMatcher, type Matcher, matcher, namesHidden } from "./globs";
import { Refusal } from "./refusal";
import { findRipgrep, MatchCollector, runSearch } from "./ripgrep";

/** How many files are inspected at the same time. */
const BATCH = 64;

/** Finds files by name and lines by content. */
export class Search {
  private ripgrepPath: Promise<string | undefined> | undefined;

  constructor(private readonly containment: Containment) {}

  async glob(order: Glob, signal: AbortSignal): Promise<Found> {
    const place = await this.containment.resolve(order.path);
    if (!(await stat(place.path)).isDirectory()) {
      throw new Refusal("not_directory", `${order.path} is not a directory.`);
    }
    const matches = matcher(order.pattern.replace(/^\.\//, ""), order.hidden);
    const filter = { hidden: order.hidden || namesHidden(order.pattern), ignored: order.ignored };
    const listing = await this.list(place.path, filter, signal);
    const isExcluded = excludedBelow(place.path, order.ignored);
    const paths = listing.paths.filter((path) => matches(path) && !isExcluded(path)).map((path) => join(place.path, path));
    const sorted = await newestFirst(paths, signal);
    return {
      kind: "found",
      paths: sorted.slice(0, order.most),
      incomplete: listing.incomplete || sorted.length > order.most,
    };
  }

  async grep(order: Grep, signal: AbortSignal): Promise<Lines> {
    const place = await this.containment.resolve(order.path);
    const isDirectory = (await stat(place.path)).isDirectory();
    const directory = isDirectory ? place.path : dirname(place.path);
    const file = isDirectory ? "" : basename(place.path);
    const isIncluded = order.include === "" || !isDirectory ? (): boolean => true : includeMatcher(order.include);
    const isExcluded = excludedBelow(directory, order.ignored || !isDirectory);
    const wanted: Matcher = (path) => isIncluded(path) && !isExcluded(path);
    const rg = await this.ripgrep();
    const { lines, incomplete } =
      rg === undefined
        ? await this.grepWithoutRipgrep(order, directory, file, wanted, signal)
        : await grepWithRipgrep(rg, order, { directory, file, wanted }, signal);
    throwIfCancelled(signal);
    return { kind: "lines", lines: lines.map((line) => ({ ...line, path: join(directory, line.path) })), incomplete };
  }

  private async grepWithoutRipgrep(
    order: Grep,
    directory: string,
    file: string,
    wanted: (path: string) => boolean,
    signal: AbortSignal,
  ): Promise<GrepResult> {
    const listing = file === "" ? await listWithoutRipgrep(directory, order, signal) : { paths: [file], incomplete: false };
    const found = await grepFiles(order, directory, listing.paths.filter(wanted), signal);
    return { lines: found.lines, incomplete: found.incomplete || listing.incomplete };
  }

  private async list(directory: string, filter: FileFilter, signal: AbortSignal): Promise<Listing> {
    const rg = await this.ripgrep();
    return rg === undefined ? listWithoutRipgrep(directory, filter, signal) : listWithRipgrep(rg, directory, filter, signal);
  }

  private ripgrep(): Promise<string | undefined> {
    this.ripgrepPath ??= findRipgrep(vscode.env.appRoot);
    return this.ripgrepPath;
  }
}

/** What the user excludes from searches below a directory, unless ignored files are searched, too. */
function excludedBelow(directory: string, ignored: boolean): Matcher {
  const uri = vscode.Uri.file(directory);
  const folder = vscode.workspace.getWorkspaceFolder(uri);
  const patterns = ["files", "search"].flatMap((section) =>
    Object.entries(vscode.workspace.getConfiguration(section, uri).get<Record<string, unknown>>("exclude", {})),
  );
  // Conditions on files beside a file are left out.
  const excluded = patterns.filter(([, value]) => value === true).map(([pattern]) => pattern);
  const prefix = folder === undefined ? "" : relative(folder.uri.fsPath, directory).replaceAll("\\", "/");
  return excluder(ignored ? [] : excluded, prefix);
}

/** What is searched: a directory, or one file in it. */
interface Scope {
  directory: string;
  file: string;
  wanted: (path: string) => boolean;
}

async function grepWithRipgrep(
  rg: string,
  order: Grep,
  scope: Scope,
  signal: AbortSignal,
): Promise<GrepResult> {
  const isWanted = (path: string): boolean => scope.wanted(path.replace(/^\.\//, ""));
  const matches = new MatchCollector(order.before, order.after, isWanted);
  const parameters = [
    ...["--json", "--no-config", "--no-messages", "--sort", "path"],
    ...filterArguments(order),
    ...(order.literal ? ["--fixed-strings"] : []),
    ...(order.ignore_case ? ["--ignore-case"] : []),
    ...["--before-context", order.before.toString(), "--after-context", order.after.toString()],
    ...["--regexp", order.pattern, "--", scope.file === "" ? "./" : `./${scope.file}`],
  ];
  const take = (record: string): boolean => {
    matches.add(record);
    // One more than requested, to know whether there are more, and for the context after the last one.
    return matches.lines.length <= order.most;
  };
  const end = await runSearch(rg, parameters, { cwd: scope.directory, end: "\n" }, take, signal);
  matches.finish();
  if (end.exitCode === 2 && /regex|pattern/i.test(end.errors)) {
    throw new Refusal("bad_pattern", `The pattern is wrong: ${end.errors.trim()}`);
  }
  const lines = matches.lines.slice(0, order.most);
  return {
    lines: lines.map((line) => ({ ...line, path: line.path.replace(/^\.\//, "") })),
    incomplete: end.cut,
  };
}

async function newestFirst(paths: string[], signal: AbortSignal): Promise<string[]> {
  const times = new Map<string, number>();
  for (let at = 0; at < paths.length; at += BATCH) {
    throwIfCancelled(signal);
    await Promise.all(paths.slice(at, at + BATCH).map(async (path) => times.set(path, await modificationTime(path))));
  }
  const time = (path: string): number => times.get(path) ?? 0;
  return paths.sort((one, other) => time(other) - time(one) || (one < other ? -1 : 1));
}

async function modificationTime(path: string): Promise<number> {
  try {
    return (await stat(path)).mtimeMs;
  } catch {
    return 0;
  }
}
