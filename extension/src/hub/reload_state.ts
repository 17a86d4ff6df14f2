import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Identity } from "./api";
import { isAlive } from "../orders/shells";
import { sleep } from "../timing";

/** A window that was closed longer ago than this stays disconnected when it is opened again. */
const FRESH_MS = 2 * 60_000;
/** How long the extension host from before the reload may take to end; on a busy machine that is many seconds. */
const END_MS = FRESH_MS;
const POLL_MS = 200;
/** How often the hub is asked about an extension host that does not end. */
const ASK_MS = 1000;

/** The identity that a hub has given to this window, and the address of that hub. */
export interface HubIdentity extends Identity {
  url: string;
}

/** What the file contains. */
interface Note extends HubIdentity {
  workspace: string;
  pid: number;
  /** When the window's main thread is known to have been alive. */
  alive: number;
}

/**
 * The identity of a connected window, in a file that outlives a reload of the window.
 *
 * There is a file for each extension host whose window is to be connected; all are in one directory.
 * `workspaceState` does not do: in a browser it is written seconds later, and not when the page is unloaded. Nor does
 * `storageUri`: a new extension host gets another directory while the one before it still holds the lock.
 */
export class ReloadState {
  readonly #file: string;
  readonly #started = Date.now();
  #note: Note | undefined;
  /** This window has been connected or disconnected since it started. */
  #decided = false;

  constructor(
    private readonly directory: string,
    private readonly workspace: string,
    private readonly pid = process.pid,
  ) {
    this.#file = join(directory, `${randomUUID()}.json`);
  }

  /** Save the identity; `alive` is when the window's main thread is known to have been alive. */
  save({ id, secret, url }: HubIdentity, alive: number): void {
    this.#decided = true;
    this.#note = { id, secret, url, alive, workspace: this.workspace, pid: this.pid };
    this.renew();
  }

  /** Write the file again, if there is an identity, so that it counts as fresh. Returns whether there is one. */
  renew(): boolean {
    if (!this.#note) {
      return false;
    }
    mkdirSync(this.directory, { recursive: true, mode: 0o700 });
    writeFileSync(`${this.#file}.new`, JSON.stringify(this.#note), { mode: 0o600 });
    renameSync(`${this.#file}.new`, this.#file);
    return true;
  }

  /** Remove the file: the window stays disconnected when it is reloaded. */
  clear(): void {
    this.#decided = true;
    this.#note = undefined;
    rmSync(this.#file, { force: true });
  }

  /**
   * Take over the identity from before the reload, if the window was connected then.
   *
   * Waits until the extension host of before has ended, or `isAbandoned`: it can outlive its window. Of several windows
   * that try, one gets it.
   */
  async take(
    isAbandoned: (identity: HubIdentity) => Promise<boolean> = () => Promise.resolve(false),
  ): Promise<HubIdentity | undefined> {
    this.#removeOld();
    const deadline = Date.now() + END_MS;
    let asked = 0;
    while (Date.now() < deadline) {
      const candidates = this.#decided ? [] : this.#candidates();
      if (candidates.length === 0) {
        return undefined;
      }
      const ended = candidates.filter(({ note }) => note.pid === this.pid || !isAlive(note.pid));
      if (ended.length === 0 && Date.now() - asked >= ASK_MS) {
        for (const one of candidates) {
          if (await isAbandoned(one.note)) {
            ended.push(one);
          }
        }
        asked = Date.now();
      }
      // The user may have connected or disconnected the window in the meantime.
      const taken = this.#isDecided() ? undefined : ended.find(({ file }) => this.#claim(file));
      if (taken) {
        this.save(taken.note, this.#started);
        const { id, secret, url } = taken.note;
        return { id, secret, url };
      }
      await sleep(POLL_MS);
    }
    return undefined;
  }

  /** Fresh notes of windows of this workspace that may have been this window, the latest first. */
  #candidates(): { file: string; note: Note }[] {
    return this.#files()
      .filter(({ age }) => age <= FRESH_MS)
      .flatMap(({ file }) => {
        const note = readNote(file);
        // A window that was alive after this one started is another window of the same workspace.
        return note?.workspace === this.workspace && note.alive <= this.#started ? [{ file, note }] : [];
      })
      .sort((one, other) => other.note.alive - one.note.alive);
  }

  // `#decided` changes while something is awaited, which the compiler does not see.
  #isDecided(): boolean {
    return this.#decided;
  }

  #claim(file: string): boolean {
    try {
      renameSync(file, this.#file);
      return true;
    } catch {
      return false; // another window was faster
    }
  }

  #removeOld(): void {
    for (const { file, age } of this.#files()) {
      if (age > FRESH_MS) {
        rmSync(file, { force: true });
      }
    }
  }

  #files(): { file: string; age: number }[] {
    let names: string[];
    try {
      names = readdirSync(this.directory);
    } catch {
      return []; // no window has been connected yet
    }
    return names.flatMap((name) => {
      const file = join(this.directory, name);
      const status = statSync(file, { throwIfNoEntry: false });
      return status?.isFile() ? [{ file, age: Date.now() - status.mtimeMs }] : [];
    });
  }
}

/** The note in a file; undefined if there is none. */
function readNote(file: string): Note | undefined {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
  return isNote(content) ? content : undefined;
}

function isNote(content: unknown): content is Note {
  if (typeof content !== "object" || content === null) {
    return false;
  }
  const { id, secret, url, workspace, pid, alive } = content as Partial<Record<keyof Note, unknown>>;
  return (
    [id, secret, url, workspace].every((field) => typeof field === "string") &&
    [pid, alive].every((field) => typeof field === "number")
  );
}
