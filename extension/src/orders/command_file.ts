import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";

import { shownCommand } from "./command_line";
import { quote } from "./shells";

/** How often a shell checks whether it may start, in seconds, and after how many checks it starts anyway. */
const CHECK_INTERVAL = 0.05;
const MAX_CHECKS = 60;
/** The mark after which the output of a command from a file begins. */
export const OUTPUT_MARK = "Glovebox";

/** How the prompt of a shell is expanded, and whether it reports lines to VS Code exactly as they are typed. */
const SHELLS: Readonly<Record<string, { prompt: string; isExact: string }>> = {
  bash: {
    prompt: "case $BASH_VERSION in [1-3].*|4.[0-3].*) ;; *) p=${__vsc_original_PS1-$PS1}; p=${p@P}; esac",
    isExact:
      '[ "$__vsc_history_verify" = 1 ] && [ -z "$HISTTIMEFORMAT$HISTIGNORE" ] && [ "${HISTSIZE-1}" != 0 ] && [ -o history ]',
  },
  zsh: {
    prompt: "p=${(%%)PS1}",
    isExact: '[ -n "$__vsc_nonce" ] && [[ ! -o correct && ! -o correctall && ! -o histreduceblanks ]]',
  },
};

/**
 * A command in a file that a shell with integration sources.
 *
 * The line that is typed for it is replaced in the terminal by the command itself.
 *
 * A bash with HISTTIMEFORMAT reports each line to VS Code with its time, and VS Code does not recognize it as the line
 * that it has sent. The output can then be read only after the line has started, and output of the first moment is lost.
 * So in such a shell the command waits until its output is being read.
 */
export class CommandFile {
  constructor(
    readonly path: string,
    private readonly shell: string,
    /** The shell finds the line that it reports in its history, so it must be there; it is removed afterwards. */
    private readonly inHistory = false,
  ) {}

  /** The line to type. Shells leave lines that start with a space out of their history. */
  get line(): string {
    return `${this.inHistory ? "" : " "}. ${quote(this.path)}`;
  }

  /** Write the files; with `probe` the shell tells whether it reports lines exactly (`isExact`). */
  async prepare(command: string, probe = false): Promise<void> {
    await this.write("command", command);
    await this.write("", this.script(command, probe));
  }

  /** Let the command start: its output is being read. */
  async release(): Promise<void> {
    await this.write("released", "");
  }

  /** Whether the shell has told that it reports lines to VS Code exactly as they are typed. */
  get isExact(): boolean {
    return existsSync(`${this.path}.exact`);
  }

  async remove(): Promise<void> {
    for (const name of ["", "command", "released", "exact"]) {
      await rm(this.file(name), { force: true });
    }
  }

  /** Most of it happens in a subshell, so that the command sees the variables and the exit code from before. */
  private script(command: string, probe: boolean): string {
    const released = quote(this.file("released"));
    const { prompt, isExact } = SHELLS[this.shell] ?? { prompt: ":", isExact: "false" };
    return [
      "__gb=$?",
      // Bash reports lines from its history only if none can be left out of it. Those that are typed never are.
      ...(probe && this.shell === "bash" ? ['[ -z "${__vsc_history_verify-}" ] || __vsc_history_verify=1'] : []),
      ...(this.inHistory && this.shell === "bash" ? [`case $(history 1) in *${quote(this.line)}) history -d -1 2>/dev/null;; esac`] : []),
      "( s=$__gb; case $- in *e*) r=0;; *) r=$s;; esac; set +eux; n=0; c=${COLUMNS:-0}; [ $c -gt 0 ] || c=80",
      `p='$ '; case $s in 0) ;; *) (exit $s);; esac; ${prompt}; p=\${p##*$'\\n'}; w=$p`,
      // Without what has no width, to know how many rows the line has.
      "while case $w in *$'\\001'*$'\\002'*) ;; *) false;; esac; do w=${w%%$'\\001'*}${w#*$'\\002'}; done",
      "while case $w in *$'\\e['*m*) ;; *) false;; esac; do w=${w%%$'\\e['*}${w#*$'\\e['*m}; done",
      `printf '\\033[%dA\\r\\033[J%s%s\\n\\033]633;${OUTPUT_MARK}\\007' ` +
        `$(( (\${#w} + ${this.line.length}) / c + 1 )) "\${p//[$'\\001\\002']/}" ${quote(shownCommand(command))}`,
      ...(probe ? [`if ${isExact}; then : >${quote(this.file("exact"))}; fi`] : []),
      `[ -z "\${HISTTIMEFORMAT-}" ] || until [ -e ${released} ] || [ $((n += 1)) -gt ${MAX_CHECKS} ]; do sleep ${CHECK_INTERVAL}; done`,
      "exit $r ) 2>/dev/null",
      `. ${quote(this.file("command"))}`,
    ].join("\n");
  }

  private file(name: string): string {
    return name === "" ? this.path : `${this.path}.${name}`;
  }

  private async write(name: string, text: string): Promise<void> {
    await writeFile(this.file(name), `${text}\n`, { mode: 0o600 });
  }
}
