import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { StringDecoder } from "node:string_decoder";

import type { RunEnded } from "../protocol";
import { Printing, TerminalLines } from "./printing";
import { refusalOf } from "./refusal";
import { environment } from "./shells";
import { goOn, unlessGivenUp } from "./waiting";

/** How long the output of a command that ended may be late; something in the background may hold it for ever. */
const LATE = 500;
/** How long a command has for ending when it is asked to. */
const PATIENCE = 2000;
/** One pipe for what is printed and for errors, so that they stay in order. */
const LAUNCHER = 'exec 2>&1; exec "$0" -c "$1"';

/** Runs commands as processes of their own, each with all that it starts in a group. */
export class Apart {
  private readonly running = new Set<ChildProcess>();

  /** `show` gets what is printed, too. */
  constructor(private readonly show: (text: string) => void) {}

  async run(
    command: string,
    place: { shell: string; cwd: string },
    tell: (text: string) => void,
    signal: AbortSignal,
  ): Promise<RunEnded> {
    goOn(signal);
    this.show(`$ ${new TerminalLines().take(command)}\r\n`);
    const child = spawn("/bin/sh", ["-c", LAUNCHER, place.shell, command], {
      cwd: place.cwd,
      detached: true,
      env: environment(process.env),
      stdio: ["ignore", "pipe", "ignore"],
    });
    this.running.add(child);
    const stop = (): void => end(child);
    signal.addEventListener("abort", stop, { once: true });
    try {
      const exitCode = await unlessGivenUp(this.followed(child, tell, signal), signal, 2 * PATIENCE);
      goOn(signal);
      return { kind: "run_ended", exit_code: exitCode, cwd: place.cwd, shell_ended: false, how: "process" };
    } finally {
      signal.removeEventListener("abort", stop);
      this.running.delete(child);
    }
  }

  /** Ends all that runs. */
  stop(): void {
    for (const child of this.running) {
      end(child);
    }
  }

  private async followed(child: ChildProcess, tell: (text: string) => void, signal: AbortSignal): Promise<number> {
    let waitedFor = true;
    const printing = new Printing((text) => {
      if (waitedFor && !signal.aborted) {
        tell(text);
      }
    });
    const decoder = new StringDecoder("utf8");
    const lines = new TerminalLines();
    const print = (text: string): void => {
      const shown = lines.take(text);
      if (shown !== "") {
        this.show(shown);
        printing.add(shown);
      }
    };
    // Read to its end, whoever waits: what goes on in the background must be able to print.
    child.stdout?.on("data", (data: Buffer) => print(decoder.write(data)));
    try {
      return await ended(child);
    } catch (error) {
      throw refusalOf(error, "The command");
    } finally {
      print(decoder.end());
      printing.flush();
      waitedFor = false;
    }
  }
}

/** The exit code of a process, when it and its output have ended. */
function ended(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signalName) => {
      const result = code ?? 128 + (signalName === null ? 0 : constants.signals[signalName]);
      const timer = setTimeout(() => resolve(result), LATE);
      child.once("close", () => {
        clearTimeout(timer);
        resolve(result);
      });
    });
  });
}

/** Ends a process and all of its group: asks first. */
function end(child: ChildProcess): void {
  signalGroup(child, "SIGTERM");
  const timer = setTimeout(() => signalGroup(child, "SIGKILL"), PATIENCE);
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
