import { existsSync } from "node:fs";
import { open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";

import { TerminalLines } from "./printing";
import { quoted } from "./shells";
import { sourcing } from "./showing";
import { pause } from "./waiting";

/** How a command in a shell without integration ended. */
export interface ScriptEnding {
  exitCode: number | undefined;
  /** Empty if nobody knows. */
  cwd: string;
}

const LOOK = 40;
/** How many looks without news are the end of the output of a command that has ended and left something behind. */
const QUIET = 12;
/** How many of them there may be before what takes the output has begun. */
const UNBEGUN = 50;
/** How many looks the result may come after the end of the output. */
const LATE = 25;
const PIECE = 1 << 16;

/**
 * A command in a shell that tells nothing: it is sourced by a script which leaves its output and its end in files.
 *
 * The shell itself runs the command, so that it keeps its directory and variables; its output goes through a
 * named pipe to the terminal and to a file. What has a syntax error is not begun: it would end the script, too.
 */
export class Scripted {
  private readonly decoder = new StringDecoder("utf8");
  private readonly lines = new TerminalLines();
  private offset = 0;

  constructor(
    private readonly directory: string,
    private readonly print: (text: string) => void,
  ) {}

  /** Writes the files; the line for the shell, which is called `name`. */
  async prepare(command: string, shell: string, name: string): Promise<string> {
    await writeFile(this.file("command"), `${command}\n`, { mode: 0o600 });
    await writeFile(this.file("script"), this.script(shell), { mode: 0o600 });
    return sourcing(this.file("script"), command, name);
  }

  /** Tells what is printed until the command has ended, or `closed` says that the shell has. */
  async follow(closed: () => boolean): Promise<ScriptEnding> {
    let [quiet, late] = [0, 0];
    for (;;) {
      quiet = (await this.read()) ? 0 : quiet + 1;
      const [ended, silent] = [existsSync(this.file("status")), existsSync(this.file("silent"))];
      late += silent ? 1 : 0;
      // What takes the output is a process of its own, which may begin after a short command has ended.
      const enough = existsSync(this.file("printed")) || closed() ? QUIET : UNBEGUN;
      // Something in the background may go on printing; an interrupted script leaves no status.
      if ((ended && silent) || late >= LATE || ((ended || closed()) && quiet >= enough)) {
        await this.read();
        this.print(this.lines.take(this.decoder.end()));
        return this.result();
      }
      await pause(LOOK);
    }
  }

  private script(shell: string): string {
    const [command, pipe, errors] = ["command", "pipe", "errors"].map((name) => quoted(this.file(name)));
    const status = quoted(this.file("status"));
    const ended = (code: string): string =>
      `printf '%s\\n%s\\n' ${code} "$PWD" >${status}.new; mv ${status}.new ${status}`;
    return [
      `mkfifo -m 600 ${pipe}`,
      `( { tee ${quoted(this.file("printed"))} <${pipe}; : >${quoted(this.file("silent"))}; } & )`,
      `if ${quoted(shell)} -n ${command} 2>${errors}`,
      `then . ${command} >${pipe} 2>&1; ${ended('"$?"')}`,
      `else cat ${errors} >${pipe}; ${ended("2")}`,
      "fi",
      "",
    ].join("\n");
  }

  /** Tells what is new in the file of what was printed; whether there was something. */
  private async read(): Promise<boolean> {
    if (!existsSync(this.file("printed"))) {
      return false;
    }
    const file = await open(this.file("printed"));
    try {
      let news = false;
      for (;;) {
        const { bytesRead, buffer } = await file.read(Buffer.alloc(PIECE), 0, PIECE, this.offset);
        if (bytesRead === 0) {
          return news;
        }
        news = true;
        this.offset += bytesRead;
        this.print(this.lines.take(this.decoder.write(buffer.subarray(0, bytesRead))));
      }
    } finally {
      await file.close();
    }
  }

  private async result(): Promise<ScriptEnding> {
    if (!existsSync(this.file("status"))) {
      return { exitCode: undefined, cwd: "" };
    }
    const text = await readFile(this.file("status"), "utf8");
    const [code = "", ...rest] = text.split("\n");
    return { exitCode: Number.parseInt(code, 10), cwd: rest.slice(0, -1).join("\n") };
  }

  private file(name: string): string {
    return join(this.directory, name);
  }
}
