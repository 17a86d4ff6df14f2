import { hostname } from "node:os";
import { join } from "node:path";
import * as vscode from "vscode";
import { ActivityLog } from "./activity/log";
import { AgentViews } from "./activity/views";
import { registerCommands } from "./commands";
import { Forwarder } from "./companion/forward";
import { CompanionProcess, type CompanionPlace } from "./companion/process";
import { Connection, type ConnectionState } from "./hub/connection";
import { HubCredentials } from "./hub/credentials";
import { announceFirstAction, askPermission, RefusalNotices, registerAnswers } from "./notifications";
import { OrderDispatcher } from "./hub/dispatcher";
import { Approvals } from "./approval/approvals";
import { ApprovalPrompts } from "./approval/prompts";
import { WorkspaceContext } from "./approval/workspace_context";
import { Containment } from "./orders/containment";
import { folders, WindowOrderExecutor } from "./orders/executor";
import { ReloadState } from "./hub/reload_state";
import { StatusBar } from "./status_bar";
import { registerTools } from "./tools/language_model_tools";
import { VsCodeWindow } from "./vscode_window";

let close: (() => Promise<void>) | undefined;

/** Create the parts. Nothing is sent, unless the window was connected before a reload. */
export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Glovebox", { log: true });
  const choices = new WorkspaceContext(context.workspaceState, new Containment(folders), folders);
  const approvals = new Approvals(choices);
  const views = new AgentViews(approvals, log);
  const activity = new ActivityLog(log, views.activity, () => void announceFirstAction(executor.stay.agent));
  const companion = new CompanionProcess(companionPlace, (line) => log.info(line));
  const executor: WindowOrderExecutor = new WindowOrderExecutor(
    activity,
    views.recorder,
    approvals,
    new Forwarder(companion),
    askPermission,
  );
  executor.stay.onChange(() => activity.reset());
  const statusBar = new StatusBar("glovebox.menu");
  const credentials = new HubCredentials(context.secrets);
  const reloadState = new ReloadState(join(context.globalStorageUri.fsPath, "connected"), workspaceKey());
  const refusals = new RefusalNotices();
  const dispatcher = new OrderDispatcher(
    executor,
    log,
    (count) => (statusBar.busy = count),
    (report) => views.activity.report(report),
    (order, code) => void refusals.show(order, code),
  );
  const indicator = {
    set state(state: ConnectionState) {
      statusBar.state = state;
      views.state = state;
    },
  };
  const window = new VsCodeWindow(context, log, credentials, executor, reloadState, indicator, () => {
    activity.reset();
    refusals.reset();
  });
  const connection = new Connection(window, dispatcher);
  context.subscriptions.push(
    log,
    views,
    executor,
    new ApprovalPrompts(approvals, choices, log),
    statusBar,
    registerAnswers(),
    registerCommands(connection, credentials, log, { ...views.commands, stop: () => executor.stop() }),
    window.onChange(() => connection.sendChange()),
    registerTools((order, print, signal) => executor.execute(order, "", print, signal, () => undefined)),
  );
  close = () => window.close(connection);
  void window.takeIdentity().then((identity) => {
    if (identity) {
      connection.connect(identity);
    }
  });
}

/** Called by VS Code when the window is closed or reloaded. */
export async function deactivate(): Promise<void> {
  await close?.();
}

function companionPlace(): CompanionPlace {
  const command = vscode.workspace.getConfiguration("glovebox").get("command", "");
  return { command: command.trim() || "glovebox", folders: folders() };
}

/** Identifies the workspace; also the machine, since home directories may be shared between machines. */
function workspaceKey(): string {
  const { workspaceFile, workspaceFolders = [] } = vscode.workspace;
  const parts = workspaceFile ? [workspaceFile] : workspaceFolders.map(({ uri }) => uri);
  return [hostname(), ...parts.map(String)].join("\n");
}
