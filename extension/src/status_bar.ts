import * as vscode from "vscode";
import type { State } from "./world";

/** What the status bar says in each state. */
interface Look {
  icon: string;
  text: string;
  tooltip: string;
  background?: string;
}

/** Shows how the connection is; a click opens the menu. */
export class StatusBar implements vscode.Disposable {
  readonly #item: vscode.StatusBarItem;
  #state: State = { name: "disconnected" };
  #busy = 0;

  constructor(command: string) {
    this.#item = vscode.window.createStatusBarItem("glovebox.status", vscode.StatusBarAlignment.Left, 0);
    this.#item.name = "Glovebox";
    this.#item.command = command;
    this.#draw();
    this.#item.show();
  }

  /** The connection is like this now. */
  set state(state: State) {
    this.#state = state;
    this.#draw();
  }

  /** So many actions are being carried out. */
  set busy(count: number) {
    this.#busy = count;
    this.#draw();
  }

  dispose(): void {
    this.#item.dispose();
  }

  #draw(): void {
    const look = lookOf(this.#state, this.#busy);
    this.#item.text = `$(${look.icon}) ${look.text}`;
    this.#item.tooltip = look.tooltip;
    this.#item.accessibilityInformation = { label: `${look.text}. ${look.tooltip}`, role: "button" };
    this.#item.backgroundColor = look.background ? new vscode.ThemeColor(look.background) : undefined;
  }
}

function lookOf(state: State, busy: number): Look {
  switch (state.name) {
    case "disconnected":
      return { icon: "debug-disconnect", text: "Glovebox", tooltip: "Not connected: no agent can work in this window." };
    case "connecting":
      return {
        icon: "sync~spin",
        text: "Glovebox: connecting",
        tooltip: state.why ? `Trying to connect: ${state.why}` : "Connecting to the hub.",
      };
    case "connected":
      return busy > 0
        ? { icon: "loading~spin", text: "Glovebox: working", tooltip: `An agent is working here (${state.url}).` }
        : { icon: "plug", text: "Glovebox: connected", tooltip: `An agent can work in this window (${state.url}).` };
    case "paused":
      return {
        icon: "debug-pause",
        text: "Glovebox: paused",
        tooltip: "The agent is paused: whatever it tries is refused.",
        background: "statusBarItem.warningBackground",
      };
    case "error":
      return {
        icon: "error",
        text: "Glovebox: error",
        tooltip: state.problem.message,
        background: "statusBarItem.errorBackground",
      };
  }
}
