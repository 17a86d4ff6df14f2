import * as vscode from "vscode";

import type { ChangeEditors } from "../changes/editors";
import type { ChangeList } from "../changes/model";
import { type Activity, actionText, type AgentAction } from "./model";

/** The URI scheme of the documents with the output of actions. */
const OUTPUT = "glovebox-output";
/** What is shown of an action: the changes of its file, its file, or its output. */
const CHANGING = new Set(["write", "edit", "move"]);
const READING = new Set(["read", "stat"]);

/** Shows the output of actions in read-only documents, and their files. */
export class ActionDocuments implements vscode.TextDocumentContentProvider, vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.#changed.event;
  readonly #subscriptions: vscode.Disposable[];

  constructor(
    private readonly activity: Activity,
    private readonly changes: ChangeList,
    private readonly editors: ChangeEditors,
  ) {
    this.#subscriptions = [
      vscode.workspace.registerTextDocumentContentProvider(OUTPUT, this),
      activity.onDidChange(() => this.#refresh()),
      this.#changed,
    ];
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    const action = this.activity.find(uri.query);
    return action ? actionText(action) : "The output of this action is not kept any more.\n";
  }

  /** Show what an action did: the changes of a file, the file that it read, or its output. */
  async show(action: AgentAction): Promise<void> {
    const file = [...action.files].at(-1);
    const change = file === undefined ? undefined : this.changes.find(file);
    if (CHANGING.has(action.kind) && change) {
      await this.editors.openDiff(change);
    } else if (file !== undefined && (CHANGING.has(action.kind) || READING.has(action.kind)) && action.state === "succeeded") {
      await this.openFile(action);
    } else {
      await this.showOutput(action);
    }
  }

  async showOutput(action: AgentAction): Promise<void> {
    const name = action.summary.replaceAll(/[^\p{L}\p{N} ._-]+/gu, " ").trim().slice(0, 40);
    const uri = vscode.Uri.from({ scheme: OUTPUT, path: `/${action.kind} ${name}`, query: action.id });
    await vscode.window.showTextDocument(uri, { preview: true });
  }

  async openFile(action: AgentAction): Promise<void> {
    const file = [...action.files].at(-1);
    if (file !== undefined) {
      await vscode.commands.executeCommand("vscode.open", vscode.Uri.file(file), { preview: true });
    }
  }

  dispose(): void {
    vscode.Disposable.from(...this.#subscriptions).dispose();
  }

  #refresh(): void {
    for (const { uri } of vscode.workspace.textDocuments) {
      if (uri.scheme === OUTPUT && this.activity.find(uri.query)) {
        this.#changed.fire(uri);
      }
    }
  }
}
