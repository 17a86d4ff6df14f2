import * as vscode from "vscode";
import type { ConnectionState } from "./hub/connection";

interface Appearance {
  icon: string;
  text: string;
  tooltip: string;
  background?: string;
}

/** The status bar item with the state of the connection; a click opens the menu. */
export class StatusBar implements vscode.Disposable {
  readonly #item: vscode.StatusBarItem;
  #state: ConnectionState = { name: "disconnected" };
  #busy = 0;
  #trusted = vscode.workspace.isTrusted;

  constructor(command: string) {
    this.#item = vscode.window.createStatusBarItem("glovebox.status", vscode.StatusBarAlignment.Left, 0);
    this.#item.name = "Glovebox";
    this.#item.command = command;
    this.#draw();
    this.#item.show();
  }

  set state(state: ConnectionState) {
    this.#state = state;
    this.#trusted = vscode.workspace.isTrusted;
    this.#draw();
  }

  /** The number of orders that are running. */
  set busy(count: number) {
    this.#busy = count;
    this.#draw();
  }

  dispose(): void {
    this.#item.dispose();
  }

  #draw(): void {
    const appearance = appearanceOf(this.#state, this.#busy, this.#trusted);
    this.#item.text = `$(${appearance.icon}) ${appearance.text}`;
    this.#item.tooltip = appearance.tooltip;
    this.#item.accessibilityInformation = { label: `${appearance.text}. ${appearance.tooltip}`, role: "button" };
    this.#item.backgroundColor = appearance.background ? new vscode.ThemeColor(appearance.background) : undefined;
  }
}

function appearanceOf(state: ConnectionState, busy: number, trusted: boolean): Appearance {
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
      if (!trusted) {
        return {
          icon: "eye",
          text: "Glovebox: read only",
          tooltip: `Restricted Mode: an agent can read files of this window, and nothing else (${state.url}).`,
        };
      }
      return busy > 0
        ? { icon: "loading~spin", text: "Glovebox: working", tooltip: `An agent is working here (${state.url}).` }
        : { icon: "plug", text: "Glovebox: connected", tooltip: `An agent can work in this window (${state.url}).` };
    case "paused":
      return {
        icon: "debug-pause",
        text: "Glovebox: paused",
        tooltip: "The agent is paused: all its actions are refused.",
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
