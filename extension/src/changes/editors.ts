import * as path from "node:path";
import * as vscode from "vscode";

import type { Log } from "../activity/log";
import { errorText } from "../problem";
import { type ChangeList, type FileChange, kindOf, snapshotText, step, type Stop, stops } from "./model";
import type { ChangeRecorder } from "./recorder";

/** The URI scheme of the texts from before the agent's changes. */
const BEFORE = "glovebox-before";
/** The query of an empty document, in the place of a file that was deleted. */
const NOTHING = "nothing";

/** Shows changes in editors: compared with the text from before, and with marks at the changed lines. */
export class ChangeEditors implements vscode.TextDocumentContentProvider, vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.#changed.event;
  /** The texts of the open documents, which stay as they are when a change is kept. */
  readonly #texts = new Map<string, string>();
  readonly #added = decoration("diffEditor.insertedLineBackground", "editorOverviewRuler.addedForeground");
  readonly #removed = vscode.window.createTextEditorDecorationType({
    borderStyle: "solid",
    borderWidth: "1px 0 0 0",
    borderColor: new vscode.ThemeColor("editorOverviewRuler.deletedForeground"),
    isWholeLine: true,
    overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.deletedForeground"),
    overviewRulerLane: vscode.OverviewRulerLane.Left,
  });
  readonly #subscriptions: vscode.Disposable[];
  /** The files that were opened here. */
  readonly #opened = new Set<string>();
  #next: Stop | undefined;
  #showing = false;

  constructor(
    private readonly changes: ChangeList,
    private readonly recorder: ChangeRecorder,
    private readonly log: Log,
  ) {
    recorder.onEdited = (file, line) => this.#showLater({ path: file, line });
    this.#subscriptions = [
      vscode.workspace.registerTextDocumentContentProvider(BEFORE, this),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => void this.#texts.delete(uri.toString())),
      vscode.workspace.onDidChangeTextDocument((event) => this.#unmark(event)),
      vscode.window.onDidChangeVisibleTextEditors(() => this.#mark()),
      changes.onDidChange(() => {
        this.#mark();
        this.#refresh();
      }),
      this.#changed,
      this.#added,
      this.#removed,
    ];
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    const change = uri.query === NOTHING ? undefined : this.changes.find(uri.fsPath);
    const text = (change && snapshotText(change.before)) ?? this.#texts.get(uri.toString()) ?? "";
    this.#texts.set(uri.toString(), text);
    return text;
  }

  /** Compare a file with its text from before; without a text, open it as it is. */
  async openDiff(change: FileChange, options: vscode.TextDocumentShowOptions = { preview: true }): Promise<void> {
    const file = vscode.Uri.file(change.path);
    const before = file.with({ scheme: BEFORE });
    const now = change.after === undefined ? before.with({ query: NOTHING }) : file;
    if (snapshotText(change.before) === undefined) {
      await vscode.commands.executeCommand("vscode.open", file, options);
      return;
    }
    const title = `${path.basename(change.path)} (${kindOf(change)} by the agent)`;
    await vscode.commands.executeCommand("vscode.diff", before, now, title, options);
  }

  async openLast(): Promise<void> {
    if (this.changes.last) {
      await this.openDiff(this.changes.last);
    } else {
      void vscode.window.showInformationMessage("There are no changes of an agent in this window.");
    }
  }

  /** Go to the next place that the agent has changed, or to the one before. */
  async step(direction: 1 | -1): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const at = editor && { path: editor.document.uri.fsPath, line: editor.selection.active.line };
    const stop = step(stops(this.changes.all), at, direction);
    if (stop) {
      const shown = await vscode.window.showTextDocument(vscode.Uri.file(stop.path), { preview: true });
      const position = shown.document.lineAt(Math.min(stop.line, shown.document.lineCount - 1)).range.start;
      shown.selection = new vscode.Selection(position, position);
      shown.revealRange(new vscode.Range(position, position), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
    } else {
      void vscode.window.showInformationMessage("There are no changed lines of an agent in this window.");
    }
  }

  dispose(): void {
    vscode.Disposable.from(...this.#subscriptions).dispose();
  }

  /** Have open documents show another text from before, if there is one. */
  #refresh(): void {
    for (const [shown, text] of this.#texts) {
      const uri = vscode.Uri.parse(shown);
      const change = uri.query === NOTHING ? undefined : this.changes.find(uri.fsPath);
      if (change && snapshotText(change.before) !== text) {
        this.#changed.fire(uri);
      }
    }
  }

  #mark(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      const { uri } = editor.document;
      const lines = (uri.scheme === "file" ? this.changes.find(uri.fsPath)?.lines : undefined) ?? [];
      const last = editor.document.lineCount - 1;
      const ranges = lines.map(({ start, count }) => ({ count, from: Math.min(start, last), to: Math.min(start + count - 1, last) }));
      editor.setDecorations(this.#added, ranges.filter(({ count }) => count > 0).map(({ from, to }) => new vscode.Range(from, 0, to, 0)));
      editor.setDecorations(this.#removed, ranges.filter(({ count }) => count === 0).map(({ from }) => new vscode.Range(from, 0, from, 0)));
    }
  }

  /** A user's edit removes the marks of its lines. A document that is loaded from the disk again is not an edit. */
  #unmark({ document, contentChanges }: vscode.TextDocumentChangeEvent): void {
    const file = document.uri.fsPath;
    if (document.uri.scheme !== "file" || !document.isDirty || this.recorder.isWriting(file)) {
      return;
    }
    for (const { range, text } of contentChanges) {
      this.changes.edit(file, range.start.line, range.end.line - range.start.line + 1, text.split("\n").length);
    }
  }

  /** Show a file that the agent has edited, as the user has configured it. Of several at once the last is shown. */
  #showLater(stop: Stop): void {
    this.#next = stop;
    void this.#show();
  }

  async #show(): Promise<void> {
    if (this.#showing) {
      return;
    }
    this.#showing = true;
    try {
      for (let stop = this.#takeNext(); stop; stop = this.#takeNext()) {
        await this.#open(stop);
        this.#opened.add(vscode.Uri.file(stop.path).toString());
      }
    } catch (error) {
      this.log.debug(`An edit could not be shown: ${errorText(error)}`);
    } finally {
      this.#showing = false;
    }
  }

  async #open(stop: Stop): Promise<void> {
    const how = vscode.workspace.getConfiguration("glovebox").get<string>("showEdits");
    const options = { viewColumn: this.#column(), preserveFocus: true, preview: true };
    const change = this.changes.find(stop.path);
    if (how === "diff" && change) {
      await this.openDiff(change, options);
    } else if (how === "open") {
      const uri = vscode.Uri.file(stop.path);
      const visible = vscode.window.visibleTextEditors.find((one) => one.document.uri.toString() === uri.toString());
      const editor = visible ?? (await vscode.window.showTextDocument(uri, options));
      const at = Math.min(stop.line, editor.document.lineCount - 1);
      editor.revealRange(new vscode.Range(at, 0, at, 0), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
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
      return tab.input.original.scheme === BEFORE ? vscode.ViewColumn.Active : vscode.ViewColumn.Beside;
    }
    return vscode.ViewColumn.Active;
  }

  #takeNext(): Stop | undefined {
    const stop = this.#next;
    this.#next = undefined;
    return stop;
  }
}

function decoration(background: string, ruler: string): vscode.TextEditorDecorationType {
  return vscode.window.createTextEditorDecorationType({
    backgroundColor: new vscode.ThemeColor(background),
    isWholeLine: true,
    overviewRulerColor: new vscode.ThemeColor(ruler),
    overviewRulerLane: vscode.OverviewRulerLane.Left,
  });
}
