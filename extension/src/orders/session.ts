import { realpath, rm } from "node:fs/promises";
import * as vscode from "vscode";

import type { RunEnded } from "../protocol";
import { sleep } from "../timing";
import { CommandFile } from "./command_file";
import { isTypable } from "./command_line";
import { throwIfCancelled, unlessCancelled } from "./concurrency";
import { IntegratedCommand, INTERRUPTED, waitForIntegration } from "./integrated_command";
import { OutputBatcher } from "./output_batcher";
import type { PrivateDirectory } from "./private_directory";
import { Refusal } from "./refusal";
import { ScriptedCommand } from "./scripted_command";
import { isAlive, isInBackground, shellName, waitForPrompt, workingDirectory } from "./shells";

const INTERRUPT = "\x03";
/** Commands that may change how the shell reports lines. */
const CHANGES_REPORTS = /HIST|history|__vsc|PROMPT_COMMAND|setopt|set \+o|trap/u;
/** Clears what the user may have typed at the prompt. */
const KILL_LINE = "\x15";
/** How often, and after how many milliseconds, to poll for what VS Code or the system reports late. */
const POLLS = 10;
const POLL = 20;
/** VS Code assumes that a shell which ends within half a second has failed to start, and starts another. */
const SETTLE = 750;
/** How often to check that the shell is alive, and how long VS Code may take to report that it is not. */
const WATCH = 500;
const REPORT = 3000;
/** How long a command of the user may take to end before the agent's is refused. */
const USER = 1000;

/** A terminal in which an agent's commands run, one at a time. */
export class Session implements vscode.Disposable {
  /** A command of the agent is running, also one that was cancelled. */
  private running = false;
  /** The running command of the user. */
  private usersCommand: vscode.TerminalShellExecution | undefined;
  /** Executions that start now are those of the agent's command. */
  private ours = false;
  private interrupted = false;
  /** Input from before the command has started, which is for the command and not for the shell. */
  private early: string | undefined;
  /** The shell had no integration in time, and is not waited for again. */
  private lacksIntegration = false;
  /** Whether the shell reports lines to VS Code exactly as they are typed; undefined until its first command told. */
  private isExact: boolean | undefined;
  private command: IntegratedCommand | undefined;
  /** Resolves when the shell has been running for a while. */
  private readonly settled: Promise<void>;
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly terminal: vscode.Terminal,
    private readonly shell: string,
    private readonly scratch: PrivateDirectory,
  ) {
    this.settled = Promise.resolve(terminal.processId).then(() => sleep(SETTLE));
    this.subscriptions = [
      vscode.window.onDidStartTerminalShellExecution((start) => {
        if (start.terminal !== terminal) {
          return;
        }
        if (this.ours) {
          this.sendEarlyInput();
        } else if (!scratch.isNamedIn(start.execution.commandLine.value)) {
          this.usersCommand = start.execution;
        }
      }),
      vscode.window.onDidEndTerminalShellExecution((end) => {
        if (end.execution === this.usersCommand) {
          this.usersCommand = undefined;
        }
      }),
    ];
  }

  get closed(): boolean {
    return this.terminal.exitStatus !== undefined;
  }

  /** Run a command. One that is cancelled goes on, and the session is busy until it has ended. */
  async run(command: string, limit: number, print: (text: string) => void, signal: AbortSignal): Promise<RunEnded> {
    if (this.running) {
      throw new Refusal("busy", "A command is still running in this terminal. Wait for it, or interrupt it.");
    }
    this.running = true;
    this.interrupted = false;
    this.early = "";
    const batcher = new OutputBatcher((text) => {
      if (!signal.aborted) {
        print(text);
      }
    });
    const ended = this.execute(command, limit, batcher, signal).finally(() => {
      this.running = false;
      this.early = undefined;
    });
    return unlessCancelled(ended, signal);
  }

  input(text: string): void {
    this.interrupted ||= text.includes(INTERRUPT);
    if (text.includes(INTERRUPT)) {
      this.command?.interrupted();
    }
    if (this.early === undefined) {
      this.terminal.sendText(text, false);
    } else {
      this.early += text;
    }
  }

  /** Press Ctrl-C, if a command of the agent is running. */
  interrupt(): void {
    if (this.running) {
      this.input(INTERRUPT);
    }
  }

  /** Close the terminal, unless the user is running something in it. */
  release(): void {
    const isUsed = this.usersCommand !== undefined;
    this.unsubscribe();
    if (!isUsed) {
      this.terminal.dispose();
    }
  }

  dispose(): void {
    this.unsubscribe();
    this.terminal.dispose();
  }

  private unsubscribe(): void {
    for (const subscription of this.subscriptions) {
      subscription.dispose();
    }
  }

  private sendEarlyInput(): void {
    const typed = this.early ?? "";
    this.early = undefined;
    if (typed !== "") {
      this.terminal.sendText(typed, false);
    }
  }

  private async execute(
    command: string,
    limit: number,
    batcher: OutputBatcher,
    signal: AbortSignal,
  ): Promise<RunEnded> {
    const integration = await unlessCancelled(waitForIntegration(this.terminal, this.lacksIntegration ? 0 : limit), signal);
    this.lacksIntegration = integration === undefined;
    await unlessCancelled(this.settled, signal);
    await this.checkUser();
    throwIfCancelled(signal);
    if (this.closed) {
      throw new Refusal("failed", "The terminal closed before the command could start.");
    }
    const print = (text: string): void => batcher.add(text);
    const over = new AbortController();
    try {
      return await Promise.race([
        integration === undefined
          ? this.runWithScript(command, print)
          : this.runWithIntegration(command, integration, print),
        this.watchShell(over.signal),
      ]);
    } finally {
      over.abort();
      batcher.flush();
    }
  }

  /** Refuse while the user runs something; VS Code may take a while to report that it has ended. */
  private async checkUser(): Promise<void> {
    for (let waited = 0; this.usersCommand !== undefined && waited < USER; waited += POLL) {
      await sleep(POLL);
    }
    if (this.usersCommand !== undefined) {
      const what = this.usersCommand.commandLine.value;
      throw new Refusal("busy", `The user of the window is running something in this terminal: ${what}`);
    }
  }

  /** Resolves when the shell has ended and VS Code does not report it: it may have started another in its place. */
  private async watchShell(over: AbortSignal): Promise<RunEnded> {
    const pid = await this.terminal.processId;
    while (!over.aborted && isAlive(pid)) {
      await sleep(WATCH);
    }
    await sleep(over.aborted ? 0 : REPORT);
    if (!over.aborted) {
      this.terminal.dispose();
    }
    return { kind: "run_ended", exit_code: null, cwd: "", shell_ended: true, how: "integration" };
  }

  private async runWithIntegration(
    command: string,
    integration: vscode.TerminalShellIntegration,
    print: (text: string) => void,
  ): Promise<RunEnded> {
    const pid = await this.terminal.processId;
    const shell = shellName(pid, this.shell);
    const isTyped = this.isExact === true && isTypable(command, shell);
    const file = isTyped ? undefined : new CommandFile(this.scratch.newPath(), shell, this.isExact === true);
    await file?.prepare(command, this.isExact === undefined);
    if (!isTyped || shell === "zsh") {
      await waitForPrompt(pid);
    }
    this.ours = true;
    try {
      this.command = new IntegratedCommand(this.terminal, integration, file?.line ?? command, file, print);
      const end = await this.command.end;
      this.ours = false;
      this.isExact ??= file?.isExact === true;
      this.isExact &&= end.isExact && !CHANGES_REPORTS.test(command);
      return {
        kind: "run_ended",
        exit_code: end.exitCode ?? null,
        cwd: end.closed ? "" : await this.directory(integration),
        shell_ended: end.closed,
        how: "integration",
      };
    } finally {
      this.ours = false;
      this.command = undefined;
      await file?.remove();
    }
  }

  private async runWithScript(command: string, print: (text: string) => void): Promise<RunEnded> {
    const pid = await this.terminal.processId;
    // A shell whose command has just ended may not be in the foreground yet.
    for (let waited = 0; isInBackground(pid) && waited < REPORT; waited += POLL) {
      await sleep(POLL);
    }
    if (isInBackground(pid)) {
      throw new Refusal("busy", "The user of the window is running something in this terminal.");
    }
    const directory = this.scratch.newDirectory();
    // Shell integration may start while this command runs.
    this.ours = true;
    try {
      const script = new ScriptedCommand(directory, print);
      const line = await script.prepare(command, this.shell);
      this.terminal.sendText(KILL_LINE + line, true);
      this.sendEarlyInput();
      const { exitCode, cwd } = await script.follow(() => this.closed);
      const gone = exitCode === undefined && !isAlive(pid);
      for (let waited = 0; gone && !this.closed && waited < REPORT; waited += POLL) {
        await sleep(POLL);
      }
      const ended = gone || this.closed;
      const unknown = this.interrupted ? INTERRUPTED : null;
      return {
        kind: "run_ended",
        exit_code: ended ? (this.terminal.exitStatus?.code ?? null) : (exitCode ?? unknown),
        cwd: ended ? "" : cwd || ((await workingDirectory(pid)) ?? ""),
        shell_ended: ended,
        how: "script",
      };
    } finally {
      this.ours = false;
      await rm(directory, { recursive: true, force: true });
    }
  }

  /** The shell's directory: as VS Code reports it, once that agrees with the system. */
  private async directory(integration: vscode.TerminalShellIntegration): Promise<string> {
    const actual = await workingDirectory(await this.terminal.processId);
    const reported = (): string => integration.cwd?.fsPath ?? "";
    for (let look = 0; actual !== undefined && look < POLLS; look += 1) {
      if (await isSame(reported(), actual)) {
        return reported();
      }
      await sleep(POLL);
    }
    return actual ?? reported();
  }
}

async function isSame(one: string, other: string): Promise<boolean> {
  try {
    return (await realpath(one)) === other;
  } catch {
    return false;
  }
}
