import { join } from "node:path";
import * as vscode from "vscode";
import { registerCommands } from "./commands";
import { Connection } from "./connection";
import { Desk } from "./desk";
import { Edits } from "./edits";
import { Reloading } from "./kept";
import { Keys } from "./keys";
import { announceWork } from "./notices";
import { Performer } from "./orders/perform";
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
  const reloading = new Reloading(context.workspaceState, join(context.globalStorageUri.fsPath, "connected"));
  const desk = new Desk(performer, log, (count) => (bar.busy = count));
  const world = new WindowWorld(context, log, keys, performer, reloading, bar, showing);
  const connection = new Connection(world, desk);
  context.subscriptions.push(
    log,
    edits,
    performer,
    bar,
    registerCommands(connection, keys, edits, log),
    onChange(() => connection.tellChange()),
  );
  ended = () => world.ending(connection);
  void world.before().then((before) => {
    if (before) {
      connection.connect(before);
    }
  });
}

/** The window is closed, or reloaded. */
export async function deactivate(): Promise<void> {
  await ended?.();
}
