import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";

import type { Grep, Line } from "../protocol";
import { throwIfCancelled } from "./concurrency";
import { Refusal } from "./refusal";
import { clipLine } from "./ripgrep";

/** Larger files are not searched. */
const MAX_SIZE = 16 << 20;

/** Matching lines, and whether there may be more. */
export interface GrepResult {
  lines: Line[];
  incomplete: boolean;
}

/** Compile the pattern of a search. */
export function compilePattern(order: Pick<Grep, "pattern" | "literal" | "ignore_case">): RegExp {
  const source = order.literal ? order.pattern.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&") : order.pattern;
  try {
    return new RegExp(source, order.ignore_case ? "iu" : "u");
  } catch (error) {
    throw new Refusal("bad_pattern", `The pattern is wrong: ${error instanceof Error ? error.message : ""}`);
  }
}

/** Search files without ripgrep. */
export async function grepFiles(order: Grep, directory: string, paths: string[], signal: AbortSignal): Promise<GrepResult> {
  const expression = compilePattern(order);
  const lines: Line[] = [];
  let incomplete = false;
  for (const path of paths.sort()) {
    throwIfCancelled(signal);
    const text = await readText(join(directory, path));
    if (text === undefined) {
      incomplete = true;
    } else {
      lines.push(...matchingLines(order, path, text, expression));
    }
    if (lines.length > order.most) {
      return { lines: lines.slice(0, order.most), incomplete: true };
    }
  }
  return { lines, incomplete };
}

/** The matching lines of a text, with their context. */
export function matchingLines(order: Pick<Grep, "before" | "after">, path: string, text: string, expression: RegExp): Line[] {
  const all = text.split("\n").map((line) => line.replace(/\r$/, ""));
  if (all.at(-1) === "") {
    all.pop();
  }
  const clipAll = (lines: string[]): string[] => lines.map((line) => clipLine(line, 0));
  return all.flatMap((line, index) => {
    const match = expression.exec(line);
    const before = clipAll(all.slice(Math.max(0, index - order.before), index));
    const after = clipAll(all.slice(index + 1, index + 1 + order.after));
    return match === null ? [] : [{ path, line: index + 1, text: clipLine(line, match.index), before, after }];
  });
}

/** The text of a file, empty for a binary file; undefined if it is too large or cannot be read. */
async function readText(path: string): Promise<string | undefined> {
  try {
    if ((await stat(path)).size > MAX_SIZE) {
      return undefined;
    }
    const data = await readFile(path);
    return data.includes(0) ? "" : data.toString("utf8");
  } catch {
    return undefined;
  }
}
