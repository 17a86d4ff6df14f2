import { type Dirent } from "node:fs";
import { lstat, readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";

import { isMissing } from "../orders/refusal";
import { sha256 } from "../orders/text_changes";
import { firstDifference } from "./lines";
import { ABSENT, type ChangeList, type Snapshot, snapshotText } from "./model";

/** The largest file whose content is kept. */
const MAX_FILE_BYTES = 8 << 20;
/** How many files of a directory that is moved or deleted are kept, and how many bytes of them. */
const MAX_FILES = 500;
const MAX_DIRECTORY_BYTES = 32 << 20;

/** Records what an agent's orders do to files. */
export class ChangeRecorder {
  readonly #writing = new Set<string>();
  /** Is called with the path of a text file that was edited, and the first line that differs. */
  onEdited: (path: string, line: number) => void = () => undefined;

  constructor(private readonly list: ChangeList) {}

  /** Whether a change of a document comes from the agent. */
  isWriting(path: string): boolean {
    return this.#writing.has(path);
  }

  async edit(path: string, work: () => Promise<void>): Promise<void> {
    const [was, is] = (await this.write(path, work)).map(snapshotText);
    if (was !== undefined && is !== undefined) {
      this.onEdited(path, firstDifference(was, is));
    }
  }

  /** Returns the file before and after. */
  async write(path: string, work: () => Promise<void>): Promise<[Snapshot, Snapshot]> {
    const before = await snapshot(path);
    this.#writing.add(path);
    let after: Snapshot;
    try {
      await work();
    } finally {
      after = await snapshot(path);
      this.list.write(path, before, after);
      this.#writing.delete(path);
    }
    return [before, after];
  }

  /** Delete a file, or a directory with all its files. */
  async remove(path: string, work: () => Promise<void>): Promise<void> {
    const before = await snapshots(path);
    await work();
    for (const [file, content] of before) {
      this.list.write(file, content, ABSENT);
    }
  }

  /** Move a file, or a directory with all its files. */
  async move(from: string, to: string, work: () => Promise<void>): Promise<void> {
    const before = await snapshots(from);
    const replaced = await snapshot(to);
    await work();
    for (const [file, content] of before) {
      const target = to + file.slice(from.length);
      this.list.move(file, target, content, target === to ? replaced : ABSENT);
    }
  }
}

/** A file as it is now; a link counts as the file that it leads to. */
export async function snapshot(path: string, limit = MAX_FILE_BYTES): Promise<Snapshot> {
  try {
    const status = await stat(path);
    const mode = status.mode & 0o7777;
    if (!status.isFile()) {
      return { hash: "not a file" };
    }
    if (status.size > limit) {
      return { hash: `${status.size} bytes of ${status.mtimeMs}`, mode };
    }
    const data = await readFile(path);
    return { hash: sha256(data), data, mode };
  } catch (error) {
    return isMissing(error) ? ABSENT : { hash: "not readable" };
  }
}

/** The files at a path and below it. If there are too many, only the directory itself, which cannot be restored. */
async function snapshots(path: string): Promise<Map<string, Snapshot>> {
  const status = await lstat(path);
  if (status.isSymbolicLink()) {
    return new Map([[path, { hash: "a link" }]]);
  }
  if (!status.isDirectory()) {
    return new Map([[path, await snapshot(path)]]);
  }
  const files = await filesBelow(path);
  if (files.length > MAX_FILES) {
    return new Map([[path, { hash: "a large directory" }]]);
  }
  const found = new Map<string, Snapshot>();
  let left = MAX_DIRECTORY_BYTES;
  for (const file of files) {
    const content = await snapshot(file, Math.min(left, MAX_FILE_BYTES));
    left -= content.data?.length ?? 0;
    found.set(file, content);
  }
  return found;
}

/** The regular files below a directory: all, or more than are kept. */
async function filesBelow(directory: string): Promise<string[]> {
  const files: string[] = [];
  const directories = [directory];
  for (let next = directories.pop(); next !== undefined && files.length <= MAX_FILES; next = directories.pop()) {
    const entries: Dirent[] = await readdir(next, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      const path = join(next, entry.name);
      if (entry.isDirectory()) {
        directories.push(path);
      } else if (entry.isFile()) {
        files.push(path);
      }
    }
  }
  return files;
}
