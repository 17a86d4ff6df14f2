import { Listeners } from "../listeners";
import { decodeText } from "../orders/text_changes";
import { hunks, type LineRange, markHunks, replaceLines } from "./lines";

/** How many changed files are listed, and how many bytes of their contents from before are kept. */
export const MAX_CHANGES = 1000;
export const MAX_BYTES = 64 << 20;

/** A file at one moment. */
export interface Snapshot {
  /** Identifies the content; undefined if there was no file. */
  hash: string | undefined;
  /** The content; undefined if there was no file, or if it is too large to be kept. */
  data?: Uint8Array | undefined;
  /** The permissions, for a file that may have to be created again. */
  mode?: number | undefined;
}

export const ABSENT: Snapshot = { hash: undefined };

/** What has become of a file since the agent came. */
export interface FileChange {
  readonly path: string;
  /** The path that it had before, if the agent has moved it. */
  from?: string | undefined;
  before: Snapshot;
  /** The content that the agent has left, by its hash; undefined if it has deleted the file. */
  after: string | undefined;
  /** Something else has changed the file between changes of the agent, so that undoing would lose that. */
  shared: boolean;
  /** The lines of the file that the agent has changed and the user has not edited since. */
  lines: LineRange[];
}

export type ChangeKind = "created" | "modified" | "deleted" | "moved";

export function kindOf(change: FileChange): ChangeKind {
  if (change.from !== undefined) {
    return "moved";
  }
  if (change.before.hash === undefined) {
    return "created";
  }
  return change.after === undefined ? "deleted" : "modified";
}

/** Why a change cannot be undone; undefined if it can, as long as the file is as the agent has left it. */
export function undoObstacle(change: FileChange): string | undefined {
  if (change.before.hash !== undefined && change.before.data === undefined) {
    return "its content from before is not kept: it was too large, or not a regular file";
  }
  return change.shared ? "it was also changed by you or by a command, which would be lost" : undefined;
}

/** The text of a file; empty if there was none, undefined if it was not text, or is not kept. */
export function snapshotText({ hash, data }: Snapshot): string | undefined {
  return hash === undefined ? "" : data && decodeText(data);
}

/** What an agent has changed since it came: for each file what was there before, until the user keeps or undoes it. */
export class ChangeList {
  readonly #changes = new Map<string, FileChange>();
  readonly #listeners = new Listeners(50);
  #unlisted = 0;

  /** Calls back after changes. */
  readonly onDidChange = this.#listeners.add;

  get all(): readonly FileChange[] {
    return [...this.#changes.values()].sort((one, other) => (one.path < other.path ? -1 : 1));
  }

  /** The file that was changed last. */
  get last(): FileChange | undefined {
    return [...this.#changes.values()].at(-1);
  }

  /** How many changes are not listed because there are too many. */
  get unlisted(): number {
    return this.#unlisted;
  }

  find(path: string): FileChange | undefined {
    return this.#changes.get(path);
  }

  /** The agent has written a file, or removed it if there is none after. */
  write(path: string, before: Snapshot, after: Snapshot): void {
    if (before.hash === after.hash) {
      return;
    }
    this.#splitMove(path);
    const change = this.#changes.get(path) ?? { path, before, after: before.hash, shared: false, lines: [] };
    change.shared ||= change.after !== before.hash;
    change.after = after.hash;
    change.before.mode ??= before.mode;
    change.lines = after.hash === undefined ? [] : markedLines(change.lines, before, after);
    if (after.hash === undefined && change.from !== undefined) {
      this.#changes.delete(path);
      this.#set({ ...change, path: change.from, from: undefined });
    } else {
      this.#set(change);
    }
  }

  /** The agent has moved a file; `replaced` is what was at its new path. */
  move(from: string, to: string, moved: Snapshot, replaced: Snapshot): void {
    const before = this.#changes.get(from);
    const hasChanged = before !== undefined && before.after !== moved.hash;
    if (replaced.hash !== undefined || this.#changes.has(to) || hasChanged) {
      this.write(to, replaced, moved);
      this.write(from, moved, ABSENT);
      return;
    }
    this.#splitMove(to);
    this.#changes.delete(from);
    const change = before ?? { before: moved, after: moved.hash, shared: false, lines: [] };
    const origin = change.before.hash === undefined ? undefined : (before?.from ?? from);
    this.#set({ ...change, path: to, from: origin === to ? undefined : origin });
  }

  /** The user has edited a file in an editor: the lines `start` to `start + removed` became `added` others. */
  edit(path: string, start: number, removed: number, added: number): void {
    const change = this.#changes.get(path);
    if (change) {
      change.lines = replaceLines(change.lines, start, removed, added);
      this.#listeners.notify();
    }
  }

  /** Forget a change: the user keeps it, or has undone it. */
  remove(path: string): void {
    if (this.#changes.delete(path)) {
      this.#listeners.notify();
    }
  }

  clear(): void {
    this.#changes.clear();
    this.#unlisted = 0;
    this.#listeners.notify();
  }

  /** A file whose old path gets another content is not one that was moved any more, but a new one and a changed one. */
  #splitMove(path: string): void {
    const moved = [...this.#changes.values()].find(({ from }) => from === path);
    if (moved) {
      this.#set({ ...moved, from: undefined, before: ABSENT });
      this.#set({ path, before: moved.before, after: undefined, shared: false, lines: [] });
    }
  }

  #set(change: FileChange): void {
    this.#changes.delete(change.path); // the last one is the newest
    this.#listeners.notify();
    if (change.before.hash === change.after && change.from === undefined) {
      return;
    }
    if (this.#changes.size >= MAX_CHANGES) {
      this.#unlisted += 1;
      return;
    }
    if (this.#size() + (change.before.data?.length ?? 0) > MAX_BYTES) {
      change.before = { hash: change.before.hash, mode: change.before.mode };
    }
    this.#changes.set(change.path, change);
  }

  #size(): number {
    return [...this.#changes.values()].reduce((sum, { before }) => sum + (before.data?.length ?? 0), 0);
  }
}

function markedLines(lines: LineRange[], before: Snapshot, after: Snapshot): LineRange[] {
  const [was, is] = [snapshotText(before), snapshotText(after)];
  return was === undefined || is === undefined ? [] : markHunks(lines, hunks(was, is));
}

/** A place to go to. */
export interface Stop {
  path: string;
  line: number;
}

/** All places that the agent has changed, file by file. */
export function stops(changes: readonly FileChange[]): Stop[] {
  return changes.flatMap(({ path, lines }) => lines.map(({ start }) => ({ path, line: start })));
}

/** The next place after `at`, or the one before it; from the end it goes on at the beginning. */
export function step(all: readonly Stop[], at: Stop | undefined, direction: 1 | -1): Stop | undefined {
  const ordered = direction === 1 ? all : [...all].reverse();
  const isBeyond = (stop: Stop): boolean =>
    at !== undefined && (stop.path === at.path ? (stop.line - at.line) * direction > 0 : stop.path > at.path === (direction === 1));
  return ordered.find(isBeyond) ?? ordered[0];
}
