import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type * as vscode from "vscode";
import type { Kept } from "./world";

/** How long the wish to be connected outlives a window. */
const CONSENT_MS = 2 * 60_000;
/** How long the process of the window that was reloaded has to end. */
const END_MS = 10_000;

const NAME = "glovebox.kept";

interface Note extends Kept {
  /** When the window was last known to be connected, and which process it had. */
  at: number;
  pid: number;
}

/**
 * Remembers what a connected window is called, so that it is the same one after it was reloaded.
 *
 * In the workspace's state: a browser forgets what is in the secret storage when a page is reloaded. The secret
 * is worth nothing as soon as the hub has given up waiting for the window.
 *
 * VS Code writes that state down some time later, and a window that is reloaded at once finds it as it was before.
 * So that a user who has disconnected stays so, there is also a file for as long as the window is to be connected.
 */
export class Reloading {
  /** The file that says that this window is to be connected. */
  private wish = "";

  constructor(
    private readonly state: vscode.Memento,
    private readonly directory: string,
    private readonly pid = process.pid,
  ) {}

  /** This window is connected as this one, or is not any more, which counts before anything is waited for. */
  async keep(kept: Kept | undefined): Promise<void> {
    const note = kept && { id: kept.id, secret: kept.secret, url: kept.url, at: Date.now(), pid: this.pid };
    try {
      this.want(note);
    } finally {
      await this.state.update(NAME, note);
    }
  }

  /** What this window was before it was reloaded; nothing if it was not, or was not connected. */
  async take(): Promise<Kept | undefined> {
    this.removeOld();
    const note = this.state.get<Note>(NAME);
    if (!note || Date.now() - note.at > CONSENT_MS) {
      return undefined;
    }
    // While that process lives, this is a second window of the same workspace.
    if (!(await ended(note.pid)) || this.state.get<Note>(NAME)?.secret !== note.secret) {
      return undefined;
    }
    await this.state.update(NAME, undefined);
    return this.fulfil(note) ? { id: note.id, secret: note.secret, url: note.url } : undefined;
  }

  private want(note: Note | undefined): void {
    const wish = note ? this.wishOf(note) : "";
    if (this.wish !== "" && this.wish !== wish) {
      rmSync(this.wish, { force: true });
    }
    this.wish = wish;
    if (note) {
      mkdirSync(this.directory, { recursive: true, mode: 0o700 });
      writeFileSync(wish, note.at.toString(), { mode: 0o600 });
    }
  }

  /** Whether there was the wish, which then is there no more: of several windows one alone has it. */
  private fulfil(note: Note): boolean {
    try {
      rmSync(this.wishOf(note));
      return true;
    } catch {
      return false;
    }
  }

  /** The files of windows that never came back. */
  private removeOld(): void {
    const names = existsSync(this.directory) ? readdirSync(this.directory) : [];
    for (const file of names.map((name) => join(this.directory, name))) {
      const written = statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
      if (Date.now() - written > CONSENT_MS) {
        rmSync(file, { force: true });
      }
    }
  }

  private wishOf({ id, secret }: Kept): string {
    return join(this.directory, createHash("sha256").update(`${id}\n${secret}`).digest("hex"));
  }
}

async function ended(pid: number): Promise<boolean> {
  for (const until = Date.now() + END_MS; Date.now() < until; ) {
    if (!alive(pid)) {
      return true;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return false;
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
