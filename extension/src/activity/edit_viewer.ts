import * as path from "node:path";
import * as vscode from "vscode";
import type { Log } from "./log";
import { errorText } from "../problem";

/** The URI scheme of the texts from before an edit. */
const SCHEME = "glovebox-before";
/** How many of those texts are stored. */
const MAX_STORED = 20;

interface Edit {
  uri: vscode.Uri;
  /** The document with the text from before the edit. */
  before: vscode.Uri;
  /** The first line that differs, counted from 0. */
  line: number;
}

/** Shows an agent's edits of files, as the user has configured it. */
export class EditViewer implements vscode.Disposable, vscode.TextDocumentContentProvider {
  readonly #before = new Map<string, string>();
  readonly #registration: vscode.Disposable;
  /** The files that were opened here. */
  readonly #opened = new Set<string>();
  #count = 0;
  #last: Edit | undefined;
  #next: Edit | undefined;
  #showing = false;

  constructor(private readonly log: Log) {
    this.#registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.#before.get(uri.query) ?? "";
  }

  /** Add an edit and show it. Of edits that come faster than they can be shown, the last is shown. */
  add(uri: vscode.Uri, before: string, after: string): void {
    const key = String(++this.#count);
    this.#before.set(key, before);
    for (const oldest of this.#before.keys()) {
      if (this.#before.size <= MAX_STORED) {
        break;
      }
      this.#before.delete(oldest);
    }
    const edit = { uri, before: uri.with({ scheme: SCHEME, query: key }), line: firstDifference(before, after) };
    this.#last = edit;
    this.#next = edit;
    void this.#show();
  }

  /** Show the last edit as a comparison. */
  async showLast(): Promise<void> {
    if (this.#last) {
      await openDiff(this.#last, { preview: true });
    } else {
      void vscode.window.showInformationMessage("No agent has changed a file in this window yet.");
    }
  }

  dispose(): void {
    this.#registration.dispose();
  }

  async #show(): Promise<void> {
    if (this.#showing) {
      return;
    }
    this.#showing = true;
    try {
      for (let edit = this.#takeNext(); edit; edit = this.#takeNext()) {
        await open(edit, this.#column());
        this.#opened.add(edit.uri.toString());
      }
    } catch (error) {
      this.log.debug(`An edit could not be shown: ${errorText(error)}`);
    } finally {
      this.#showing = false;
    }
  }

  /** Where to show an edit: not in place of the editor that the user works in, which would take the focus away. */
  #column(): vscode.ViewColumn {
    const tab = vscode.window.tabGroups.activeTabGroup.activeTab;
    if (tab?.input instanceof vscode.TabInputText) {
      const isOurs = tab.isPreview && !tab.isDirty && this.#opened.has(tab.input.uri.toString());
      return isOurs ? vscode.ViewColumn.Active : vscode.ViewColumn.Beside;
    }
    if (tab?.input instanceof vscode.TabInputTextDiff) {
      return tab.input.original.scheme === SCHEME ? vscode.ViewColumn.Active : vscode.ViewColumn.Beside;
    }
    return vscode.ViewColumn.Active;
  }

  #takeNext(): Edit | undefined {
    const edit = this.#next;
    this.#next = undefined;
    return edit;
  }
}

async function open(edit: Edit, column: vscode.ViewColumn): Promise<void> {
  const how = vscode.workspace.getConfiguration("glovebox").get<string>("showEdits");
  if (how === "diff") {
    await openDiff(edit, { viewColumn: column, preserveFocus: true, preview: true });
  } else if (how === "open") {
    const visible = vscode.window.visibleTextEditors.find((one) => one.document.uri.toString() === edit.uri.toString());
    const options = { viewColumn: column, preserveFocus: true, preview: true };
    const editor = visible ?? (await vscode.window.showTextDocument(edit.uri, options));
    const at = Math.min(edit.line, editor.document.lineCount - 1);
    editor.revealRange(new vscode.Range(at, 0, at, 0), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  }
}

async function openDiff(edit: Edit, options: vscode.TextDocumentShowOptions): Promise<void> {
  const title = `${path.basename(edit.uri.path)} (changed by the agent)`;
  await vscode.commands.executeCommand("vscode.diff", edit.before, edit.uri, title, options);
}

/** The first line in which two texts differ, counted from 0. */
function firstDifference(before: string, after: string): number {
  let at = 0;
  let line = 0;
  while (at < before.length && before[at] === after[at]) {
    line += before[at] === "\n" ? 1 : 0;
    at += 1;
  }
  return line;
}
