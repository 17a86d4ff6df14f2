import type { Stats } from "node:fs";
import { lstat, stat } from "node:fs/promises";
import * as vscode from "vscode";

import type { Done, Entries, Entry, Kind, List, MakeDirectory, PathInfo, Stat } from "../protocol";
import type { Containment } from "./containment";
import { unsavedAt } from "./open_documents";
import { isMissing, Refusal } from "./refusal";

/** Looks at what is there, and makes directories. */
export class Files {
  constructor(private readonly containment: Containment) {}

  async stat(order: Stat): Promise<PathInfo> {
    const place = await this.containment.inside(order.path);
    const status = await statusOf(place.path);
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
    const place = await this.containment.inside(order.path);
    if (!(await stat(place.path)).isDirectory()) {
      throw new Refusal("not_directory", `${order.path} is not a directory.`);
    }
    const found = await vscode.workspace.fs.readDirectory(vscode.Uri.file(place.path));
    return { kind: "entries", entries: found.map(([name, type]) => entryOf(name, type)) };
  }

  async makeDirectory(order: MakeDirectory): Promise<Done> {
    const place = await this.containment.inside(order.path);
    const status = await statusOf(place.path);
    if (status !== undefined && !status.isDirectory()) {
      throw new Refusal("exists", `${order.path} exists already, and is not a directory.`);
    }
    await vscode.workspace.fs.createDirectory(vscode.Uri.file(place.path));
    return { kind: "done" };
  }
}

/** What is at a path, links followed where they lead somewhere; undefined if nothing is. */
async function statusOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (!isMissing(error)) {
      throw error;
    }
  }
  try {
    return await lstat(path);
  } catch (error) {
    if (isMissing(error)) {
      return undefined;
    }
    throw error;
  }
}

function entryOf(name: string, type: vscode.FileType): Entry {
  const kind: Kind =
    (type & vscode.FileType.Directory) !== 0 ? "directory" : (type & vscode.FileType.File) !== 0 ? "file" : "other";
  return { name, type: kind, is_link: (type & vscode.FileType.SymbolicLink) !== 0 };
}
