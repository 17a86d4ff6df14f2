import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { StringDecoder } from "node:string_decoder";

import type { RunEnded } from "../protocol";
import { throwIfCancelled, unlessCancelled } from "./concurrency";
import { NewlineConverter, OutputBatcher } from "./output_batcher";
import { toRefusal } from "./refusal";
import { environment } from "./shells";

/** How long to wait for the rest of the output after a command has ended; its children may keep the pipe open. */
const OUTPUT_MS = 500;
/** How long a command may take to end after SIGTERM. */
const TERM_MS = 2000;
/** One pipe for stdout and stderr, so that their order is preserved. */
const LAUNCHER = 'exec 2>&1; exec "$0" -c "$1"';

/** Runs commands without a terminal, each in a process group of its own. */
export class BackgroundProcesses {
  private readonly running = new Set<ChildProcess>();

  /** `show` receives the output, too. */
  constructor(private readonly show: (text: string) => void) {}

  async run(
    command: string,
    place: { shell: string; cwd: string; environment?: Record<string, string> },
    print: (text: string) => void,
    signal: AbortSignal,
  ): Promise<RunEnded> {
    throwIfCancelled(signal);
    this.show(`$ ${new NewlineConverter().convert(command)}\r\n`);
    const child = spawn("/bin/sh", ["-c", LAUNCHER, place.shell, command], {
      cwd: place.cwd,
      detached: true,
      env: { ...environment(process.env), ...place.environment },
      stdio: ["ignore", "pipe", "ignore"],
    });
    this.running.add(child);
    const stop = (): void => end(child);
    signal.addEventListener("abort", stop, { once: true });
    try {
      const code = await unlessCancelled(this.follow(child, print, signal), signal, 2 * TERM_MS);
      throwIfCancelled(signal);
      return { kind: "run_ended", exit_code: code, cwd: place.cwd, shell_ended: false, how: "process" };
    } finally {
      signal.removeEventListener("abort", stop);
      this.running.delete(child);
    }
  }

  /** End all running commands. */
  stop(): void {
    for (const child of this.running) {
      end(child);
    }
  }

  private async follow(child: ChildProcess, print: (text: string) => void, signal: AbortSignal): Promise<number> {
    let ended = false;
    const batcher = new OutputBatcher((text) => {
      if (!ended && !signal.aborted) {
        print(text);
      }
    });
    const decoder = new StringDecoder("utf8");
    const newlines = new NewlineConverter();
    const addOutput = (text: string): void => {
      const shown = newlines.convert(text);
      if (shown !== "") {
        this.show(shown);
        batcher.add(shown);
      }
    };
    // Read until the pipe closes, also after the command has ended: its children may still write to it.
    child.stdout?.on("data", (data: Buffer) => addOutput(decoder.write(data)));
    try {
      return await exitCode(child);
    } catch (error) {
      throw toRefusal(error, "The command");
    } finally {
      addOutput(decoder.end());
      batcher.flush();
      ended = true;
    }
  }
}

/** The exit code of a process, once it has ended and its output is complete. */
function exitCode(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (status, signalName) => {
      const result = status ?? 128 + (signalName === null ? 0 : constants.signals[signalName]);
      const timer = setTimeout(() => resolve(result), OUTPUT_MS);
      child.once("close", () => {
        clearTimeout(timer);
        resolve(result);
      });
    });
  });
}

/** End a process group: with SIGTERM, then with SIGKILL. */
function end(child: ChildProcess): void {
  signalGroup(child, "SIGTERM");
  const timer = setTimeout(() => signalGroup(child, "SIGKILL"), TERM_MS);
  timer.unref();
  child.once("close", () => clearTimeout(timer));
}

function signalGroup(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid === undefined) {
    return;
  }
  try {
    process.kill(-child.pid, name);
  } catch {
    // It has ended.
  }
}
