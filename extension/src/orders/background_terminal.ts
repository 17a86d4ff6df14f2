import * as vscode from "vscode";

/** A read-only terminal with the output of background processes. The user can interrupt them or close it. */
export class BackgroundTerminal implements vscode.Disposable {
  private terminal: vscode.Terminal | undefined;
  private writing: vscode.EventEmitter<string> | undefined;
  /** Text that was written before the terminal was open. */
  private early: string[] | undefined;

  /** `stop` is called when the user presses Ctrl-C there, or closes it. */
  constructor(private readonly stop: () => void) {}

  write(text: string): void {
    this.ensureOpen();
    if (this.early === undefined) {
      this.writing?.fire(text);
    } else {
      this.early.push(text);
    }
  }

  dispose(): void {
    this.terminal?.dispose();
    this.reset();
  }

  private ensureOpen(): void {
    if (this.terminal !== undefined) {
      return;
    }
    const writing = new vscode.EventEmitter<string>();
    this.writing = writing;
    this.early = [];
    this.terminal = vscode.window.createTerminal({
      name: "Glovebox (background)",
      iconPath: new vscode.ThemeIcon("hubot"),
      isTransient: true,
      pty: {
        onDidWrite: writing.event,
        open: () => {
          const early = this.early ?? [];
          this.early = undefined;
          for (const text of early) {
            writing.fire(text);
          }
        },
        close: () => {
          this.reset();
          this.stop();
        },
        handleInput: (text: string) => {
          if (text.includes("\x03")) {
            this.stop();
          }
        },
      },
    });
    this.terminal.show(true);
  }

  private reset(): void {
    this.writing?.dispose();
    this.writing = undefined;
    this.terminal = undefined;
    this.early = undefined;
  }
}
