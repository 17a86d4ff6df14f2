import { chmod } from "node:fs/promises";
import * as vscode from "vscode";

import { Containment } from "../orders/containment";
import { replaceContent } from "../orders/documents";
import { folders } from "../orders/executor";
import { unsavedAt } from "../orders/open_documents";
import { errorText } from "../problem";
import { ABSENT, type FileChange, kindOf, type Snapshot, undoObstacle } from "./model";
import { snapshot } from "./recorder";

const containment = new Containment(folders);

/** Why a change was not undone, for the user. */
export class UndoRefusal extends Error {}

/**
 * Have a file as it was before the agent came.
 *
 * `confirm` is asked whether a file that the agent has created is to be deleted although it was changed since.
 *
 * @throws UndoRefusal if something that is not the agent's would be lost.
 */
export async function undo(change: FileChange, confirm: (question: string) => Promise<boolean>): Promise<void> {
  const name = vscode.workspace.asRelativePath(change.path);
  try {
    await checkUnchanged(change, name, confirm);
    await restore(change);
  } catch (error) {
    throw error instanceof UndoRefusal ? error : new UndoRefusal(`${name} was not restored: ${errorText(error)}`);
  }
}

async function checkUnchanged(change: FileChange, name: string, confirm: (question: string) => Promise<boolean>): Promise<void> {
  const obstacle = undoObstacle(change);
  if (obstacle !== undefined) {
    throw new UndoRefusal(`${name} cannot be undone: ${obstacle}.`);
  }
  for (const path of [change.path, ...(change.from === undefined ? [] : [change.from])]) {
    if ((await unsavedAt(await containment.resolve(path))).length > 0) {
      throw new UndoRefusal(`${vscode.workspace.asRelativePath(path)} has changes of yours that are not saved. Save or revert them first.`);
    }
  }
  if (change.from !== undefined && (await snapshot(change.from)).hash !== undefined) {
    throw new UndoRefusal(`${name} cannot be moved back: there is another file at ${vscode.workspace.asRelativePath(change.from)}.`);
  }
  const { hash } = await snapshot(change.path);
  if (hash === change.after) {
    return;
  }
  if (kindOf(change) !== "created") {
    throw new UndoRefusal(`${name} has changed since the agent's last edit, which would be lost. Undo it in the editor.`);
  }
  if (hash !== undefined && !(await confirm(`${name} was created by the agent and has changed since. Delete it?`))) {
    throw new UndoRefusal("");
  }
}

async function restore(change: FileChange): Promise<void> {
  const file = vscode.Uri.file(change.path);
  switch (kindOf(change)) {
    case "created":
      if ((await snapshot(change.path)).hash !== undefined) {
        await vscode.workspace.fs.delete(file, { useTrash: false });
      }
      return;
    case "moved":
      await vscode.workspace.fs.rename(file, vscode.Uri.file(change.from ?? ""), { overwrite: false });
      await write(change.from ?? "", change.before);
      return;
    case "deleted":
    case "modified":
      await write(change.path, change.before);
  }
}

/** Write a file through its editor, if it is open. */
async function write(path: string, { hash, data, mode }: Snapshot): Promise<void> {
  const now = await snapshot(path);
  if (now.hash === hash || data === undefined) {
    return;
  }
  await replaceContent(await containment.resolve(path), now.data, data);
  if (now.hash === ABSENT.hash && mode !== undefined) {
    await chmod(path, mode);
  }
}
