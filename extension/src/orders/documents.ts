import { open, readFile, stat } from "node:fs/promises";
import * as vscode from "vscode";

import type { ChangeRecorder } from "../changes/recorder";
import type { Content, Read, Write, Written } from "../protocol";
import { type KeyedLock, throwIfCancelled } from "./concurrency";
import type { Containment, Place } from "./containment";
import { documentAt, encodeDocument, handleUnsaved, isUpToDate, unsavedAt, waitForText } from "./open_documents";
import { isMissing, Refusal } from "./refusal";
import { decodeText, lineEnding, normalizeNewlines, sha256, smallestChange } from "./text_changes";

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
      const after = new Uint8Array(order.data);
      await this.changes.edit(place.path, () => replaceContent(place, before, after));
      return { kind: "written", created: before === undefined };
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

/** Write a file: through its editor if it is open, which keeps its position and can undo the change. */
export async function replaceContent(place: Place, before: Uint8Array | undefined, after: Uint8Array): Promise<void> {
  const document = documentAt(place.path);
  const text = decodeText(after);
  if (document !== undefined && !document.isClosed && before !== undefined && text !== undefined) {
    await editAndSave(document, before, text);
    const onDisk = await readContent(place.path);
    // An encoding, mixed line endings or a formatter may have made it different.
    if (onDisk !== undefined && Buffer.compare(onDisk, after) === 0) {
      return;
    }
    // Or the user has typed in the meantime, so that the edit was refused.
    await handleUnsaved(place);
  }
  await vscode.workspace.fs.writeFile(vscode.Uri.file(place.path), after);
  if (document !== undefined && text !== undefined) {
    await waitForText(document, (shown) => normalizeNewlines(shown) === normalizeNewlines(text));
  }
}

/** Edit and save an open document, if it has the content of its file. */
async function editAndSave(document: vscode.TextDocument, onDisk: Uint8Array, text: string): Promise<void> {
  const before = document.getText();
  const ends = lineEnding(text);
  // A document that has not loaded the last change of its file cannot be saved.
  if (!isUpToDate(document, onDisk) || ends === "mixed") {
    return;
  }
  const edits = editsOf(document, text, ends);
  if (edits.length === 0 || !(await applyEdits(document.uri, edits))) {
    return;
  }
  await document.save();
  if (!document.isDirty) {
    return;
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
