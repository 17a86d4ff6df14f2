import { rm, writeFile } from "node:fs/promises";

import { truncate } from "./output_batcher";
import { quote } from "./shells";

/** The most characters of a command in its preview. */
const MAX_PREVIEW = 100;
/** Shells that have comments (`#`) at their prompt, too. */
const COMMENT_SHELLS = new Set(["sh", "dash", "ash", "ksh", "ksh93", "mksh"]);
/** Characters that edit the line, are invisible, or change the direction of the text. */
// The bash of macOS reports bytes beyond ASCII wrongly, so that VS Code would not recognize the line.
const UNPRINTABLE = process.platform === "darwin" ? /[^ -~]/gu : /[\p{C}\p{Zl}\p{Zp}]/gu;
/** How often a shell checks whether it may start, in seconds, and after how many checks it starts anyway. */
const CHECK_INTERVAL = 0.05;
const MAX_CHECKS = 60;

/**
 * A command in a file that a shell sources.
 *
 * A bash with HISTTIMEFORMAT reports each line to VS Code with its time, and VS Code does not recognize it as the line
 * that it has sent. The output can then be read only after the line has started, and output of the first moment is lost.
 * So in such a shell the command can wait until its output is being read.
 */
export class CommandFile {
  private isHeld = false;

  constructor(readonly path: string) {}

  /** Write the files; `held` if the command is to wait for `release` in a shell that needs it. */
  async prepare(command: string, held: boolean): Promise<void> {
    this.isHeld = held;
    await this.write(held ? `${this.path}.command` : this.path, command);
    if (held) {
      await this.write(this.path, this.waitScript());
    }
  }

  /** Let the command start: its output is being read. */
  async release(): Promise<void> {
    if (this.isHeld) {
      await this.write(this.released, "");
    }
  }

  async remove(): Promise<void> {
    this.isHeld = false;
    for (const file of [this.path, `${this.path}.command`, this.released]) {
      await rm(file, { force: true });
    }
  }

  private get released(): string {
    return `${this.path}.released`;
  }

  /** Waits in a subshell, so that the command sees the variables and the exit code from before. */
  private waitScript(): string {
    const wait = `until [ -e ${quote(this.released)} ] || [ $((n += 1)) -gt ${MAX_CHECKS} ]; do sleep ${CHECK_INTERVAL}; done`;
    return [
      // With `set -e` this must not fail.
      `( s=$?; n=0; case $- in *e*) s=0; esac; [ -z "\${HISTTIMEFORMAT-}" ] || ${wait}; exit $s ) 2>/dev/null`,
      `. ${quote(`${this.path}.command`)}`,
    ].join("\n");
  }

  private async write(file: string, text: string): Promise<void> {
    await writeFile(file, `${text}\n`, { mode: 0o600 });
  }
}

/** The line that has a shell source a file, with a preview of the command for the user. */
export function sourceLine(file: string, command: string, shell: string): string {
  // Shells leave lines that start with a space out of their history.
  const line = ` . ${quote(file)}`;
  const text = previewCommand(command);
  if (text === "") {
    return line;
  }
  if (shell === "bash" || shell === "zsh") {
    // The alternative for an unset variable expands to nothing. Not a comment: bash may leave it out of the line that
    // it reports to VS Code, which then waits for the line for ever, and zsh has no comments at its prompt.
    return `${line} \${__+${quoteReadably(text)}}`;
  }
  return COMMENT_SHELLS.has(shell) ? `${line} # ${text}` : line;
}

/** The start of a command on one line, without control characters. */
export function previewCommand(command: string): string {
  const [first = "", ...others] = command.trim().split(/\r\n|[\n\r]/u);
  const whole = first.replaceAll("\t", " ").replaceAll(UNPRINTABLE, "?").trimEnd();
  const text = truncate(whole, MAX_PREVIEW);
  if (others.length > 0) {
    return `${text} ... (+${others.length} ${others.length === 1 ? "line" : "lines"})`;
  }
  return text === whole ? text : `${text}...`;
}

/** A text in the quotes that leave it most readable, in which a shell expands nothing. */
function quoteReadably(text: string): string {
  return text.includes("'") && !/["$`\\!]/u.test(text) ? `"${text}"` : `'${text.replaceAll("'", "'\\''")}'`;
}
