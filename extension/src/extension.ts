import { hostname } from "node:os";
import { join } from "node:path";
import * as vscode from "vscode";
import { registerCommands } from "./commands";
import { Connection } from "./connection";
import { Desk } from "./desk";
import { Edits } from "./edits";
import { Keys } from "./keys";
import { announceWork } from "./notices";
import { Performer } from "./orders/perform";
import { ReloadState } from "./reload_state";
import { Showing } from "./showing";
import { StatusBar } from "./status_bar";
import { onChange } from "./window";
import { WindowWorld } from "./window_world";

let ended: (() => Promise<void>) | undefined;

/** Make the parts known to each other. Nothing is sent to anybody. */
export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Glovebox", { log: true });
  const edits = new Edits(log);
  const showing = new Showing(log, edits, () => void announceWork());
  const performer = new Performer(showing);
  const bar = new StatusBar("glovebox.menu");
  const keys = new Keys(context.secrets);
  const reloadState = new ReloadState(join(context.globalStorageUri.fsPath, "connected"), workspaceKey());
  const desk = new Desk(performer, log, (count) => (bar.busy = count));
  const world = new WindowWorld(context, log, keys, performer, reloadState, bar, showing);
  const connection = new Connection(world, desk);
  context.subscriptions.push(
    log,
    edits,
    performer,
    bar,
    registerCommands(connection, keys, edits, log),
    onChange(() => connection.tellChange()),
  );
  ended = () => world.end(connection);
  void world.takeIdentity().then((identity) => {
    if (identity) {
      connection.connect(identity);
    }
  });
}

/** The window is closed, or reloaded. */
export async function deactivate(): Promise<void> {
  await ended?.();
}

/** Identifies the workspace; also the machine, since home directories may be shared between machines. */
function workspaceKey(): string {
  const { workspaceFile, workspaceFolders = [] } = vscode.workspace;
  const parts = workspaceFile ? [workspaceFile] : workspaceFolders.map(({ uri }) => uri);
  return [hostname(), ...parts.map(String)].join("\n");
}
