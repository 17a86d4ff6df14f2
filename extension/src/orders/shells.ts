import { existsSync, readFileSync } from "node:fs";
import { readlink } from "node:fs/promises";
import { basename } from "node:path";

import { codeOf } from "./refusal";

/** Shells that read what agents write. */
const KNOWN = new Set(["bash", "zsh", "sh", "dash", "ash", "ksh", "ksh93", "mksh"]);
const OTHERS = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh"];

/** What programs must not do in a terminal where nobody reads page by page. */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  PAGER: "cat",
  GIT_PAGER: "cat",
  MANPAGER: "cat",
  SYSTEMD_PAGER: "cat",
};

/** The environment for a command, of that of VS Code's own processes. */
export function environment(own: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(own).filter(([name]) => !/^(VSCODE|ELECTRON)_/.test(name));
  return { ...Object.fromEntries(kept), ...ENVIRONMENT };
}

/** Whether a shell is one that agents' commands are for. */
export function isKnown(shell: string): boolean {
  return KNOWN.has(basename(shell));
}

/** The shell to run commands with: the user's, unless agents' commands are not for it. */
export function chosenShell(users: string): string {
  return isKnown(users) ? users : (OTHERS.find((path) => existsSync(path)) ?? users);
}

/** A word as a shell reads it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The name of the shell that a process is: one that was started may have turned into another. */
export function nameOf(pid: number | undefined, started: string): string {
  if (pid !== undefined && process.platform === "linux") {
    try {
      return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
    } catch {
      // It has ended.
    }
  }
  return basename(started);
}

/** The directory that a process is in; undefined where the system does not tell. */
export async function directoryOf(pid: number | undefined): Promise<string | undefined> {
  if (pid === undefined || process.platform !== "linux") {
    return undefined;
  }
  try {
    return await readlink(`/proc/${pid}/cwd`);
  } catch {
    return undefined;
  }
}

/** Whether a process is there; true if that cannot be known. */
export function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) {
    return true;
  }
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) !== "ESRCH";
  }
}

/** Whether something else than the shell has its terminal; false where the system does not tell. */
export function isBehind(pid: number | undefined): boolean {
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
