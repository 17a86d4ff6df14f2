import * as vscode from "vscode";

import { type CommandFile, OUTPUT_MARK } from "./command_file";
import { MarkParser } from "./mark_parser";

/** The end of a command in a terminal with shell integration. */
export interface CommandEnd {
  /** Undefined if it is not known. */
  exitCode: number | undefined;
  /** The terminal closed. */
  closed: boolean;
  /** The shell reported the line exactly as it was sent. */
  isExact: boolean;
}

/** How long to wait for the rest of the output, or for the event that the command ended. */
const END_MS = 3000;
/** The exit code of a line that was interrupted. */
export const INTERRUPTED = 130;
/** How long to wait for the rest of the output of a terminal that closed. */
const CLOSE_MS = 300;

/** Wait until a terminal has shell integration and a prompt; undefined if it has none in time, or closes. */
export function waitForIntegration(
  terminal: vscode.Terminal,
  milliseconds: number,
): Promise<vscode.TerminalShellIntegration | undefined> {
  if (hasPrompt(terminal) || terminal.exitStatus !== undefined) {
    return Promise.resolve(terminal.shellIntegration);
  }
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      for (const subscription of subscriptions) {
        subscription.dispose();
      }
      resolve(terminal.shellIntegration);
    };
    const timer = setTimeout(done, milliseconds);
    const subscriptions = [
      vscode.window.onDidChangeTerminalShellIntegration((change) => {
        if (change.terminal === terminal && hasPrompt(terminal)) {
          done();
        }
      }),
      vscode.window.onDidCloseTerminal((closed) => {
        if (closed === terminal) {
          done();
        }
      }),
    ];
  });
}

/** Whether the shell has reported its directory, which it does when it is ready for a command. */
function hasPrompt(terminal: vscode.Terminal): boolean {
  return terminal.shellIntegration?.cwd !== undefined;
}

/** A command in a terminal with shell integration: typed as it is, or from a file. */
export class IntegratedCommand {
  private readonly parser: MarkParser;
  private readonly subscriptions: vscode.Disposable[];
  private readonly execution: vscode.TerminalShellExecution;
  private exitCode: number | undefined;
  private ended = false;
  /** The execution of our line, if VS Code did not recognize it as the one that it has sent. */
  private adopted: vscode.TerminalShellExecution | undefined;
  /**
   * An execution that began before ours, with another line: one that the user typed just before. If nothing else starts,
   * it was ours, reported in a form that is not recognized.
   */
  private doubtful: vscode.TerminalShellExecution | undefined;
  private held: string[] = [];
  private hasStarted = false;
  private streamed = false;
  private timer: NodeJS.Timeout | undefined;
  private finish: (end: CommandEnd) => void = () => undefined;
  readonly end: Promise<CommandEnd>;

  constructor(
    private readonly terminal: vscode.Terminal,
    shell: vscode.TerminalShellIntegration,
    private readonly line: string,
    private readonly commandFile: CommandFile | undefined,
    private readonly print: (text: string) => void,
  ) {
    this.parser = new MarkParser(commandFile === undefined ? "C" : OUTPUT_MARK);
    this.end = new Promise((resolve) => (this.finish = resolve));
    this.subscriptions = [
      vscode.window.onDidStartTerminalShellExecution((start) => {
        if (this.isOurs(start)) {
          this.started(start.execution);
        } else if (start.terminal === terminal && commandFile === undefined && !this.hasStarted) {
          this.doubtful = start.execution;
          void this.hold(start.execution.read());
        }
      }),
      vscode.window.onDidEndTerminalShellExecution((end) => {
        if (this.isOurs(end)) {
          this.exitCode = end.exitCode;
          this.ended = true;
          this.settle();
        } else if (end.execution === this.doubtful) {
          this.exitCode = end.exitCode;
          this.doneAfter(END_MS);
        }
      }),
      vscode.window.onDidCloseTerminal((closed) => {
        if (closed === terminal) {
          this.doneAfter(CLOSE_MS);
        }
      }),
    ];
    this.execution = shell.executeCommand(line);
    void this.read(this.execution.read());
  }

  /** The end of a line that was interrupted. One that has not started is unfinished, and VS Code reports nothing of it. */
  interrupted(): void {
    if (!this.hasStarted) {
      this.exitCode = INTERRUPTED;
      this.doneAfter(END_MS);
    }
  }

  private isOurs(event: { terminal: vscode.Terminal; execution: vscode.TerminalShellExecution }): boolean {
    return event.execution === this.execution || (event.terminal === this.terminal && this.isOurLine(event.execution));
  }

  /** The user's commands have executions of their own. So has our line if the shell reports it in another form. */
  private isOurLine(execution: vscode.TerminalShellExecution): boolean {
    if (this.commandFile !== undefined) {
      return execution.commandLine.value.includes(this.commandFile.path);
    }
    return this.adopted === execution || (!this.hasStarted && this.line.trim().startsWith(execution.commandLine.value.trim()));
  }

  private started(execution: vscode.TerminalShellExecution): void {
    this.hasStarted = true;
    this.exitCode = undefined;
    clearTimeout(this.timer);
    if (execution !== this.execution) {
      this.adopted = execution;
      void this.read(execution.read());
    }
    // The stream exists from the next turn of the event loop on.
    setTimeout(() => void this.commandFile?.release().catch(() => undefined), 0);
  }

  private async read(stream: AsyncIterable<string>): Promise<void> {
    let isFirst = true;
    try {
      for await (const data of stream) {
        if (isFirst && this.adopted !== undefined) {
          this.parser.startInOutput(data);
        }
        isFirst = false;
        this.print(this.parser.parse(data));
      }
    } finally {
      this.streamed = true;
      this.settle();
    }
  }

  private async hold(stream: AsyncIterable<string>): Promise<void> {
    this.held = [];
    for await (const data of stream) {
      this.held.push(data);
    }
  }

  private settle(): void {
    if (this.ended && this.streamed) {
      this.done();
    } else {
      this.doneAfter(END_MS);
    }
  }

  private doneAfter(milliseconds: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.done(), milliseconds);
  }

  private done(): void {
    clearTimeout(this.timer);
    for (const subscription of this.subscriptions) {
      subscription.dispose();
    }
    if (!this.hasStarted && this.held.length > 0) {
      this.parser.startInOutput(this.held[0] ?? "");
      this.held.forEach((data) => this.print(this.parser.parse(data)));
    }
    this.print(this.parser.finish());
    const closing = this.terminal.exitStatus;
    this.finish({
      exitCode: closing === undefined ? this.exitCode : closing.code,
      closed: closing !== undefined,
      isExact: this.adopted === undefined && (this.hasStarted || this.doubtful === undefined),
    });
  }
}
