import { beginning } from "./printing";
import { quoted } from "./shells";

/** How many characters of a command are shown. */
const MOST = 100;
/** Shells for which what follows a `#` is a comment at their prompt, too. */
const KNOW_COMMENTS = new Set(["sh", "dash", "ash", "ksh", "ksh93", "mksh"]);
/** Control characters would edit the line; others hide what it says, or turn it round. */
// The bash of macOS tells bytes beyond ASCII wrong, and VS Code would not know the line again.
const UNSEEN = process.platform === "darwin" ? /[^ -~]/gu : /[\p{C}\p{Zl}\p{Zp}]/gu;

/** The line that has a shell, called `shell`, carry out a file, and lets its user see what command is in it. */
export function sourcing(file: string, command: string, shell: string): string {
  // With a space before it, since shells leave such lines out of their history.
  const line = ` . ${quoted(file)}`;
  const text = shown(command);
  if (text === "") {
    return line;
  }
  if (shell === "bash" || shell === "zsh") {
    // What stands for a variable that is not there is no argument. A comment would not do: bash may leave it out
    // of what it tells VS Code, which then waits for the line for ever, and zsh has none at its prompt.
    return `${line} \${__+${asText(text)}}`;
  }
  return KNOW_COMMENTS.has(shell) ? `${line} # ${text}` : line;
}

/** The beginning of a command on one line, without anything that a terminal would do something about. */
export function shown(command: string): string {
  const [first = "", ...others] = command.trim().split(/\r\n|[\n\r]/u);
  const whole = first.replaceAll("\t", " ").replaceAll(UNSEEN, "?").trimEnd();
  const text = beginning(whole, MOST);
  if (others.length > 0) {
    return `${text} ... (+${others.length} ${others.length === 1 ? "line" : "lines"})`;
  }
  return text === whole ? text : `${text}...`;
}

/** A text in those quotes that leave it readable, in which a shell finds nothing to do. */
function asText(text: string): string {
  return text.includes("'") && !/["$`\\!]/u.test(text) ? `"${text}"` : `'${text.replaceAll("'", "'\\''")}'`;
}
