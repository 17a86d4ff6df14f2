/** Longer commands are not typed: shells report each character to VS Code, which in zsh takes a process for each. */
const MAX_TYPED: Readonly<Record<string, number>> = { bash: 1000, zsh: 120 };
/** The most characters and lines of a command that the terminal shows. */
const MAX_SHOWN = 4000;
const MAX_LINES = 50;
/** Characters that edit the line, are invisible, or change the direction of the text. */
// The bash of macOS reports bytes beyond ASCII wrongly, so that VS Code would not recognize the line.
const UNPRINTABLE = process.platform === "darwin" ? /[^ -~]/u : /[\p{C}\p{Zl}\p{Zp}]/u;

/** Words that begin something else than a simple command, or that change the shell itself. */
const RESERVED = new Set(
  ("if then elif else fi for while until do done case esac in select function time coproc repeat foreach end always " +
    "nocorrect noglob exec fc history { } [[ ]] ! -").split(" "),
);
const OPERATORS: Readonly<Record<string, string>> = {
  ";": "s",
  "&&": "o",
  "||": "o",
  "|": "o",
  "|&": "o",
  ">": "r",
  ">>": "r",
  "<": "r",
  "<<<": "r",
  ">|": "r",
  "&>": "r",
  "&>>": "r",
  ">&": "r",
  "<&": "r",
};
/** A variable, without anything that a shell would have to parse further. */
const VARIABLE = /\$(?:[\w?@*#$]|\{[\w@*#]+(?:[-:%#/+=?][^{}'"`$\\!]*)?\})/u.source;
/** What may follow in a command line: spaces, an operator, or a part of a word. */
const TOKEN = new RegExp(
  `(?<space> +)|(?<operator>&&|\\|\\||\\|&|&>>|&>|>>|>\\||>&|<<<|<&|[;|<>])|` +
    `(?<part>'[^']*'|"(?:[^"\\\\$\`!]|\\\\[^!]|${VARIABLE}|\\$(?=[ "]))*"|${VARIABLE}|\\\\[^!]|[^\\s'"\`$\\\\!;|<>&()])`,
  "uy",
);

/**
 * Whether a command can be typed at a prompt of bash or zsh as it is.
 *
 * Only simple commands in pipes and lists on one line. VS Code reports the end of a line only if the shell has reported its
 * start, which bash does before the first simple command: not for a syntax error, a function, or a lone subshell. An
 * unfinished line waits for the rest of it, and a prompt expands `!` and may have no comments.
 */
export function isTypable(command: string, shell: string): boolean {
  const text = command.replace(/ +$/u, "");
  if (text.startsWith(" ") || text.length > (MAX_TYPED[shell] ?? 0) || UNPRINTABLE.test(text) || setsVariables(command)) {
    return false;
  }
  const tokens = tokenize(text);
  return tokens !== undefined && /^w(?:w|rw)*(?:[os](?:rw)*w(?:w|rw)*)*s?$/u.test(tokens);
}

/** The kinds of the tokens of a command line, a letter for each; undefined if it has anything unusual. */
function tokenize(text: string): string | undefined {
  let [kinds, word] = ["", ""];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const { operator, part } = TOKEN.exec(text)?.groups ?? {};
    if (part !== undefined) {
      word += part;
      continue;
    }
    if (TOKEN.lastIndex === 0 || isUnusual(word)) {
      return undefined;
    }
    // A number before `<` and `>` belongs to them.
    const isDescriptor = operator !== undefined && /[<>]/u.test(operator) && /^\d+$/u.test(word);
    kinds += (word === "" || isDescriptor ? "" : "w") + (operator === undefined ? "" : (OPERATORS[operator] ?? "?"));
    word = "";
  }
  return isUnusual(word) ? undefined : kinds + (word === "" ? "" : "w");
}

function isUnusual(word: string): boolean {
  return RESERVED.has(word) || /^(?:[#%=^]|\{(?!\}))/u.test(word);
}

/** Whether a command does nothing but set variables, as programs do whose values nobody should see. */
function setsVariables(command: string): boolean {
  return /^(?:\s*export \w+=(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\;])*;)+\s*$/u.test(command);
}

/** A command as the terminal shows it: without control characters and secrets, long ones in part. */
export function shownCommand(command: string): string {
  if (setsVariables(command)) {
    return [...command.matchAll(/(?:^|;)\s*(export \w+=)/gu)].map(([, name]) => `${name}...;`).join(" ");
  }
  const all = command.trim().replaceAll(/\r\n?/gu, "\n").split("\n");
  const lines = all.slice(0, MAX_LINES).join("\n").slice(0, MAX_SHOWN).split("\n");
  const clean = lines.map((line) => line.replaceAll("\t", "    ").replaceAll(new RegExp(UNPRINTABLE, "gu"), "?"));
  const missing = all.length - lines.length;
  const isCut = all.slice(0, lines.length).join("\n").length > MAX_SHOWN;
  return clean.join("\n> ") + (missing > 0 ? `\n... (+${missing} lines)` : isCut ? "..." : "");
}
