import { realpath } from "node:fs/promises";
import * as vscode from "vscode";

import { isWithin, type Place } from "./containment";
import { Refusal } from "./refusal";
import { decodeText, hasByteOrderMark } from "./text_changes";

/** Since VS Code 1.100. */
interface Encoding {
  encode?(content: string, options: { encoding: string }): Thenable<Uint8Array>;
}

/** How long an editor may take to load a changed file. */
const LOAD_MS = 2000;

/** The open document of a path. */
export function documentAt(path: string): vscode.TextDocument | undefined {
  return vscode.workspace.textDocuments.find((document) => isFileUri(document.uri) && document.uri.fsPath === path);
}

/**
 * Have the window's main thread do something, and wait until it has.
 *
 * It answers only while there is a window. What the user did before it answered is then known in this process, too.
 */
export async function syncWithMainThread(): Promise<unknown> {
  return await vscode.commands.executeCommand("setContext", "glovebox.seen", Date.now());
}

/** Files with unsaved changes, at a place or below it. */
export async function unsavedAt(place: Place): Promise<vscode.Uri[]> {
  // What the user has just typed may not have reached this process.
  await syncWithMainThread();
  const unsaved: vscode.Uri[] = [];
  for (const uri of unsavedFiles()) {
    if (isWithin(place.path, uri.fsPath) || isWithin(place.real, await resolvePath(uri.fsPath))) {
      unsaved.push(uri);
    }
  }
  return unsaved;
}

/** Refuse if there are unsaved changes at a place, or save them, as the user has configured it. */
export async function handleUnsaved(place: Place, saving = true): Promise<void> {
  const unsaved = await unsavedAt(place);
  if (unsaved.length === 0) {
    return;
  }
  const names = unsaved.map((uri) => uri.fsPath).join(", ");
  const mode = vscode.workspace.getConfiguration("glovebox").get<string>("unsavedChanges");
  if (mode !== "save" || !saving) {
    const way = saving ? ', or to set glovebox.unsavedChanges to "save"' : "";
    throw new Refusal(
      "unsaved_changes",
      `The user of the window has changes in ${names} that are not saved. Ask them to save or revert it${way}.`,
    );
  }
  for (const uri of unsaved) {
    await documentAt(uri.fsPath)?.save();
  }
  if ((await unsavedAt(place)).length > 0) {
    throw new Refusal("not_saved", `The changes of the window's user in ${names} could not be saved.`);
  }
}

/** The bytes that saving a document would write. */
export async function encodeDocument(document: vscode.TextDocument, onDisk: Uint8Array): Promise<Uint8Array> {
  const workspace = vscode.workspace as Encoding;
  const encoding = encodingOf(document);
  if (workspace.encode !== undefined && encoding !== undefined) {
    return workspace.encode(document.getText(), { encoding });
  }
  return Buffer.from((hasByteOrderMark(onDisk) ? "\ufeff" : "") + document.getText(), "utf8");
}

/** Whether a document has exactly the content of its file, in UTF-8. */
export function isUpToDate(document: vscode.TextDocument, onDisk: Uint8Array): boolean {
  const hasSameMark = hasByteOrderMark(onDisk) === (encodingOf(document) === "utf8bom");
  return hasSameMark && decodeText(onDisk) === document.getText();
}

function encodingOf(document: vscode.TextDocument): string | undefined {
  return "encoding" in document && typeof document.encoding === "string" ? document.encoding : undefined;
}

/** Wait for a while until an open document has the text of its changed file. */
export function waitForText(document: vscode.TextDocument, isSame: (text: string) => boolean): Promise<void> {
  if (document.isClosed || isSame(document.getText())) {
    return Promise.resolve();
  }
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      changing.dispose();
      resolve();
    };
    const timer = setTimeout(done, LOAD_MS);
    const changing = vscode.workspace.onDidChangeTextDocument((change) => {
      if (change.document === document && isSame(document.getText())) {
        done();
      }
    });
  });
}

function unsavedFiles(): vscode.Uri[] {
  const files = new Map<string, vscode.Uri>();
  const documents = [...vscode.workspace.textDocuments, ...vscode.workspace.notebookDocuments];
  for (const document of documents) {
    if (document.isDirty && isFileUri(document.uri)) {
      files.set(document.uri.fsPath, document.uri);
    }
  }
  for (const tab of vscode.window.tabGroups.all.flatMap((group) => group.tabs)) {
    // Custom editors of other extensions have neither kind of document.
    if (tab.isDirty && tab.input instanceof vscode.TabInputCustom && isFileUri(tab.input.uri)) {
      files.set(tab.input.uri.fsPath, tab.input.uri);
    }
  }
  return [...files.values()];
}

function isFileUri(uri: vscode.Uri): boolean {
  return uri.scheme === "file";
}

async function resolvePath(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    return path;
  }
}
