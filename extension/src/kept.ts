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
 */
export class Reloading {
  constructor(private readonly state: vscode.Memento) {}

  /** This window is connected as this one, or is not any more. */
  async keep(kept: Kept | undefined): Promise<void> {
    const note = kept && { id: kept.id, secret: kept.secret, url: kept.url, at: Date.now(), pid: process.pid };
    await this.state.update(NAME, note);
  }

  /** What this window was before it was reloaded; nothing if it was not, or was not connected. */
  async take(): Promise<Kept | undefined> {
    const note = this.state.get<Note>(NAME);
    if (!note || Date.now() - note.at > CONSENT_MS) {
      return undefined;
    }
    // While that process lives, this is a second window of the same workspace.
    if (!(await ended(note.pid)) || this.state.get<Note>(NAME)?.secret !== note.secret) {
      return undefined;
    }
    await this.state.update(NAME, undefined);
    return { id: note.id, secret: note.secret, url: note.url };
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
