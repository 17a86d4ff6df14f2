import { spawn } from "node:child_process";
import { constants } from "node:fs";
import { access, readdir } from "node:fs/promises";
import { delimiter, join } from "node:path";

import type { Line } from "../protocol";
import { throwIfCancelled } from "./concurrency";

const NAME = process.platform === "win32" ? "rg.exe" : "rg";
/** The most characters of error output. */
const MAX_ERRORS = 4000;

/** A longer line is clipped around its match. */
const MAX_LINE = 1000;
const ELLIPSIS = "[…]";


/** The end of a search program. */
export interface SearchEnd {
  exitCode: number | null;
  errors: string;
  /** `take` returned false. */
  cut: boolean;
}

/** The path of the ripgrep of VS Code, else of the system; undefined if there is none. */
export async function findRipgrep(appRoot: string, path = process.env.PATH ?? ""): Promise<string | undefined> {
  const own = (await Promise.all(["node_modules", "node_modules.asar.unpacked"].map((name) => bundledPaths(appRoot, name)))).flat();
  const ofSystem = path.split(delimiter).filter(Boolean).map((directory) => join(directory, NAME));
  for (const candidate of [...own, ...ofSystem]) {
    if (await isProgram(candidate)) {
      return candidate;
    }
  }
  return undefined;
}

/** Where the ripgrep packages may have their program: they differ between versions of VS Code. */
async function bundledPaths(appRoot: string, modules: string): Promise<string[]> {
  const scope = join(appRoot, modules, "@vscode");
  const packages = (await namesIn(scope)).filter((name) => name.startsWith("ripgrep"));
  const system = `${process.platform}-${process.arch}`;
  return packages.flatMap((name) => [join(scope, name, "bin", NAME), join(scope, name, "bin", system, NAME)]);
}

/** Run a search program and pass each record of its output to `take`, until that returns false. */
export function runSearch(
  program: string,
  parameters: string[],
  options: { cwd: string; end: string },
  take: (record: string) => boolean,
  signal: AbortSignal,
): Promise<SearchEnd> {
  throwIfCancelled(signal);
  return new Promise((resolve, reject) => {
    const child = spawn(program, parameters, { cwd: options.cwd, stdio: ["ignore", "pipe", "pipe"] });
    const stop = (): boolean => child.kill("SIGKILL");
    signal.addEventListener("abort", stop, { once: true });
    let [buffer, errors, cut] = ["", "", false];
    child.stdout.setEncoding("utf8").on("data", (data: string) => {
      const records = (buffer + data).split(options.end);
      buffer = records.pop() ?? "";
      for (const record of records) {
        if (!cut && !take(record)) {
          cut = true;
          stop();
        }
      }
    });
    child.stderr.setEncoding("utf8").on("data", (data: string) => {
      errors = (errors + data).slice(0, MAX_ERRORS);
    });
    child.once("error", reject);
    child.once("close", (exitCode) => {
      signal.removeEventListener("abort", stop);
      resolve({ exitCode, errors, cut });
    });
  });
}

async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch {
    return [];
  }
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Text in the output of `ripgrep --json`; base64 if it is not UTF-8. */
interface RipgrepText {
  text?: string;
  bytes?: string;
}
/** A record of that output. */
interface RipgrepRecord {
  type: string;
  data: { path?: RipgrepText; lines?: RipgrepText; line_number?: number | null; submatches?: { start: number }[] };
}

/** Collects matching lines and their context from ripgrep's output. */
export class MatchCollector {
  readonly lines: Line[] = [];
  private readonly context = new Map<number, string>();
  /** The matching lines of the current file. */
  private inFile: Line[] = [];

  constructor(
    private readonly before: number,
    private readonly after: number,
    private readonly wanted: (path: string) => boolean,
  ) {}

  /** Add one record. */
  add(record: string): void {
    if (record === "") {
      return;
    }
    const { type, data } = JSON.parse(record) as RipgrepRecord;
    if (type === "end") {
      this.finish();
    } else if (type === "match" || type === "context") {
      this.addLine(type === "match", data);
    }
  }

  /** Add the context to the matching lines of a file. */
  finish(): void {
    for (const line of this.inFile) {
      line.before = this.contextLines(line.line - this.before, line.line - 1);
      line.after = this.contextLines(line.line + 1, line.line + this.after);
    }
    this.inFile = [];
    this.context.clear();
  }

  private addLine(matches: boolean, data: RipgrepRecord["data"]): void {
    const path = decode(data.path);
    const number = data.line_number ?? 0;
    if (!this.wanted(path)) {
      return;
    }
    const whole = decode(data.lines).replace(/\r?\n$/, "");
    if (this.before > 0 || this.after > 0) {
      this.context.set(number, clipLine(whole, 0));
    }
    if (matches) {
      const line = { path, line: number, text: clipLine(whole, matchColumn(data)), before: [], after: [] };
      this.lines.push(line);
      this.inFile.push(line);
    }
  }

  private contextLines(first: number, last: number): string[] {
    const found: string[] = [];
    for (let number = first; number <= last; number += 1) {
      const text = this.context.get(number);
      if (text !== undefined) {
        found.push(text);
      }
    }
    return found;
  }
}

function decode(text: RipgrepText | undefined): string {
  return text?.text ?? Buffer.from(text?.bytes ?? "", "base64").toString("utf8");
}

/** The column of the match in its line, in characters: ripgrep counts bytes. */
function matchColumn(data: RipgrepRecord["data"]): number {
  const bytes = data.submatches?.[0]?.start ?? 0;
  return Buffer.from(decode(data.lines), "utf8").subarray(0, bytes).toString("utf8").length;
}

/** A line, or the part around the column `at` if it is long. */
export function clipLine(line: string, at: number): string {
  if (line.length <= MAX_LINE) {
    return line;
  }
  const start = Math.max(0, Math.min(at - MAX_LINE / 4, line.length - MAX_LINE));
  const end = start + MAX_LINE;
  // Without halves of surrogate pairs at its ends.
  const part = line.slice(start, end).replace(/^[\udc00-\udfff]/, "").replace(/[\ud800-\udbff]$/, "");
  return (start > 0 ? ELLIPSIS : "") + part + (end < line.length ? ELLIPSIS : "");
}
