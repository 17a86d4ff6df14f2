import * as vscode from "vscode";
import type { Connection } from "./connection";
import type { Hub } from "./hub_file";
import type { Keys } from "./keys";
import { explain } from "./notices";
import { syncWithMainThread } from "./orders/open_documents";
import { said } from "./problem";
import type { Registration } from "./protocol";
import type { HubIdentity, ReloadState } from "./reload_state";
import type { Showing } from "./showing";
import type { StatusBar } from "./status_bar";
import { registration } from "./window";
import type { State, World } from "./world";

/** What a connection needs of a window, as VS Code has it. */
export class WindowWorld implements World {
  #id = "";

  constructor(
    private readonly context: vscode.ExtensionContext,
    readonly log: vscode.LogOutputChannel,
    private readonly keys: Keys,
    private readonly performer: { readonly capabilities: string[] },
    private readonly reloadState: ReloadState,
    private readonly bar: StatusBar,
    private readonly showing: Showing,
  ) {}

  async hub(): Promise<Hub> {
    return await this.keys.hub();
  }

  registration(): Registration {
    const { version } = this.context.extension.packageJSON as { version: string };
    return registration(version, this.performer.capabilities);
  }

  async prove(): Promise<unknown> {
    return await syncWithMainThread();
  }

  saveIdentity(identity: HubIdentity, alive: number): void {
    if (identity.id !== this.#id) {
      this.showing.begin();
    }
    this.#id = identity.id;
    if (this.#reconnects()) {
      this.#try("The identity of this window was not saved", () => {
        this.reloadState.save(identity, alive);
      });
    }
  }

  clearIdentity(): void {
    this.#id = "";
    this.#try("The saved identity of this window was not removed", () => {
      this.reloadState.clear();
    });
  }

  changed(state: State): void {
    this.bar.state = state;
    void vscode.commands.executeCommand("setContext", "glovebox.paused", state.name === "paused");
    if (state.name === "connected") {
      this.log.info(`Connected to the hub at ${state.url} as ${state.id}.`);
    } else if (state.name === "error") {
      this.log.error(state.problem.message);
      void explain(state.problem);
    } else if (state.name !== "connecting") {
      this.log.info(`The window is ${state.name}.`);
    }
  }

  /** The identity from before a reload, if the window is to be connected again. */
  async takeIdentity(): Promise<HubIdentity | undefined> {
    try {
      return this.#reconnects() ? await this.reloadState.take() : undefined;
    } catch (error) {
      this.log.warn(`The identity from before the reload was not read: ${said(error)}`);
      return undefined;
    }
  }

  /** The window ends. If it may come back, the hub is not notified: it waits for a while. */
  async end(connection: Connection): Promise<void> {
    if (this.#reconnects() && this.#try("The identity of this window was not saved", () => this.reloadState.renew())) {
      connection.drop();
    } else {
      await connection.disconnect();
    }
  }

  #try<T>(failure: string, work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.log.warn(`${failure}: ${said(error)}`);
      return undefined;
    }
  }

  #reconnects(): boolean {
    return vscode.workspace.getConfiguration("glovebox").get("reconnectAfterReload", true);
  }
}
