import * as vscode from "vscode";
import type { State } from "./world";

interface Choice extends vscode.QuickPickItem {
  command: string;
}

const CONNECT: Choice = { label: "$(plug) Connect", command: "glovebox.connect" };
const DISCONNECT: Choice = { label: "$(debug-disconnect) Disconnect", command: "glovebox.disconnect" };
const PAUSE: Choice = { label: "$(debug-pause) Pause Agent", command: "glovebox.pause" };
const RESUME: Choice = { label: "$(debug-start) Resume Agent", command: "glovebox.resume" };
const ALWAYS: Choice[] = [
  { label: "$(diff) Show Last Edit", command: "glovebox.showLastEdit" },
  { label: "$(output) Show Log", command: "glovebox.showLog" },
  { label: "$(key) Set Hub Key", command: "glovebox.setKey" },
  { label: "$(gear) Settings", command: "glovebox.openSettings" },
];

/** What makes sense now, to choose from. */
export async function showMenu(state: State): Promise<void> {
  const chosen = await vscode.window.showQuickPick([...choices(state), ...ALWAYS], {
    title: "Glovebox",
    placeHolder: placeHolder(state),
  });
  if (chosen) {
    await vscode.commands.executeCommand(chosen.command);
  }
}

function choices(state: State): Choice[] {
  switch (state.name) {
    case "disconnected":
    case "error":
      return [CONNECT];
    case "connecting":
      return [DISCONNECT];
    case "connected":
      return [PAUSE, DISCONNECT];
    case "paused":
      return [RESUME, DISCONNECT];
  }
}

function placeHolder(state: State): string {
  switch (state.name) {
    case "disconnected":
      return "Not connected";
    case "error":
      return state.problem.message;
    case "connecting":
      return state.why || "Connecting to the hub";
    case "connected":
      return `Connected to ${state.url} as ${state.id}`;
    case "paused":
      return `Connected to ${state.url} as ${state.id}; the agent is paused`;
  }
}
