import * as vscode from "vscode";
import type { Connection } from "./connection";
import type { Edits } from "./edits";
import type { Keys } from "./keys";
import { showMenu } from "./menu";
import { explain } from "./notices";
import { asProblem } from "./problem";

/** What the user can do. */
export function registerCommands(
  connection: Connection,
  keys: Keys,
  edits: Edits,
  log: vscode.LogOutputChannel,
): vscode.Disposable {
  const commands: Record<string, () => unknown> = {
    connect: () => connection.connect(),
    disconnect: () => connection.disconnect(),
    pause: () => {
      if (connection.wanted) {
        connection.pause();
      } else {
        void vscode.window.showInformationMessage("Glovebox: no agent is connected to this window.");
      }
    },
    resume: () => connection.resume(),
    setKey: async () => {
      if ((await keys.ask()) && connection.state.name === "error") {
        connection.connect();
      }
    },
    forgetKey: () => keys.forget(),
    showLog: () => log.show(),
    showLastEdit: () => edits.showLast(),
    openSettings: () => vscode.commands.executeCommand("workbench.action.openSettings", "glovebox."),
    menu: () => showMenu(connection.state),
  };
  const registered = Object.entries(commands).map(([name, run]) =>
    vscode.commands.registerCommand(`glovebox.${name}`, async () => {
      try {
        await run();
      } catch (error) {
        await explain(asProblem(error));
      }
    }),
  );
  return vscode.Disposable.from(...registered);
}
