import { spawn } from "node:child_process";
import { constants } from "node:fs";
import { access, readdir } from "node:fs/promises";
import { delimiter, join } from "node:path";

import { goOn } from "./waiting";

const NAME = process.platform === "win32" ? "rg.exe" : "rg";
/** What a program may say about its failure. */
const MOST_SAID = 4000;

/** How a search by a program ended. */
export interface Searched {
  exitCode: number | null;
  errors: string;
  /** `take` had enough. */
  cut: boolean;
}

/** The ripgrep that VS Code brings, or one of the system; undefined if there is none. */
export async function findRipgrep(appRoot: string, path = process.env.PATH ?? ""): Promise<string | undefined> {
  const own = (await Promise.all(["node_modules", "node_modules.asar.unpacked"].map((name) => brought(appRoot, name)))).flat();
  const ofSystem = path.split(delimiter).filter(Boolean).map((directory) => join(directory, NAME));
  for (const candidate of [...own, ...ofSystem]) {
    if (await isProgram(candidate)) {
      return candidate;
    }
  }
  return undefined;
}

/** Where packages of ripgrep have their program: they are several, and not all have one for each system. */
async function brought(appRoot: string, modules: string): Promise<string[]> {
  const scope = join(appRoot, modules, "@vscode");
  const packages = (await namesIn(scope)).filter((name) => name.startsWith("ripgrep"));
  const system = `${process.platform}-${process.arch}`;
  return packages.flatMap((name) => [join(scope, name, "bin", NAME), join(scope, name, "bin", system, NAME)]);
}

/** Runs a program and hands over what it prints, record by record, until `take` says that it is enough. */
export function searched(
  program: string,
  words: string[],
  options: { cwd: string; end: string },
  take: (record: string) => boolean,
  signal: AbortSignal,
): Promise<Searched> {
  goOn(signal);
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, { cwd: options.cwd, stdio: ["ignore", "pipe", "pipe"] });
    const stop = (): boolean => child.kill("SIGKILL");
    signal.addEventListener("abort", stop, { once: true });
    let [held, errors, cut] = ["", "", false];
    child.stdout.setEncoding("utf8").on("data", (data: string) => {
      const records = (held + data).split(options.end);
      held = records.pop() ?? "";
      for (const record of records) {
        if (!cut && !take(record)) {
          cut = true;
          stop();
        }
      }
    });
    child.stderr.setEncoding("utf8").on("data", (data: string) => {
      errors = (errors + data).slice(0, MOST_SAID);
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
