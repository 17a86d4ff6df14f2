import * as vscode from "vscode";

import type { Done, EndSession, Input, Run, RunEnded } from "../protocol";
import type { Containment } from "./containment";
import type { PrivateDirectory } from "./private_directory";
import { Refusal } from "./refusal";
import { Session } from "./session";
import { chosenShell, ENVIRONMENT, isKnown } from "./shells";
import { startingDirectory } from "./starting_directory";

/** The session that agents use unless they name one. */
const MAIN = "main";

/** The terminals of an agent's sessions: one each, opened with the first command. */
export class Terminals implements vscode.Disposable {
  private readonly sessions = new Map<string, Session>();
  private readonly closing: vscode.Disposable;

  constructor(
    private readonly containment: Containment,
    private readonly files: PrivateDirectory,
  ) {
    this.closing = vscode.window.onDidCloseTerminal(() => this.forgetClosed());
  }

  async run(order: Run, tell: (text: string) => void, signal: AbortSignal): Promise<RunEnded> {
    const open = this.open(order.session);
    const session = open ?? this.opened(order.session, await startingDirectory(order.cwd, this.containment));
    const limit = vscode.workspace.getConfiguration("glovebox").get("shellIntegrationTimeout", 10) * 1000;
    return session.run(order.command, limit, tell, signal);
  }

  input(order: Input): Done {
    const session = this.open(order.session);
    if (session === undefined) {
      throw new Refusal("no_session", "There is no such terminal. Run a command first.");
    }
    session.input(order.text);
    return { kind: "done" };
  }

  end(order: EndSession): Done {
    this.sessions.get(order.session)?.dispose();
    this.sessions.delete(order.session);
    return { kind: "done" };
  }

  dispose(): void {
    this.closing.dispose();
    for (const session of this.sessions.values()) {
      session.dispose();
    }
    this.sessions.clear();
  }

  private open(name: string): Session | undefined {
    const session = this.sessions.get(name);
    return session?.closed === false ? session : undefined;
  }

  private opened(name: string, cwd: string): Session {
    const meanwhile = this.open(name);
    if (meanwhile !== undefined) {
      return meanwhile;
    }
    const users = vscode.env.shell;
    const shell = chosenShell(users);
    const terminal = vscode.window.createTerminal({
      name: name === MAIN ? "Glovebox" : `Glovebox: ${name}`,
      cwd,
      env: ENVIRONMENT,
      iconPath: new vscode.ThemeIcon("hubot"),
      // A window that was reloaded cannot take it up again.
      isTransient: true,
      ...(isKnown(users) ? {} : { shellPath: shell }),
    });
    terminal.show(true);
    const session = new Session(terminal, shell, this.files);
    this.sessions.set(name, session);
    return session;
  }

  private forgetClosed(): void {
    for (const [name, session] of this.sessions) {
      if (session.closed) {
        session.dispose();
        this.sessions.delete(name);
      }
    }
  }
}
