import { open, readFile, stat } from "node:fs/promises";
import * as vscode from "vscode";

import type { ChangeRecorder } from "../changes/recorder";
import type { Content, Read, Write, Written } from "../protocol";
import { type KeyedLock, throwIfCancelled } from "./concurrency";
import type { Containment, Place } from "./containment";
import { documentAt, encodeDocument, handleUnsaved, isUpToDate, unsavedAt, waitForText } from "./open_documents";
import { isMissing, Refusal } from "./refusal";
import { decodeText, lineEnding, normalizeNewlines, sha256, smallestChange } from "./text_changes";

/** Settings that change a file when an editor saves it. */
const SAVE_SETTINGS = {
  editor: ["formatOnSave", "codeActionsOnSave"],
  files: ["insertFinalNewline", "trimTrailingWhitespace", "trimFinalNewlines"],
};

/** Reads and writes files through the editors in which they are open. */
export class Documents {
  constructor(
    private readonly containment: Containment,
    private readonly lock: KeyedLock,
    private readonly changes: ChangeRecorder,
  ) {}

  async read(order: Read): Promise<Content> {
    const place = await this.containment.resolve(order.path);
    const unsaved = await unsavedAt(place);
    const document = unsaved.map((uri) => documentAt(uri.fsPath)).find((one) => one?.isDirty);
    if (document !== undefined) {
      const data = await encodeDocument(document, (await readContent(place.path)) ?? new Uint8Array());
      const piece = data.subarray(order.offset, order.offset + order.length);
      return { kind: "content", data: new Uint8Array(piece), size: data.length, unsaved: true };
    }
    const { size, piece } = await readPiece(place.path, order.offset, order.length);
    return { kind: "content", data: piece, size, unsaved: unsaved.length > 0 };
  }

  async write(order: Write, signal: AbortSignal): Promise<Written> {
    const place = await this.containment.resolve(order.path);
    return this.lock.run(place.real, async () => {
      throwIfCancelled(signal);
      await handleUnsaved(place);
      const before = await readContent(place.path);
      checkPreconditions(order, before);
      const sent = new Uint8Array(order.data);
      let after: Uint8Array = sent;
      await this.changes.edit(place.path, async () => {
        after = await replaceContent(place, before, sent);
      });
      const isSame = Buffer.compare(sent, after) === 0;
      return { kind: "written", created: before === undefined, ...(isSame ? {} : { saved: after }) };
    });
  }
}

function checkPreconditions(order: Write, before: Uint8Array | undefined): void {
  if (order.exclusive && before !== undefined) {
    throw new Refusal("exists", `${order.path} exists already.`);
  }
  if (order.expected !== "" && (before === undefined || sha256(before) !== order.expected)) {
    const change = before === undefined ? "is gone" : "has other content";
    throw new Refusal("changed_meanwhile", `${order.path} ${change} now. Read it again.`);
  }
}

/** The content of a file; undefined if there is none. */
export async function readContent(path: string): Promise<Uint8Array | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (isMissing(error) && !(await exists(path))) {
      return undefined;
    }
    throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      return false;
    }
    throw error;
  }
}

async function readPiece(path: string, offset: number, length: number): Promise<{ size: number; piece: Uint8Array }> {
  const status = await stat(path);
  if (status.isDirectory()) {
    throw new Refusal("is_directory", `${path} is a directory.`);
  }
  if (!status.isFile()) {
    throw new Refusal("failed", `${path} is not a regular file.`);
  }
  const { size } = status;
  const piece = new Uint8Array(Math.max(0, Math.min(length, size - offset)));
  const file = await open(path);
  try {
    const { bytesRead } = await file.read(piece, 0, piece.length, offset);
    return { size, piece: piece.subarray(0, bytesRead) };
  } finally {
    await file.close();
  }
}

/**
 * Write a file; returns what it has then, which settings of the user may have made different.
 *
 * A text goes through its editor if it is open, which keeps its position and can undo the change, or if saving it there would
 * change it, as a formatter does.
 */
export async function replaceContent(place: Place, before: Uint8Array | undefined, after: Uint8Array): Promise<Uint8Array> {
  const uri = vscode.Uri.file(place.path);
  const text = decodeText(after);
  let known = before;
  let document = documentAt(place.path);
  if (document === undefined && text !== undefined && changesOnSave(uri)) {
    if (before === undefined) {
      await vscode.workspace.fs.writeFile(uri, new Uint8Array());
      known = new Uint8Array();
    }
    document = await openDocument(uri);
  }
  if (document !== undefined && !document.isClosed && known !== undefined && text !== undefined) {
    const saved = (await editAndSave(document, known, text)) ? await readContent(place.path) : undefined;
    // With another text it is what the user's settings want; otherwise its byte order mark may be missing.
    if (saved !== undefined && (decodeText(saved) !== text || Buffer.compare(saved, after) === 0)) {
      return saved;
    }
    // The user may have typed in the meantime, so that the edit was refused.
    await handleUnsaved(place);
  }
  await vscode.workspace.fs.writeFile(uri, after);
  if (document !== undefined && text !== undefined) {
    await waitForText(document, (shown) => normalizeNewlines(shown) === normalizeNewlines(text));
  }
  return after;
}

/** Whether the user's settings may change a file when an editor saves it, in any language. */
function changesOnSave(uri: vscode.Uri): boolean {
  return Object.entries(SAVE_SETTINGS).some(([section, names]) => {
    const settings = vscode.workspace.getConfiguration(section, uri);
    return names.some((name) => {
      const value: unknown = settings.get(name);
      const isSet = typeof value === "object" && value !== null ? Object.keys(value).length > 0 : value === true;
      return isSet || (settings.inspect(name)?.languageIds ?? []).length > 0;
    });
  });
}

/** The document of a file, which is not shown for that; undefined if it is no text for VS Code. */
async function openDocument(uri: vscode.Uri): Promise<vscode.TextDocument | undefined> {
  try {
    return await vscode.workspace.openTextDocument(uri);
  } catch {
    return undefined;
  }
}

/** Edit and save an open document, if it has the content of its file; returns whether that was possible. */
async function editAndSave(document: vscode.TextDocument, onDisk: Uint8Array, text: string): Promise<boolean> {
  const before = document.getText();
  const ends = lineEnding(text);
  // A document that has not loaded the last change of its file cannot be saved.
  if (!isUpToDate(document, onDisk) || ends === "mixed") {
    return false;
  }
  const edits = editsOf(document, text, ends);
  if (edits.length === 0 || !(await applyEdits(document.uri, edits))) {
    return false;
  }
  await document.save();
  if (!document.isDirty) {
    return true;
  }
  await restoreText(document, before);
  throw new Refusal(
    "not_saved",
    `${document.uri.fsPath} could not be saved: VS Code refused to. The file is as it was.`,
  );
}

function editsOf(document: vscode.TextDocument, text: string, ends: "\n" | "\r\n" | undefined): vscode.TextEdit[] {
  const edits: vscode.TextEdit[] = [];
  const now = document.eol === vscode.EndOfLine.LF ? "\n" : "\r\n";
  const before = document.getText();
  const change = smallestChange(before, normalizeNewlines(text).replaceAll("\n", now));
  if (change !== undefined) {
    const range = new vscode.Range(document.positionAt(change.start), document.positionAt(change.end));
    edits.push(vscode.TextEdit.replace(range, change.text));
  }
  if (ends !== undefined && ends !== now) {
    edits.push(vscode.TextEdit.setEndOfLine(ends === "\n" ? vscode.EndOfLine.LF : vscode.EndOfLine.CRLF));
  }
  return edits;
}

async function applyEdits(uri: vscode.Uri, edits: vscode.TextEdit[]): Promise<boolean> {
  const edit = new vscode.WorkspaceEdit();
  edit.set(uri, edits);
  return vscode.workspace.applyEdit(edit);
}

/** Restore the text of a document that could not be saved. */
async function restoreText(document: vscode.TextDocument, text: string): Promise<void> {
  const change = smallestChange(document.getText(), text);
  if (change !== undefined) {
    const range = new vscode.Range(document.positionAt(change.start), document.positionAt(change.end));
    await applyEdits(document.uri, [vscode.TextEdit.replace(range, change.text)]);
  }
}
