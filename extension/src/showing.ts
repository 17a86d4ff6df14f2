import type * as vscode from "vscode";
import type { Edits } from "./edits";
import type { Log } from "./log";
import type { Shown } from "./shown";

/** How much of what an action is about goes into a line of the log. */
const MOST_SAID = 500;

/** Lets the user see an agent's work: a line for each action, and the files that it changes. */
export class Showing implements Shown {
  #announced = false;

  /** `announce` is called for the first action of a connection. */
  constructor(
    private readonly log: Log,
    private readonly edits: Edits,
    private readonly announce: () => void,
  ) {}

  /** Another connection begins: its first action is announced again. */
  begin(): void {
    this.#announced = false;
  }

  action(kind: string, what: string): void {
    this.log.info(`${kind}: ${oneLine(what)}`);
    if (!this.#announced) {
      this.#announced = true;
      this.announce();
    }
  }

  edited(uri: vscode.Uri, before: string, after: string): void {
    this.edits.edited(uri, before, after);
  }

  refused(kind: string, what: string, why: string): void {
    this.log.warn(`${kind} refused: ${oneLine(what)} (${oneLine(why)})`);
  }
}

function oneLine(text: string): string {
  const line = text.trim().replace(/\s*\n\s*/g, " ⏎ ");
  return line.length > MOST_SAID ? `${line.slice(0, MOST_SAID)} …` : line;
}
