import type { Stats } from "node:fs";
import { lstat, readdir, rmdir, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import * as vscode from "vscode";

import type { Delete, Done, Move } from "../protocol";
import { type Containment, isWithin, type Place } from "./containment";
import { heedUnsaved } from "./open_documents";
import { isMissing, Refusal } from "./refusal";
import type { Turns } from "./turns";
import { goOn } from "./waiting";

/** Moves and removes files and directories; links themselves, not what they lead to. */
export class Moving {
  constructor(
    private readonly containment: Containment,
    private readonly turns: Turns,
  ) {}

  async move(order: Move, signal: AbortSignal): Promise<Done> {
    const from = await this.entry(order.path);
    const to = await this.entry(order.to);
    return this.turns.take(from.real, async () => {
      goOn(signal);
      const status = await lstat(from.path);
      await makeRoom(order, from, to, status);
      await heedUnsaved(from);
      await rename(from, to);
      return { kind: "done" };
    });
  }

  async delete(order: Delete, signal: AbortSignal): Promise<Done> {
    const place = await this.entry(order.path);
    return this.turns.take(place.real, async () => {
      goOn(signal);
      const status = await lstat(place.path);
      if (status.isSymbolicLink()) {
        await unlink(place.path);
        return { kind: "done" };
      }
      if (status.isDirectory() && !order.recursive && (await readdir(place.path)).length > 0) {
        throw new Refusal("not_empty", `${order.path} is a directory that is not empty.`);
      }
      await heedUnsaved(place, false);
      const options = { recursive: order.recursive, useTrash: false };
      await vscode.workspace.fs.delete(vscode.Uri.file(place.path), options);
      return { kind: "done" };
    });
  }

  /** A place that is not one of the workspace's folders. */
  private async entry(path: string): Promise<Place> {
    const place = await this.containment.entry(path);
    if (await this.containment.holdsFolder(place)) {
      throw new Refusal("failed", `${path} is a folder of the workspace. Only its user can move or remove it.`);
    }
    return place;
  }
}

/** Sees to it that a destination is free: an empty directory may make room for one, a file for a file. */
async function makeRoom(order: Move, from: Place, to: Place, status: Stats): Promise<void> {
  if (from.real === to.real) {
    throw new Refusal("exists", `${order.path} and ${order.to} are the same.`);
  }
  if (status.isDirectory() && isWithin(from.real, to.real)) {
    throw new Refusal("failed", `${order.path} cannot be moved into itself.`);
  }
  const there = await statusOf(to.path);
  if (there === undefined) {
    await vscode.workspace.fs.createDirectory(vscode.Uri.file(dirname(to.path)));
    return;
  }
  if (!order.overwrite) {
    throw new Refusal("exists", `${order.to} exists already.`);
  }
  if (there.isDirectory() !== status.isDirectory()) {
    throw there.isDirectory()
      ? new Refusal("is_directory", `${order.to} is a directory, which a file cannot replace.`)
      : new Refusal("not_directory", `${order.to} is a file, which a directory cannot replace.`);
  }
  if (!there.isDirectory()) {
    await heedUnsaved(to, false);
    return;
  }
  if ((await readdir(to.path)).length > 0) {
    throw new Refusal("not_empty", `${order.to} is a directory that is not empty.`);
  }
  await rmdir(to.path);
}

/** Renames; editors that show it follow. */
async function rename(from: Place, to: Place): Promise<void> {
  const [source, target] = [vscode.Uri.file(from.path), vscode.Uri.file(to.path)];
  if (!isShown(from.path)) {
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
function isShown(path: string): boolean {
  return vscode.workspace.textDocuments.some(
    ({ uri, isClosed }) => uri.scheme === "file" && !isClosed && isWithin(path, uri.fsPath),
  );
}

async function statusOf(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (isMissing(error)) {
      return undefined;
    }
    throw error;
  }
}
