import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";

import type { Grep, Line } from "../protocol";
import { clipped } from "./matches";
import { Refusal } from "./refusal";
import { goOn } from "./waiting";

/** Larger files are left out where there is no ripgrep. */
const LARGEST = 16 << 20;

/** Lines that match, and whether there may be more. */
export interface Scan {
  lines: Line[];
  incomplete: boolean;
}

/** The expression of a search, in JavaScript's words. */
export function expressionOf(order: Pick<Grep, "pattern" | "literal" | "ignore_case">): RegExp {
  const source = order.literal ? order.pattern.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&") : order.pattern;
  try {
    return new RegExp(source, order.ignore_case ? "iu" : "u");
  } catch (error) {
    throw new Refusal("bad_pattern", `The pattern is wrong: ${error instanceof Error ? error.message : ""}`);
  }
}

/** Searches files one after the other, where there is no ripgrep. */
export async function scanned(order: Grep, directory: string, paths: string[], signal: AbortSignal): Promise<Scan> {
  const expression = expressionOf(order);
  const lines: Line[] = [];
  let incomplete = false;
  for (const path of paths.sort()) {
    goOn(signal);
    const text = await textAt(join(directory, path));
    if (text === undefined) {
      incomplete = true;
    } else {
      lines.push(...linesOf(order, path, text, expression));
    }
    if (lines.length > order.most) {
      return { lines: lines.slice(0, order.most), incomplete: true };
    }
  }
  return { lines, incomplete };
}

/** The lines of a text that match, with those around them. */
export function linesOf(order: Pick<Grep, "before" | "after">, path: string, text: string, expression: RegExp): Line[] {
  const all = text.split("\n").map((line) => line.replace(/\r$/, ""));
  if (all.at(-1) === "") {
    all.pop();
  }
  const short = (lines: string[]): string[] => lines.map((line) => clipped(line, 0));
  return all.flatMap((line, index) => {
    const match = expression.exec(line);
    const before = short(all.slice(Math.max(0, index - order.before), index));
    const after = short(all.slice(index + 1, index + 1 + order.after));
    return match === null ? [] : [{ path, line: index + 1, text: clipped(line, match.index), before, after }];
  });
}

/** The text of a file, nothing for one that is binary; undefined if it is too large or cannot be read. */
async function textAt(path: string): Promise<string | undefined> {
  try {
    if ((await stat(path)).size > LARGEST) {
      return undefined;
    }
    const data = await readFile(path);
    return data.includes(0) ? "" : data.toString("utf8");
  } catch {
    return undefined;
  }
}
