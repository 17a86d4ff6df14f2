import { basename, dirname } from "node:path";
import * as vscode from "vscode";

import { type ChangeKind, type ChangeList, type FileChange, kindOf, undoObstacle } from "./model";
import { snapshot } from "./recorder";
import { undo, UndoRefusal } from "./undo";

type Node = { change: FileChange } | { unlisted: number };

const ICONS: Record<ChangeKind, [icon: string, color: string]> = {
  created: ["diff-added", "gitDecoration.addedResourceForeground"],
  modified: ["diff-modified", "gitDecoration.modifiedResourceForeground"],
  deleted: ["diff-removed", "gitDecoration.deletedResourceForeground"],
  moved: ["diff-renamed", "gitDecoration.renamedResourceForeground"],
};

/** The view of what the agent has changed, where the user keeps or undoes each change. */
export class ChangesView implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.#changed.event;
  readonly #view: vscode.TreeView<Node>;
  readonly #subscriptions: vscode.Disposable[];

  constructor(private readonly changes: ChangeList) {
    this.#view = vscode.window.createTreeView("glovebox.changes", { treeDataProvider: this });
    this.#subscriptions = [
      this.#view,
      this.#changed,
      changes.onDidChange(() => this.#refresh()),
      vscode.workspace.onDidSaveTextDocument(({ uri }) => void this.#removeRestored(uri.fsPath)),
    ];
    this.#refresh();
  }

  getChildren(node?: Node): Node[] {
    const { all, unlisted } = this.changes;
    return node ? [] : [...all.map((change) => ({ change })), ...(unlisted > 0 ? [{ unlisted }] : [])];
  }

  getTreeItem(node: Node): vscode.TreeItem {
    return "change" in node ? changeItem(node.change) : new vscode.TreeItem(`and ${node.unlisted} more`);
  }

  keep(change: FileChange): void {
    this.changes.remove(change.path);
  }

  keepAll(): void {
    this.changes.clear();
  }

  async undo(change: FileChange): Promise<void> {
    try {
      await undo(change, confirmDeletion);
      this.changes.remove(change.path);
    } catch (error) {
      if (!(error instanceof UndoRefusal)) {
        throw error;
      }
      if (error.message && (await vscode.window.showWarningMessage(error.message, "Show Changes"))) {
        await vscode.commands.executeCommand("glovebox.showChange", { change });
      }
    }
  }

  async undoAll(): Promise<void> {
    const { all } = this.changes;
    const files = all.length === 1 ? "1 file" : `${all.length} files`;
    const options = { modal: true, detail: "Files that you have changed since are left as they are." };
    if ((await vscode.window.showWarningMessage(`Undo the agent's changes of ${files}?`, options, "Undo All")) === undefined) {
      return;
    }
    const refused: string[] = [];
    for (const change of all) {
      try {
        await undo(change, () => Promise.resolve(false));
        this.changes.remove(change.path);
      } catch (error) {
        refused.push(error instanceof UndoRefusal && error.message ? error.message : `${basename(change.path)} has changed since.`);
      }
    }
    if (refused.length > 0) {
      void vscode.window.showWarningMessage(`Not undone: ${refused.slice(0, 3).join(" ")}${refused.length > 3 ? " …" : ""}`);
    }
  }

  dispose(): void {
    vscode.Disposable.from(...this.#subscriptions).dispose();
  }

  /** A file that its user has saved as it was before is not changed any more. */
  async #removeRestored(path: string): Promise<void> {
    const change = this.changes.find(path);
    if (change && kindOf(change) === "modified" && (await snapshot(path)).hash === change.before.hash) {
      this.changes.remove(path);
    }
  }

  #refresh(): void {
    const { length } = this.changes.all;
    this.#view.description = length > 0 ? String(length) : "";
    void vscode.commands.executeCommand("setContext", "glovebox.hasChanges", length > 0);
    this.#changed.fire(undefined);
  }
}

async function confirmDeletion(question: string): Promise<boolean> {
  return (await vscode.window.showWarningMessage(question, { modal: true }, "Delete")) !== undefined;
}

function changeItem(change: FileChange): vscode.TreeItem {
  const [icon, color] = ICONS[kindOf(change)];
  const place = dirname(vscode.workspace.asRelativePath(change.path));
  const from = change.from === undefined ? "" : `from ${vscode.workspace.asRelativePath(change.from)}`;
  const obstacle = undoObstacle(change);
  const item = new vscode.TreeItem(basename(change.path));
  item.id = `change ${change.path}`;
  item.description = [place === "." ? "" : place, kindOf(change), from].filter(Boolean).join(" · ");
  item.tooltip = [change.path, `${kindOf(change)} by the agent ${from}`.trimEnd(), obstacle && `It cannot be undone: ${obstacle}.`]
    .filter(Boolean)
    .join("\n");
  item.iconPath = new vscode.ThemeIcon(icon, new vscode.ThemeColor(color));
  item.contextValue = obstacle === undefined ? "change.undoable" : "change";
  item.command = { command: "glovebox.showChange", title: "Show Changes", arguments: [{ change }] };
  item.accessibilityInformation = { label: `${basename(change.path)}, ${kindOf(change)} by the agent ${from}` };
  return item;
}
