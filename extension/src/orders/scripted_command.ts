import { existsSync } from "node:fs";
import { open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";

import { sleep } from "../timing";
import { shownCommand } from "./command_line";
import { NewlineConverter } from "./output_batcher";
import { quote } from "./shells";

/** The end of a command in a shell without integration. */
export interface ScriptEnd {
  /** Undefined if it is not known. */
  exitCode: number | undefined;
  /** Empty if it is not known. */
  cwd: string;
}

/** Milliseconds between polls. */
const POLL = 40;
/** After so many polls without output, that of an ended command with children in the background is complete. */
const QUIET = 12;
/** The same while `tee` has not started to read the output. */
const QUIET_BEFORE_TEE = 50;
/** How many polls to wait for the status after the end of the output. */
const LATE = 25;
const CHUNK = 1 << 16;

/**
 * A command in a shell without integration: a script sources it and writes its output and its status to files.
 *
 * The shell itself runs the command, so that the directory and variables persist; the output goes through a
 * named pipe to the terminal and to a file. A command with a syntax error is not run: it would end the script, too.
 */
export class ScriptedCommand {
  private readonly decoder = new StringDecoder("utf8");
  private readonly newlines = new NewlineConverter();
  private offset = 0;

  constructor(
    private readonly directory: string,
    private readonly print: (text: string) => void,
  ) {}

  /** Write the files. Returns the line to type into the shell, which replaces it in the terminal by the command. */
  async prepare(command: string, shell: string): Promise<string> {
    const show = `printf '\\033[A\\r\\033[J$ %s\\n' ${quote(shownCommand(command))}`;
    await writeFile(this.file("command"), `${command}\n`, { mode: 0o600 });
    await writeFile(this.file("script"), `${show}\n${this.script(shell)}`, { mode: 0o600 });
    return ` . ${quote(this.file("script"))}`;
  }

  /** Print the output until the command has ended, or until `closed` returns that the shell has. */
  async follow(closed: () => boolean): Promise<ScriptEnd> {
    let [quiet, late] = [0, 0];
    for (;;) {
      quiet = (await this.readOutput()) ? 0 : quiet + 1;
      const [ended, silent] = [existsSync(this.file("status")), existsSync(this.file("silent"))];
      late += silent ? 1 : 0;
      // `tee` is a process of its own, which may start after a short command has ended.
      const enough = existsSync(this.file("printed")) || closed() ? QUIET : QUIET_BEFORE_TEE;
      // Processes in the background may go on printing; an interrupted script writes no status.
      if ((ended && silent) || late >= LATE || ((ended || closed()) && quiet >= enough)) {
        await this.readOutput();
        this.print(this.newlines.convert(this.decoder.end()));
        return this.readResult();
      }
      await sleep(POLL);
    }
  }

  private script(shell: string): string {
    const [command, pipe, errors] = ["command", "pipe", "errors"].map((name) => quote(this.file(name)));
    const status = quote(this.file("status"));
    const writeStatus = (code: string): string =>
      `printf '%s\\n%s\\n' ${code} "$PWD" >${status}.new; mv ${status}.new ${status}`;
    return [
      `mkfifo -m 600 ${pipe}`,
      `( { tee ${quote(this.file("printed"))} <${pipe}; : >${quote(this.file("silent"))}; } & )`,
      `if ${quote(shell)} -n ${command} 2>${errors}`,
      `then . ${command} >${pipe} 2>&1; ${writeStatus('"$?"')}`,
      `else cat ${errors} >${pipe}; ${writeStatus("2")}`,
      "fi",
      "",
    ].join("\n");
  }

  /** Print new output. Returns whether there was any. */
  private async readOutput(): Promise<boolean> {
    if (!existsSync(this.file("printed"))) {
      return false;
    }
    const file = await open(this.file("printed"));
    try {
      let isNew = false;
      for (;;) {
        const { bytesRead, buffer } = await file.read(Buffer.alloc(CHUNK), 0, CHUNK, this.offset);
        if (bytesRead === 0) {
          return isNew;
        }
        isNew = true;
        this.offset += bytesRead;
        this.print(this.newlines.convert(this.decoder.write(buffer.subarray(0, bytesRead))));
      }
    } finally {
      await file.close();
    }
  }

  private async readResult(): Promise<ScriptEnd> {
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
