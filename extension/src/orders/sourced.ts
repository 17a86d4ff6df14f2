import { rm, writeFile } from "node:fs/promises";

import { quoted } from "./shells";

/** How often a shell looks whether it may begin, and how many times before it does anyway. */
const LOOK = 0.05;
const LOOKS = 60;

/**
 * A command in a file that a shell is told to carry out.
 *
 * A bash with HISTTIMEFORMAT tells VS Code each line with its time, and VS Code does not know it for the one that it
 * was given. Whoever wants the output can then ask for it only when the line has begun, and what is printed in the
 * same moment is lost. So the command can be held back in such a shell until somebody listens.
 */
export class Sourced {
  private isHeld = false;

  constructor(readonly file: string) {}

  /** Writes what is needed; `held` if the command is to wait for `begin`, should the shell need that. */
  async prepare(command: string, held: boolean): Promise<void> {
    this.isHeld = held;
    await this.write(held ? `${this.file}.command` : this.file, command);
    if (held) {
      await this.write(this.file, this.holding());
    }
  }

  /** Somebody listens. */
  async begin(): Promise<void> {
    if (this.isHeld) {
      await this.write(this.begun, "");
    }
  }

  async remove(): Promise<void> {
    this.isHeld = false;
    for (const file of [this.file, `${this.file}.command`, this.begun]) {
      await rm(file, { force: true });
    }
  }

  private get begun(): string {
    return `${this.file}.begun`;
  }

  /** In a shell of its own, which leaves nothing behind: the command finds the exit code of the one before it. */
  private holding(): string {
    const wait = `until [ -e ${quoted(this.begun)} ] || [ $((n += 1)) -gt ${LOOKS} ]; do sleep ${LOOK}; done`;
    return [
      // Where a failure ends the shell, this must be none.
      `( s=$?; n=0; case $- in *e*) s=0; esac; [ -z "\${HISTTIMEFORMAT-}" ] || ${wait}; exit $s ) 2>/dev/null`,
      `. ${quoted(`${this.file}.command`)}`,
    ].join("\n");
  }

  private async write(file: string, text: string): Promise<void> {
    await writeFile(file, `${text}\n`, { mode: 0o600 });
  }
}
