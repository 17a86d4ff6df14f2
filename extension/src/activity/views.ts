import * as vscode from "vscode";

import { ChangeEditors } from "../changes/editors";
import { ChangeList, type FileChange } from "../changes/model";
import { ChangeRecorder } from "../changes/recorder";
import { ChangesView } from "../changes/tree";
import type { Commands } from "../commands";
import type { ConnectionState } from "../hub/connection";
import { ActionDocuments } from "./actions";
import type { Log } from "./log";
import { Activity, type AgentAction } from "./model";
import { AgentView, type PendingApprovals } from "./tree";

type ActionItem = { action: AgentAction } | undefined;
type ChangeItem = { change: FileChange } | undefined;

/** What people see of an agent: its actions, and what it has changed. */
export class AgentViews implements vscode.Disposable {
  readonly activity = new Activity();
  readonly recorder: ChangeRecorder;
  readonly commands: Commands;
  readonly #changes = new ChangeList();
  readonly #agent: AgentView;
  readonly #parts: vscode.Disposable[];

  constructor(approvals: PendingApprovals, log: Log) {
    this.recorder = new ChangeRecorder(this.#changes);
    const editors = new ChangeEditors(this.#changes, this.recorder, log);
    const documents = new ActionDocuments(this.activity, this.#changes, editors);
    const changes = new ChangesView(this.#changes);
    this.#agent = new AgentView(this.activity, approvals);
    this.#parts = [editors, documents, changes, this.#agent];
    this.commands = {
      showAction: (item: ActionItem) => item && documents.show(item.action),
      showOutput: (item: ActionItem) => item && documents.showOutput(item.action),
      openActionFile: (item: ActionItem) => item && documents.openFile(item.action),
      showChange: (item: ChangeItem) => this.#chosen(item, (change) => editors.openDiff(change)),
      keepChange: (item: ChangeItem) => this.#chosen(item, (change) => changes.keep(change)),
      undoChange: (item: ChangeItem) => this.#chosen(item, (change) => changes.undo(change)),
      keepAllChanges: () => changes.keepAll(),
      undoAllChanges: () => changes.undoAll(),
      nextChange: () => editors.step(1),
      previousChange: () => editors.step(-1),
      showLastEdit: () => editors.openLast(),
    };
  }

  set state(state: ConnectionState) {
    this.#agent.state = state;
  }

  dispose(): void {
    vscode.Disposable.from(...this.#parts).dispose();
  }

  /** Do something with the change of an item, or with that of the file in the active editor. */
  async #chosen(item: ChangeItem, work: (change: FileChange) => unknown): Promise<void> {
    const path = item?.change.path ?? vscode.window.activeTextEditor?.document.uri.fsPath ?? "";
    const change = this.#changes.find(path);
    if (change) {
      await work(change);
    } else {
      void vscode.window.showInformationMessage("The agent has not changed this file, or its changes were kept.");
    }
  }
}
