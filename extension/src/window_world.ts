import * as vscode from "vscode";
import type { Connection } from "./connection";
import type { Hub } from "./hub_file";
import type { Reloading } from "./kept";
import type { Keys } from "./keys";
import { explain } from "./notices";
import { said } from "./problem";
import type { Registration } from "./protocol";
import type { Showing } from "./showing";
import type { StatusBar } from "./status_bar";
import { prove, registration } from "./window";
import type { Kept, State, World } from "./world";

/** What a connection needs of a window, as VS Code has it. */
export class WindowWorld implements World {
  #kept: Kept | undefined;

  constructor(
    private readonly context: vscode.ExtensionContext,
    readonly log: vscode.LogOutputChannel,
    private readonly keys: Keys,
    private readonly performer: { readonly capabilities: string[] },
    private readonly reloading: Reloading,
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
    return await prove();
  }

  keep(kept: Kept | undefined): void {
    if (kept?.id !== this.#kept?.id) {
      this.showing.begin();
    }
    this.#kept = kept;
    if (this.#reconnects() || !kept) {
      this.#note(kept);
    }
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

  /** What this window was before it was reloaded, if it is to be that again. */
  async before(): Promise<Kept | undefined> {
    try {
      return this.#reconnects() ? await this.reloading.take() : undefined;
    } catch (error) {
      this.log.warn(`What this window was before is not known: ${said(error)}`);
      return undefined;
    }
  }

  /** The window ends. If it may come back, the hub is not told: it waits for a while. */
  async ending(connection: Connection): Promise<void> {
    if (this.#kept && this.#reconnects()) {
      this.#note(this.#kept);
      connection.drop();
    } else {
      await connection.disconnect();
    }
  }

  #note(kept: Kept | undefined): void {
    this.reloading.keep(kept).catch((error: unknown) => {
      this.log.debug(`It could not be noted what this window is called: ${said(error)}`);
    });
  }

  #reconnects(): boolean {
    return vscode.workspace.getConfiguration("glovebox").get("reconnectAfterReload", true);
  }
}
