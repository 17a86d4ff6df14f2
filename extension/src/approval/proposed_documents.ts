import * as path from "node:path";
import * as vscode from "vscode";

import type { ApprovalRequest } from "./approvals";

const SCHEME = "glovebox-proposed";

/** Shows what a request is about: an edit beside the present text, or the whole text of a command. */
export class ProposedDocuments implements vscode.TextDocumentContentProvider, vscode.Disposable {
  readonly #texts = new Map<string, string>();
  readonly #registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.#texts.get(uri.query) ?? "";
  }

  /** Show a request. The focus stays where it is unless `focus` is set. */
  async show({ id, edit, detail, question }: ApprovalRequest, focus: boolean): Promise<void> {
    const options = { preview: false, preserveFocus: !focus, viewColumn: freeColumn() };
    if (edit) {
      const [before, after] = [this.#document(edit.path, id, "before"), this.#document(edit.path, id, "proposed")];
      this.#texts.set(before.query, edit.before);
      this.#texts.set(after.query, edit.after);
      const title = `${path.basename(edit.path)} (proposed by the agent)`;
      await vscode.commands.executeCommand("vscode.diff", before, after, title, options);
    } else {
      const document = this.#document("/proposed", id, "text");
      this.#texts.set(document.query, `${question}\n\n${detail}\n`);
      await vscode.window.showTextDocument(document, options);
    }
  }

  /** Close what was shown of a request. */
  async close(id: string): Promise<void> {
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    const shown = tabs.filter((tab) => documentsOf(tab).some((uri) => isOf(uri, id)));
    ["before", "proposed", "text"].forEach((side) => this.#texts.delete(`${id} ${side}`));
    if (shown.length > 0) {
      await vscode.window.tabGroups.close(shown, true);
    }
  }

  dispose(): void {
    this.#registration.dispose();
  }

  #document(file: string, id: string, side: string): vscode.Uri {
    return vscode.Uri.file(file).with({ scheme: SCHEME, query: `${id} ${side}` });
  }
}

function documentsOf({ input }: vscode.Tab): vscode.Uri[] {
  if (input instanceof vscode.TabInputTextDiff) {
    return [input.modified];
  }
  return input instanceof vscode.TabInputText ? [input.uri] : [];
}

function isOf(uri: vscode.Uri, id: string): boolean {
  return uri.scheme === SCHEME && uri.query.split(" ")[0] === id;
}

/** Not in place of the editor that the user works in, which would take the focus away. */
function freeColumn(): vscode.ViewColumn {
  const tab = vscode.window.tabGroups.activeTabGroup.activeTab;
  return tab && !documentsOf(tab).some(({ scheme }) => scheme === SCHEME) ? vscode.ViewColumn.Beside : vscode.ViewColumn.Active;
}
