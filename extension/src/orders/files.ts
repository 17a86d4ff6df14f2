import type { Stats } from "node:fs";
import { lstat, readdir, rmdir, stat, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import * as vscode from "vscode";

import type { ChangeRecorder } from "../changes/recorder";
import type { Delete, Done, Entries, Entry, Kind, List, MakeDirectory, Move, PathInfo, Stat } from "../protocol";
import { type KeyedLock, throwIfCancelled } from "./concurrency";
import { type Containment, isWithin, type Place } from "./containment";
import { handleUnsaved, unsavedAt } from "./open_documents";
import { isMissing, Refusal } from "./refusal";

/** Inspects, lists, creates, moves and deletes files and directories. */
export class Files {
  constructor(
    private readonly containment: Containment,
    private readonly lock: KeyedLock,
    private readonly changes: ChangeRecorder,
  ) {}

  async stat(order: Stat): Promise<PathInfo> {
    const place = await this.containment.resolve(order.path);
    // A link that leads nowhere is there, too.
    const status = (await statusOf(place.path, stat)) ?? (await statusOf(place.path, lstat));
    if (status === undefined) {
      return { kind: "path_info", exists: false };
    }
    const type = status.isFile() ? "file" : status.isDirectory() ? "directory" : "other";
    return {
      kind: "path_info",
      exists: true,
      type,
      size: status.size,
      modified: status.mtimeMs / 1000,
      unsaved: type === "file" && (await unsavedAt(place)).length > 0,
    };
  }

  async list(order: List): Promise<Entries> {
    const place = await this.containment.resolve(order.path);
    if (!(await stat(place.path)).isDirectory()) {
      throw new Refusal("not_directory", `${order.path} is not a directory.`);
    }
    const found = await vscode.workspace.fs.readDirectory(vscode.Uri.file(place.path));
    return { kind: "entries", entries: found.map(([name, type]) => toEntry(name, type)) };
  }

  async makeDirectory(order: MakeDirectory): Promise<Done> {
    const place = await this.containment.resolve(order.path);
    const status = (await statusOf(place.path, stat)) ?? (await statusOf(place.path, lstat));
    if (status !== undefined && !status.isDirectory()) {
      throw new Refusal("exists", `${order.path} exists already, and is not a directory.`);
    }
    await vscode.workspace.fs.createDirectory(vscode.Uri.file(place.path));
    return { kind: "done" };
  }

  /** Move a file, a directory, or a link itself. */
  async move(order: Move, signal: AbortSignal): Promise<Done> {
    const from = await this.movableEntry(order.path);
    const to = await this.movableEntry(order.to);
    return this.lock.run(from.real, async () => {
      throwIfCancelled(signal);
      const status = await lstat(from.path);
      await clearDestination(order, from, to, status);
      await handleUnsaved(from);
      await this.changes.move(from.path, to.path, () => rename(from, to));
      return { kind: "done" };
    });
  }

  /** Delete a file, a directory, or a link itself. */
  async delete(order: Delete, signal: AbortSignal): Promise<Done> {
    const place = await this.movableEntry(order.path);
    return this.lock.run(place.real, async () => {
      throwIfCancelled(signal);
      const status = await lstat(place.path);
      if (status.isSymbolicLink()) {
        await this.changes.remove(place.path, () => unlink(place.path));
        return { kind: "done" };
      }
      if (status.isDirectory() && !order.recursive && (await readdir(place.path)).length > 0) {
        throw new Refusal("not_empty", `${order.path} is a directory that is not empty.`);
      }
      await handleUnsaved(place, false);
      const options = { recursive: order.recursive, useTrash: false };
      await this.changes.remove(place.path, async () => {
        await vscode.workspace.fs.delete(vscode.Uri.file(place.path), options);
      });
      return { kind: "done" };
    });
  }

  /** An entry that is not a folder of the workspace, and contains none. */
  private async movableEntry(path: string): Promise<Place> {
    const place = await this.containment.resolveEntry(path);
    if (await this.containment.containsFolder(place)) {
      throw new Refusal("failed", `${path} is a folder of the workspace. Only its user can move or remove it.`);
    }
    return place;
  }
}

/** Check and clear the destination of a move: a file may replace a file, a directory an empty directory. */
async function clearDestination(order: Move, from: Place, to: Place, status: Stats): Promise<void> {
  if (from.real === to.real) {
    throw new Refusal("exists", `${order.path} and ${order.to} are the same.`);
  }
  if (status.isDirectory() && isWithin(from.real, to.real)) {
    throw new Refusal("failed", `${order.path} cannot be moved into itself.`);
  }
  const existing = await statusOf(to.path, lstat);
  if (existing === undefined) {
    await vscode.workspace.fs.createDirectory(vscode.Uri.file(dirname(to.path)));
    return;
  }
  if (!order.overwrite) {
    throw new Refusal("exists", `${order.to} exists already.`);
  }
  if (existing.isDirectory() !== status.isDirectory()) {
    throw existing.isDirectory()
      ? new Refusal("is_directory", `${order.to} is a directory, which a file cannot replace.`)
      : new Refusal("not_directory", `${order.to} is a file, which a directory cannot replace.`);
  }
  if (!existing.isDirectory()) {
    await handleUnsaved(to, false);
    return;
  }
  if ((await readdir(to.path)).length > 0) {
    throw new Refusal("not_empty", `${order.to} is a directory that is not empty.`);
  }
  await rmdir(to.path);
}

/** Rename; open editors follow. */
async function rename(from: Place, to: Place): Promise<void> {
  const [source, target] = [vscode.Uri.file(from.path), vscode.Uri.file(to.path)];
  if (!isOpen(from.path)) {
    await vscode.workspace.fs.rename(source, target, { overwrite: true });
    return;
  }
  const edit = new vscode.WorkspaceEdit();
  edit.renameFile(source, target, { overwrite: true });
  if (!(await vscode.workspace.applyEdit(edit))) {
    throw new Refusal("failed", `VS Code refused to move ${from.path}.`);
  }
}

/** Whether an open document is at a path or below it. */
function isOpen(path: string): boolean {
  return vscode.workspace.textDocuments.some(
    ({ uri, isClosed }) => uri.scheme === "file" && !isClosed && isWithin(path, uri.fsPath),
  );
}

/** The status of a path; undefined if nothing is there. */
async function statusOf(path: string, read: (path: string) => Promise<Stats>): Promise<Stats | undefined> {
  try {
    return await read(path);
  } catch (error) {
    if (isMissing(error)) {
      return undefined;
    }
    throw error;
  }
}

function toEntry(name: string, type: vscode.FileType): Entry {
  const kind: Kind =
    (type & vscode.FileType.Directory) !== 0 ? "directory" : (type & vscode.FileType.File) !== 0 ? "file" : "other";
  return { name, type: kind, is_link: (type & vscode.FileType.SymbolicLink) !== 0 };
}
