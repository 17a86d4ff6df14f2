import { realpath } from "node:fs/promises";
import * as vscode from "vscode";

import { hasMark, textOf } from "./changes";
import { isWithin, type Place } from "./containment";
import { Refusal } from "./refusal";

/** Since VS Code 1.100. */
interface Encoding {
  encode?(content: string, options: { encoding: string }): Thenable<Uint8Array>;
}

/** How long an editor may take to notice that its file has changed. */
const NOTICE = 2000;

/** The document that is open with a path. */
export function documentAt(path: string): vscode.TextDocument | undefined {
  return vscode.workspace.textDocuments.find((document) => isFile(document.uri) && document.uri.fsPath === path);
}

/**
 * Have the window's main thread do something, and wait until it has.
 *
 * It answers only while there is a window. What the user did before it answered is then known in this process, too.
 */
export async function syncWithMainThread(): Promise<unknown> {
  return await vscode.commands.executeCommand("setContext", "glovebox.seen", Date.now());
}

/** Files with changes that are not saved, at a place or below it. */
export async function unsavedAt(place: Place): Promise<vscode.Uri[]> {
  // What the user has just typed may not have reached this process.
  await syncWithMainThread();
  const unsaved: vscode.Uri[] = [];
  for (const uri of unsavedFiles()) {
    if (isWithin(place.path, uri.fsPath) || isWithin(place.real, await realOf(uri.fsPath))) {
      unsaved.push(uri);
    }
  }
  return unsaved;
}

/** Refuses if the user has changes there that are not saved, or saves them, as the user has set it. */
export async function heedUnsaved(place: Place, saving = true): Promise<void> {
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

/** What a document would be on the disk. */
export async function encoded(document: vscode.TextDocument, onDisk: Uint8Array): Promise<Uint8Array> {
  const workspace = vscode.workspace as Encoding;
  const encoding = encodingOf(document);
  if (workspace.encode !== undefined && encoding !== undefined) {
    return workspace.encode(document.getText(), { encoding });
  }
  return Buffer.from((hasMark(onDisk) ? "\ufeff" : "") + document.getText(), "utf8");
}

/** Whether a document has exactly what is on the disk, in UTF-8. */
export function isUpToDate(document: vscode.TextDocument, onDisk: Uint8Array): boolean {
  const hasItsMark = hasMark(onDisk) === (encodingOf(document) === "utf8bom");
  return hasItsMark && textOf(onDisk) === document.getText();
}

function encodingOf(document: vscode.TextDocument): string | undefined {
  return "encoding" in document && typeof document.encoding === "string" ? document.encoding : undefined;
}

/** Waits until an open document has the text that its file has now; not for long. */
export function inStep(document: vscode.TextDocument, isSame: (text: string) => boolean): Promise<void> {
  if (document.isClosed || isSame(document.getText())) {
    return Promise.resolve();
  }
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      changing.dispose();
      resolve();
    };
    const timer = setTimeout(done, NOTICE);
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
    if (document.isDirty && isFile(document.uri)) {
      files.set(document.uri.fsPath, document.uri);
    }
  }
  for (const tab of vscode.window.tabGroups.all.flatMap((group) => group.tabs)) {
    // Editors of other extensions have neither kind of document.
    if (tab.isDirty && tab.input instanceof vscode.TabInputCustom && isFile(tab.input.uri)) {
      files.set(tab.input.uri.fsPath, tab.input.uri);
    }
  }
  return [...files.values()];
}

function isFile(uri: vscode.Uri): boolean {
  return uri.scheme === "file";
}

async function realOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    return path;
  }
}
