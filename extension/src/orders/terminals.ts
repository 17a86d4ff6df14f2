import { stat } from "node:fs/promises";
import * as vscode from "vscode";

import type { Done, EndSession, Input, Run, RunEnded } from "../protocol";
import type { Containment } from "./containment";
import type { PrivateDirectory } from "./private_directory";
import { Refusal, toRefusal } from "./refusal";
import { Session } from "./session";
import { chooseShell, ENVIRONMENT, isKnown } from "./shells";
import type { Stay } from "./stay";

/** The session of commands that name none. */
const MAIN = "main";

/** The terminals of an agent's sessions: one for each, opened by its first command. */
export class Terminals implements vscode.Disposable {
  private readonly sessions = new Map<string, Session>();
  private readonly subscription: vscode.Disposable;

  constructor(
    private readonly containment: Containment,
    private readonly scratch: PrivateDirectory,
    private readonly stay: Stay,
  ) {
    this.subscription = vscode.window.onDidCloseTerminal(() => this.removeClosed());
  }

  async run(order: Run, print: (text: string) => void, signal: AbortSignal): Promise<RunEnded> {
    const existing = this.find(order.session);
    const session = existing ?? this.openNew(order.session, await startDirectory(order.cwd, this.containment));
    const limit = vscode.workspace.getConfiguration("glovebox").get("shellIntegrationTimeout", 10) * 1000;
    return session.run(order.command, limit, print, signal);
  }

  input(order: Input): Done {
    const session = this.find(order.session);
    if (session === undefined) {
      throw new Refusal("no_session", "There is no such terminal. Run a command first.");
    }
    session.input(order.text);
    return { kind: "done" };
  }

  /** Press Ctrl-C in all terminals where a command of the agent is running. */
  interrupt(): void {
    this.sessions.forEach((session) => session.interrupt());
  }

  end(order: EndSession): Done {
    this.sessions.get(order.session)?.dispose();
    this.sessions.delete(order.session);
    return { kind: "done" };
  }

  /** Close all terminals, but those in which the user is running something. */
  closeAll(): void {
    for (const session of this.sessions.values()) {
      session.release();
    }
    this.sessions.clear();
  }

  dispose(): void {
    this.subscription.dispose();
    for (const session of this.sessions.values()) {
      session.dispose();
    }
    this.sessions.clear();
  }

  private find(name: string): Session | undefined {
    const session = this.sessions.get(name);
    return session?.closed === false ? session : undefined;
  }

  private openNew(name: string, cwd: string): Session {
    const existing = this.find(name);
    if (existing !== undefined) {
      return existing;
    }
    const users = vscode.env.shell;
    const shell = chooseShell(users);
    const terminal = vscode.window.createTerminal({
      name: name === MAIN ? "Glovebox" : `Glovebox: ${name}`,
      cwd,
      env: { ...this.stay.environment, ...ENVIRONMENT },
      iconPath: new vscode.ThemeIcon("hubot"),
      // A window cannot use it again after a reload.
      isTransient: true,
      ...(isKnown(users) ? {} : { shellPath: shell }),
    });
    terminal.show(true);
    const session = new Session(terminal, shell, this.scratch);
    this.sessions.set(name, session);
    return session;
  }

  private removeClosed(): void {
    for (const [name, session] of this.sessions) {
      if (session.closed) {
        session.dispose();
        this.sessions.delete(name);
      }
    }
  }
}

/** The directory in which a command starts: the requested one, or the first folder. */
export async function startDirectory(requested: string, containment: Containment): Promise<string> {
  if (requested === "") {
    return containment.home();
  }
  let isDirectory: boolean;
  try {
    isDirectory = (await stat(requested)).isDirectory();
  } catch (error) {
    throw toRefusal(error, requested);
  }
  if (!isDirectory) {
    throw new Refusal("not_directory", `${requested} is not a directory.`);
  }
  return requested;
}
