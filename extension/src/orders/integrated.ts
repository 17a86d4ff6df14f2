import * as vscode from "vscode";

import { Marks } from "./marks";
import type { Sourced } from "./sourced";

/** How a command in a terminal ended. */
export interface Ending {
  /** Undefined if nobody knows. */
  exitCode: number | undefined;
  /** The terminal closed. */
  closed: boolean;
  /** The shell told the line in another form than it was sent. */
  retold: boolean;
}

/** How long the end of the output, or the news that the command ended, may be late. */
const LATE = 3000;
/** How long the output of a terminal that closed may be late. */
const LATE_AFTER_CLOSE = 300;

/** Waits until a terminal has shell integration and a prompt; undefined if it has none in time, or closes. */
export function integrationOf(
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

/** Whether the shell has said where it is, which it does first when it is ready for a command. */
function hasPrompt(terminal: vscode.Terminal): boolean {
  return terminal.shellIntegration?.cwd !== undefined;
}

/** One line that a terminal with shell integration carries out, until it has ended. */
export class Integrated {
  private readonly marks = new Marks();
  private readonly subscriptions: vscode.Disposable[];
  private readonly execution: vscode.TerminalShellExecution;
  private exitCode: number | undefined;
  private ended = false;
  /** VS Code did not know the line for the one that it was given. */
  private isAdopted = false;
  private streamed = false;
  private timer: NodeJS.Timeout | undefined;
  private finish: (ending: Ending) => void = () => undefined;
  /** When it has ended. */
  readonly ending: Promise<Ending>;

  constructor(
    private readonly terminal: vscode.Terminal,
    shell: vscode.TerminalShellIntegration,
    line: string,
    private readonly sourced: Sourced,
    private readonly print: (text: string) => void,
  ) {
    this.ending = new Promise((resolve) => (this.finish = resolve));
    this.subscriptions = [
      vscode.window.onDidStartTerminalShellExecution((start) => {
        if (this.isOurs(start)) {
          this.begin(start.execution);
        }
      }),
      vscode.window.onDidEndTerminalShellExecution((end) => {
        if (this.isOurs(end)) {
          this.exitCode = end.exitCode;
          this.ended = true;
          this.settle();
        }
      }),
      vscode.window.onDidCloseTerminal((closed) => {
        if (closed === terminal) {
          this.within(LATE_AFTER_CLOSE);
        }
      }),
    ];
    this.execution = shell.executeCommand(line);
    void this.read(this.execution.read());
  }

  /** What the user types there has executions of its own. So has our line if the shell tells it in another form. */
  private isOurs(event: { terminal: vscode.Terminal; execution: vscode.TerminalShellExecution }): boolean {
    const isNamed = event.terminal === this.terminal && event.execution.commandLine.value.includes(this.sourced.file);
    return event.execution === this.execution || isNamed;
  }

  private begin(execution: vscode.TerminalShellExecution): void {
    if (execution !== this.execution) {
      this.isAdopted = true;
      void this.read(execution.read());
    }
    // The stream is there in the next turn only.
    setTimeout(() => void this.sourced.begin().catch(() => undefined), 0);
  }

  private async read(stream: AsyncIterable<string>): Promise<void> {
    let isFirst = true;
    try {
      for await (const data of stream) {
        if (isFirst && this.isAdopted) {
          this.marks.expect(data);
        }
        isFirst = false;
        this.print(this.marks.take(data));
      }
    } finally {
      this.streamed = true;
      this.settle();
    }
  }

  private settle(): void {
    if (this.ended && this.streamed) {
      this.done();
    } else {
      this.within(LATE);
    }
  }

  private within(milliseconds: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.done(), milliseconds);
  }

  private done(): void {
    clearTimeout(this.timer);
    for (const subscription of this.subscriptions) {
      subscription.dispose();
    }
    this.print(this.marks.end());
    const closing = this.terminal.exitStatus;
    this.finish({
      exitCode: closing === undefined ? this.exitCode : closing.code,
      closed: closing !== undefined,
      retold: this.isAdopted,
    });
  }
}
