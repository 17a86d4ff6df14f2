import { realpath, rm } from "node:fs/promises";
import * as vscode from "vscode";

import type { RunEnded } from "../protocol";
import { type Ending, Integrated, integrationOf } from "./integrated";
import { Printing } from "./printing";
import type { PrivateDirectory } from "./private_directory";
import { Refusal } from "./refusal";
import { Scripted } from "./scripted";
import { directoryOf, isAlive, isBehind, nameOf } from "./shells";
import { sourcing } from "./showing";
import { Sourced } from "./sourced";
import { goOn, pause, unlessGivenUp } from "./waiting";

const INTERRUPT = "\x03";
const INTERRUPTED = 130;
/** Empties the line that somebody may have begun to type. */
const KILL_LINE = "\x15";
/** How long VS Code may take to learn where the shell has gone. */
const LOOKS = 10;
const LOOK = 20;
/** VS Code takes a shell that fails sooner than half a second for one that does not start, and starts another. */
const SETTLING = 750;
/** How often it is made sure that the shell is there, and how long VS Code may take to say that it is not. */
const WATCH = 500;
const LATE = 3000;

/** A terminal in which an agent's commands run, one at a time. */
export class Session implements vscode.Disposable {
  /** A command of ours is there, whether somebody waits for it or not. */
  private running = false;
  /** A command of the user's is there. */
  private users: vscode.TerminalShellExecution | undefined;
  private ours = false;
  private interrupted = false;
  /** What is typed before the command has begun, which is for the command and not for the shell. */
  private early: string | undefined;
  /** The shell did not tell about itself in time, and is not waited for again. */
  private isSilent = false;
  /** The shell has told a line in another form than it was sent; undefined as long as it has told none. */
  private retells: boolean | undefined;
  /** When the shell has been there for a while. */
  private readonly settled: Promise<void>;
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly terminal: vscode.Terminal,
    private readonly shell: string,
    private readonly files: PrivateDirectory,
  ) {
    this.settled = Promise.resolve(terminal.processId).then(() => pause(SETTLING));
    this.subscriptions = [
      vscode.window.onDidStartTerminalShellExecution((start) => {
        if (start.terminal !== terminal) {
          return;
        }
        if (this.ours) {
          this.begin();
        } else if (!files.isNamedIn(start.execution.commandLine.value)) {
          this.users = start.execution;
        }
      }),
      vscode.window.onDidEndTerminalShellExecution((end) => {
        if (end.execution === this.users) {
          this.users = undefined;
        }
      }),
    ];
  }

  get closed(): boolean {
    return this.terminal.exitStatus !== undefined;
  }

  /** Runs a command. One that is given up goes on, and the session is busy until it has ended. */
  async run(command: string, limit: number, tell: (text: string) => void, signal: AbortSignal): Promise<RunEnded> {
    if (this.running) {
      throw new Refusal("busy", "A command is still running in this terminal. Wait for it, or interrupt it.");
    }
    if (this.users !== undefined) {
      const what = this.users.commandLine.value;
      throw new Refusal("busy", `The user of the window is running something in this terminal: ${what}`);
    }
    this.running = true;
    this.interrupted = false;
    this.early = "";
    const printing = new Printing((text) => {
      if (!signal.aborted) {
        tell(text);
      }
    });
    const ended = this.carriedOut(command, limit, printing, signal).finally(() => {
      this.running = false;
      this.early = undefined;
    });
    return unlessGivenUp(ended, signal);
  }

  input(text: string): void {
    this.interrupted ||= text.includes(INTERRUPT);
    if (this.early === undefined) {
      this.terminal.sendText(text, false);
    } else {
      this.early += text;
    }
  }

  dispose(): void {
    for (const subscription of this.subscriptions) {
      subscription.dispose();
    }
    this.terminal.dispose();
  }

  private begin(): void {
    const typed = this.early ?? "";
    this.early = undefined;
    if (typed !== "") {
      this.terminal.sendText(typed, false);
    }
  }

  private async carriedOut(
    command: string,
    limit: number,
    printing: Printing,
    signal: AbortSignal,
  ): Promise<RunEnded> {
    const integration = await unlessGivenUp(integrationOf(this.terminal, this.isSilent ? 0 : limit), signal);
    this.isSilent = integration === undefined;
    await unlessGivenUp(this.settled, signal);
    goOn(signal);
    if (this.closed) {
      throw new Refusal("failed", "The terminal closed before the command could begin.");
    }
    const print = (text: string): void => printing.add(text);
    const over = new AbortController();
    try {
      return await Promise.race([
        integration === undefined
          ? this.withScript(command, print)
          : this.withIntegration(command, integration, print),
        this.shellGone(over.signal),
      ]);
    } finally {
      over.abort();
      printing.flush();
    }
  }

  /** Ends when the shell has gone and VS Code does not say so: it may have started another in its place. */
  private async shellGone(over: AbortSignal): Promise<RunEnded> {
    const pid = await this.terminal.processId;
    while (!over.aborted && isAlive(pid)) {
      await pause(WATCH);
    }
    await pause(over.aborted ? 0 : LATE);
    if (!over.aborted) {
      this.terminal.dispose();
    }
    return { kind: "run_ended", exit_code: null, cwd: "", shell_ended: true, how: "integration" };
  }

  private async withIntegration(
    command: string,
    integration: vscode.TerminalShellIntegration,
    print: (text: string) => void,
  ): Promise<RunEnded> {
    const sourced = new Sourced(this.files.fresh());
    const name = nameOf(await this.terminal.processId, this.shell);
    await sourced.prepare(command, name === "bash" && this.retells !== false);
    let ending: Ending;
    this.ours = true;
    try {
      // From a file, since some commands never come back otherwise: those of several lines, in parentheses,
      // or with an open quote.
      const line = sourcing(sourced.file, command, name);
      ending = await new Integrated(this.terminal, integration, line, sourced, print).ending;
    } finally {
      this.ours = false;
      await sourced.remove();
    }
    this.retells = this.retells === true || ending.retold;
    return {
      kind: "run_ended",
      exit_code: ending.exitCode ?? null,
      cwd: ending.closed ? "" : await this.directory(integration),
      shell_ended: ending.closed,
      how: "integration",
    };
  }

  private async withScript(command: string, print: (text: string) => void): Promise<RunEnded> {
    const pid = await this.terminal.processId;
    // A shell whose command has just ended may not have its terminal back yet.
    for (let waited = 0; isBehind(pid) && waited < LATE; waited += LOOK) {
      await pause(LOOK);
    }
    if (isBehind(pid)) {
      throw new Refusal("busy", "The user of the window is running something in this terminal.");
    }
    const directory = this.files.freshDirectory();
    // The shell may come to tell about its commands while this one runs.
    this.ours = true;
    try {
      const script = new Scripted(directory, print);
      const line = await script.prepare(command, this.shell, nameOf(pid, this.shell));
      this.terminal.sendText(KILL_LINE + line, true);
      this.begin();
      const { exitCode, cwd } = await script.follow(() => this.closed);
      const gone = exitCode === undefined && !isAlive(pid);
      for (let waited = 0; gone && !this.closed && waited < LATE; waited += LOOK) {
        await pause(LOOK);
      }
      const ended = gone || this.closed;
      const unknown = this.interrupted ? INTERRUPTED : null;
      return {
        kind: "run_ended",
        exit_code: ended ? (this.terminal.exitStatus?.code ?? null) : (exitCode ?? unknown),
        cwd: ended ? "" : cwd || ((await directoryOf(pid)) ?? ""),
        shell_ended: ended,
        how: "script",
      };
    } finally {
      this.ours = false;
      await rm(directory, { recursive: true, force: true });
    }
  }

  /** Where the shell is now: what VS Code says, once that agrees with the system. */
  private async directory(integration: vscode.TerminalShellIntegration): Promise<string> {
    const actual = await directoryOf(await this.terminal.processId);
    const told = (): string => integration.cwd?.fsPath ?? "";
    for (let look = 0; actual !== undefined && look < LOOKS; look += 1) {
      if (await isSame(told(), actual)) {
        return told();
      }
      await pause(LOOK);
    }
    return actual ?? told();
  }
}

async function isSame(one: string, other: string): Promise<boolean> {
  try {
    return (await realpath(one)) === other;
  } catch {
    return false;
  }
}
