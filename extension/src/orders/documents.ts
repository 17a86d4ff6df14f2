import { open, readFile, stat } from "node:fs/promises";
import * as vscode from "vscode";

import type { Content, Read, Write, Written } from "../protocol";
import type { Shown } from "../shown";
import { changeBetween, lineEndOf, sha256, textOf, withNewlines } from "./changes";
import type { Containment, Place } from "./containment";
import { documentAt, encoded, heedUnsaved, inStep, isUpToDate, unsavedAt } from "./open_documents";
import { isMissing, Refusal } from "./refusal";
import type { Turns } from "./turns";
import { goOn } from "./waiting";

/** Reads and writes files, in step with the editors that show them. */
export class Documents {
  constructor(
    private readonly containment: Containment,
    private readonly turns: Turns,
    private readonly shown: Shown,
  ) {}

  async read(order: Read): Promise<Content> {
    const place = await this.containment.inside(order.path);
    const unsaved = await unsavedAt(place);
    const document = unsaved.map((uri) => documentAt(uri.fsPath)).find((one) => one?.isDirty);
    if (document !== undefined) {
      const data = await encoded(document, (await contentOf(place.path)) ?? new Uint8Array());
      const piece = data.subarray(order.offset, order.offset + order.length);
      return { kind: "content", data: new Uint8Array(piece), size: data.length, unsaved: true };
    }
    const { size, piece } = await pieceOf(place.path, order.offset, order.length);
    return { kind: "content", data: piece, size, unsaved: unsaved.length > 0 };
  }

  async write(order: Write, signal: AbortSignal): Promise<Written> {
    const place = await this.containment.inside(order.path);
    return this.turns.take(place.real, async () => {
      goOn(signal);
      await heedUnsaved(place);
      const before = await contentOf(place.path);
      check(order, before);
      const after = new Uint8Array(order.data);
      await put(place, before, after);
      const [was, is] = [textOf(before ?? new Uint8Array()), textOf(after)];
      if (was !== undefined && is !== undefined) {
        this.shown.edited(vscode.Uri.file(place.path), was, is);
      }
      return { kind: "written", created: before === undefined };
    });
  }
}

function check(order: Write, before: Uint8Array | undefined): void {
  if (order.exclusive && before !== undefined) {
    throw new Refusal("exists", `${order.path} exists already.`);
  }
  if (order.expected !== "" && (before === undefined || sha256(before) !== order.expected)) {
    const change = before === undefined ? "is gone" : "has other content";
    throw new Refusal("changed_meanwhile", `${order.path} ${change} now. Read it again.`);
  }
}

/** What a file holds; undefined if there is none. */
async function contentOf(path: string): Promise<Uint8Array | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (isMissing(error) && !(await isThere(path))) {
      return undefined;
    }
    throw error;
  }
}

async function isThere(path: string): Promise<boolean> {
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

async function pieceOf(path: string, offset: number, length: number): Promise<{ size: number; piece: Uint8Array }> {
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

/** Has a file hold `after`: by its editor if it is open, so that this keeps its place and can undo it. */
async function put(place: Place, before: Uint8Array | undefined, after: Uint8Array): Promise<void> {
  const document = documentAt(place.path);
  const text = textOf(after);
  if (document !== undefined && !document.isClosed && before !== undefined && text !== undefined) {
    await edit(document, before, text);
    const onDisk = await contentOf(place.path);
    // An encoding, mixed line ends or something that formats on saving may have made it different.
    if (onDisk !== undefined && Buffer.compare(onDisk, after) === 0) {
      return;
    }
    // Or the user has typed in the meantime, so that the edit was refused.
    await heedUnsaved(place);
  }
  await vscode.workspace.fs.writeFile(vscode.Uri.file(place.path), after);
  if (document !== undefined && text !== undefined) {
    await inStep(document, (shown) => withNewlines(shown) === withNewlines(text));
  }
}

/** Changes and saves an open document that has what is on the disk; others are left alone. */
async function edit(document: vscode.TextDocument, onDisk: Uint8Array, text: string): Promise<void> {
  const before = document.getText();
  const ends = lineEndOf(text);
  // One that does not know yet what its file holds could not be saved.
  if (!isUpToDate(document, onDisk) || ends === "mixed") {
    return;
  }
  const edits = editsOf(document, text, ends);
  if (edits.length === 0 || !(await applied(document.uri, edits))) {
    return;
  }
  await document.save();
  if (!document.isDirty) {
    return;
  }
  await takeBack(document, before);
  throw new Refusal(
    "not_saved",
    `${document.uri.fsPath} could not be saved: VS Code refused to. The file is as it was.`,
  );
}

function editsOf(document: vscode.TextDocument, text: string, ends: "\n" | "\r\n" | undefined): vscode.TextEdit[] {
  const edits: vscode.TextEdit[] = [];
  const now = document.eol === vscode.EndOfLine.LF ? "\n" : "\r\n";
  const before = document.getText();
  const change = changeBetween(before, withNewlines(text).replaceAll("\n", now));
  if (change !== undefined) {
    const range = new vscode.Range(document.positionAt(change.start), document.positionAt(change.end));
    edits.push(vscode.TextEdit.replace(range, change.text));
  }
  if (ends !== undefined && ends !== now) {
    edits.push(vscode.TextEdit.setEndOfLine(ends === "\n" ? vscode.EndOfLine.LF : vscode.EndOfLine.CRLF));
  }
  return edits;
}

async function applied(uri: vscode.Uri, edits: vscode.TextEdit[]): Promise<boolean> {
  const edit = new vscode.WorkspaceEdit();
  edit.set(uri, edits);
  return vscode.workspace.applyEdit(edit);
}

/** Gives a document that could not be saved its text back. */
async function takeBack(document: vscode.TextDocument, text: string): Promise<void> {
  const change = changeBetween(document.getText(), text);
  if (change !== undefined) {
    const range = new vscode.Range(document.positionAt(change.start), document.positionAt(change.end));
    await applied(document.uri, [vscode.TextEdit.replace(range, change.text)]);
  }
}
