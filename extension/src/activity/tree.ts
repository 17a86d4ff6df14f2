import * as vscode from "vscode";

import type { ApprovalRequest, Approvals } from "../approval/approvals";
import type { ConnectionState } from "../hub/connection";
import { type ActionState, type Activity, type AgentAction, outcome } from "./model";

/** The requests that wait for the user's decision. */
export type PendingApprovals = Pick<Approvals, "pending" | "onDidChange">;

type Node =
  | { type: "state" }
  | ({ type: "approval" } & ApprovalRequest)
  | { type: "action"; action: AgentAction };

/** What is shown as it is run, without the kind of action. */
const COMMANDS = new Set(["run", "command"]);
const ICONS: Record<ActionState, [icon: string, color: string]> = {
  waiting: ["bell-dot", "notificationsWarningIcon.foreground"],
  running: ["loading~spin", "progressBar.background"],
  succeeded: ["pass", "testing.iconPassed"],
  failed: ["error", "testing.iconFailed"],
};

/** The view of the agent: its state, what it asks for, and its actions, the newest first. */
export class AgentView implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.#changed.event;
  readonly #view: vscode.TreeView<Node>;
  readonly #subscriptions: vscode.Disposable[];
  #state: ConnectionState = { name: "disconnected" };

  constructor(
    private readonly activity: Activity,
    private readonly approvals: PendingApprovals,
  ) {
    this.#view = vscode.window.createTreeView("glovebox.agent", { treeDataProvider: this });
    this.#subscriptions = [
      this.#view,
      this.#changed,
      activity.onDidChange(() => this.#refresh()),
      approvals.onDidChange(() => {
        this.activity.waiting = new Set(approvals.pending.map(({ action }) => action));
        this.#refresh();
      }),
    ];
    this.#refresh();
  }

  set state(state: ConnectionState) {
    this.#state = state;
    if (state.name === "disconnected" || state.name === "error") {
      this.activity.abandon();
    }
    this.#refresh();
  }

  getChildren(node?: Node): Node[] {
    if (node) {
      return [];
    }
    const actions = this.activity.actions.map((action): Node => ({ type: "action", action }));
    if (this.#state.name === "disconnected" && actions.length === 0) {
      return []; // the view's welcome text is shown
    }
    const approvals = this.approvals.pending.map((request): Node => ({ type: "approval", ...request }));
    return [{ type: "state" }, ...approvals, ...actions];
  }

  getTreeItem(node: Node): vscode.TreeItem {
    switch (node.type) {
      case "state":
        return this.#stateItem();
      case "approval":
        return approvalItem(node);
      case "action":
        return actionItem(node.action);
    }
  }

  dispose(): void {
    vscode.Disposable.from(...this.#subscriptions).dispose();
  }

  #refresh(): void {
    const { length } = this.approvals.pending;
    const tooltip = length === 1 ? "An action waits for your approval" : `${length} actions wait for your approval`;
    this.#view.badge = length > 0 ? { value: length, tooltip } : undefined;
    void vscode.commands.executeCommand("setContext", "glovebox.state", this.#state.name);
    void vscode.commands.executeCommand("setContext", "glovebox.working", this.activity.isWorking);
    this.#changed.fire(undefined);
  }

  #stateItem(): vscode.TreeItem {
    const [icon, text] = stateAppearance(this.#state, this.activity.isWorking);
    const item = new vscode.TreeItem(this.activity.agent || "Agent");
    item.id = "state";
    item.description = text;
    item.iconPath = new vscode.ThemeIcon(icon);
    item.contextValue = `state.${this.#state.name}`;
    item.tooltip = tooltipOf(this.#state);
    item.accessibilityInformation = { label: `${this.activity.agent || "Agent"}: ${text}` };
    return item;
  }
}

function stateAppearance(state: ConnectionState, working: boolean): [icon: string, text: string] {
  switch (state.name) {
    case "disconnected":
      return ["debug-disconnect", "not connected"];
    case "connecting":
      return ["sync~spin", "connecting"];
    case "connected":
      return working ? ["hubot", "working"] : ["hubot", "connected"];
    case "paused":
      return ["debug-pause", "paused"];
    case "error":
      return ["warning", "not connected"];
  }
}

function tooltipOf(state: ConnectionState): string {
  switch (state.name) {
    case "disconnected":
      return "No agent can work in this window.";
    case "connecting":
      return state.why || "Connecting to the hub.";
    case "connected":
      return `An agent can work in this window (${state.url}).`;
    case "paused":
      return "All actions of the agent are refused until you resume.";
    case "error":
      return state.problem.message;
  }
}

/** Paths relative to the folders of the workspace. */
function withoutFolders(summary: string): string {
  const folders = vscode.workspace.workspaceFolders ?? [];
  return folders.reduce((text, { uri }) => text.replaceAll(`${uri.fsPath}/`, ""), summary);
}

function approvalItem(request: ApprovalRequest): vscode.TreeItem {
  const item = new vscode.TreeItem(request.summary);
  item.id = `approval ${request.id}`;
  item.description = `${request.kind}: allow?`;
  item.tooltip = request.detail;
  item.iconPath = new vscode.ThemeIcon("question", new vscode.ThemeColor("notificationsWarningIcon.foreground"));
  item.contextValue = "approval";
  item.command = { command: "glovebox.showRequest", title: "Show", arguments: [request] };
  item.accessibilityInformation = { label: `${request.kind} ${request.summary} waits for your approval` };
  return item;
}

function actionItem(action: AgentAction): vscode.TreeItem {
  const [icon, color] = ICONS[action.state];
  const isCommand = COMMANDS.has(action.kind);
  const label = isCommand ? action.summary : withoutFolders(action.summary);
  const item = new vscode.TreeItem(label || action.kind);
  item.id = `action ${action.id}`;
  item.description = isCommand ? outcome(action) : `${action.kind} · ${outcome(action)}`;
  item.tooltip = [`${action.kind}: ${action.summary}`, outcome(action), action.message].filter(Boolean).join("\n");
  item.iconPath = new vscode.ThemeIcon(icon, new vscode.ThemeColor(color));
  item.contextValue = action.files.size > 0 ? "action.file" : "action";
  item.command = { command: "glovebox.showAction", title: "Show", arguments: [{ type: "action", action }] };
  item.accessibilityInformation = { label: `${action.kind} ${label}, ${action.state}, ${outcome(action)}` };
  return item;
}
