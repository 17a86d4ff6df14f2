import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { readlink } from "node:fs/promises";
import { basename } from "node:path";
import { promisify } from "node:util";

import { sleep } from "../timing";
import { errorCode } from "./refusal";

/** Shells that understand agents' commands. */
const KNOWN = new Set(["bash", "zsh", "sh", "dash", "ash", "ksh", "ksh93", "mksh"]);
const FALLBACKS = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh"];

/** How often, and after how many milliseconds, to look whether a shell has a prompt. */
const PROMPT_LOOKS = 50;
const PROMPT_POLL = 10;

/** No pagers: nobody reads page by page. */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  PAGER: "cat",
  GIT_PAGER: "cat",
  MANPAGER: "cat",
  SYSTEMD_PAGER: "cat",
};

/** The environment for commands: VS Code's own, without its variables. */
export function environment(own: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const inherited = Object.entries(own).filter(([name]) => !/^(VSCODE|ELECTRON)_/.test(name));
  return { ...Object.fromEntries(inherited), ...ENVIRONMENT };
}

export function isKnown(shell: string): boolean {
  return KNOWN.has(basename(shell));
}

/** The shell to run commands with: the user's, unless it is not known. */
export function chooseShell(users: string): string {
  return isKnown(users) ? users : (FALLBACKS.find((path) => existsSync(path)) ?? users);
}

/** Quote a word for a shell. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The name of the shell in a process, which may have executed another one than was started. */
export function shellName(pid: number | undefined, started: string): string {
  if (pid !== undefined && process.platform === "linux") {
    try {
      return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
    } catch {
      // It has ended.
    }
  }
  return basename(started);
}

/** The working directory of a process; undefined where the system has no such information. */
export async function workingDirectory(pid: number | undefined): Promise<string | undefined> {
  if (pid === undefined || process.platform !== "linux") {
    return undefined;
  }
  try {
    return await readlink(`/proc/${pid}/cwd`);
  } catch {
    return undefined;
  }
}

/** Whether a process is running; true if that is not known. */
export function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) {
    return true;
  }
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) !== "ESRCH";
  }
}

/** Whether another process group has the foreground of the shell's terminal; false if that is not known. */
export function isInBackground(pid: number | undefined): boolean {
  if (pid === undefined || process.platform !== "linux") {
    return false;
  }
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.split(" ") ?? [];
    const [group, foreground] = [fields[2], fields[5]];
    return group !== foreground;
  } catch {
    return false;
  }
}

/** Wait for a moment until a shell reads a line: what comes before is echoed twice. It reads single characters then. */
export async function waitForPrompt(pid: number | undefined): Promise<void> {
  if (pid === undefined || process.platform !== "linux") {
    return;
  }
  for (let look = 0; look < PROMPT_LOOKS; look += 1) {
    try {
      const terminal = await readlink(`/proc/${pid}/fd/0`);
      const { stdout } = await promisify(execFile)("stty", ["-F", terminal, "-a"]);
      if (stdout.includes("-icanon")) {
        return;
      }
    } catch {
      return;
    }
    await sleep(PROMPT_POLL);
  }
}
