import * as vscode from "vscode";
import type { Connection, ConnectionState } from "./hub/connection";
import type { HubCredentials } from "./hub/credentials";
import { explainRestrictedMode, MANAGE_TRUST, showProblem } from "./notifications";
import { toProblem } from "./problem";

/** What commands do, by their names; the argument is the item of a view, if the command was chosen there. */
export type Commands = Record<string, (item?: never) => unknown>;

/** Register the user's commands; problems in them are shown. */
export function registerCommands(
  connection: Connection,
  credentials: HubCredentials,
  log: vscode.LogOutputChannel,
  others: Commands,
): vscode.Disposable {
  const commands: Commands = {
    ...others,
    connect: () => {
      connection.connect();
      if (!vscode.workspace.isTrusted) {
        void explainRestrictedMode();
      }
    },
    disconnect: () => connection.disconnect(),
    pause: () => {
      if (connection.active) {
        connection.pause();
      } else {
        void vscode.window.showInformationMessage("Glovebox: no agent is connected to this window.");
      }
    },
    resume: () => connection.resume(),
    setKey: async () => {
      if ((await credentials.promptForKey()) && connection.state.name === "error") {
        connection.connect();
      }
    },
    forgetKey: () => credentials.forgetKey(),
    showLog: () => log.show(),
    openSettings: () => vscode.commands.executeCommand("workbench.action.openSettings", "glovebox."),
    menu: () => showMenu(connection.state),
  };
  const registered = Object.entries(commands).map(([name, run]) =>
    vscode.commands.registerCommand(`glovebox.${name}`, async (item?: never) => {
      try {
        await run(item);
      } catch (error) {
        await showProblem(toProblem(error));
      }
    }),
  );
  return vscode.Disposable.from(...registered);
}

interface MenuItem extends vscode.QuickPickItem {
  command: string;
}

const CONNECT: MenuItem = { label: "$(plug) Connect", command: "glovebox.connect" };
const DISCONNECT: MenuItem = { label: "$(debug-disconnect) Disconnect", command: "glovebox.disconnect" };
const PAUSE: MenuItem = { label: "$(debug-pause) Pause Agent", command: "glovebox.pause" };
const TRUST: MenuItem = { label: "$(shield) Manage Workspace Trust", command: MANAGE_TRUST };
const RESUME: MenuItem = { label: "$(debug-start) Resume Agent", command: "glovebox.resume" };
const ALWAYS: MenuItem[] = [
  { label: "$(diff) Show Last Edit", command: "glovebox.showLastEdit" },
  { label: "$(output) Show Log", command: "glovebox.showLog" },
  { label: "$(key) Set Hub Key", command: "glovebox.setKey" },
  { label: "$(gear) Settings", command: "glovebox.openSettings" },
];

/** The menu of the status bar: the commands that make sense in a state. */
async function showMenu(state: ConnectionState): Promise<void> {
  const trust = vscode.workspace.isTrusted ? [] : [TRUST];
  const chosen = await vscode.window.showQuickPick([...menuItems(state), ...trust, ...ALWAYS], {
    title: "Glovebox",
    placeHolder: placeHolder(state),
  });
  if (chosen) {
    await vscode.commands.executeCommand(chosen.command);
  }
}

function menuItems(state: ConnectionState): MenuItem[] {
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

function placeHolder(state: ConnectionState): string {
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
