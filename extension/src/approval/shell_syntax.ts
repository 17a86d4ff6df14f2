/** A word of a command, after quotes were removed. */
export interface Word {
  text: string;
  /** It has an unquoted `*`, `?` or `[`: the shell puts the names of files in its place. */
  glob: boolean;
  /** The variables that the shell puts in. */
  variables: string[];
}

/** A program or builtin with its arguments. */
export interface SimpleCommand {
  words: Word[];
  /** The files that its input comes from. */
  inputs: Word[];
}

const SAFE_OUTPUTS = new Set(["/dev/null"]);
const VARIABLE = /^\$(?:\{([A-Za-z_]\w*|\?)\}|([A-Za-z_]\w*|\?))/;
/** What is not a plain character outside of quotes, and is not understood here. */
const UNSUPPORTED = new Set(["`", "(", ")", "{", "}", "!", "#"]);
const SPECIAL = new Set([" ", "\t", "\n", ";", "|", "&", "<", ">"]);

/** The text is not understood. */
class NotUnderstood extends Error {}

/**
 * Split a shell command line into its simple commands; undefined if any part of it is not understood.
 *
 * Pipelines and lists (`|`, `&&`, `||`, `;`, line ends), quotes, globs and plain variables are understood. Everything
 * that runs or defines something else is not: substitutions, groups, functions, here-documents, background jobs, history
 * expansion. Nor are redirections that write anywhere but to `/dev/null`.
 */
export function parseCommandLine(text: string): SimpleCommand[] | undefined {
  // A terminal may act on control characters before the shell sees them.
  // eslint-disable-next-line no-control-regex
  if (/[\0-\x08\x0b-\x1f\x7f\u0080-\u009f]/.test(text)) {
    return undefined;
  }
  try {
    return new Parser(text.trim()).parse();
  } catch (error) {
    if (error instanceof NotUnderstood) {
      return undefined;
    }
    throw error;
  }
}

class Parser {
  private at = 0;
  private readonly commands: SimpleCommand[] = [];
  private current: SimpleCommand = { words: [], inputs: [] };

  constructor(private readonly text: string) {}

  parse(): SimpleCommand[] {
    while (this.at < this.text.length) {
      const character = this.peek();
      if (character === " " || character === "\t") {
        this.at += 1;
      } else if (character === "<" || character === ">" || /^\d+[<>]/.test(this.rest())) {
        this.redirection();
      } else if (SPECIAL.has(character)) {
        this.operator();
      } else {
        this.current.words.push(this.word());
      }
    }
    if (this.current.words.length > 0) {
      this.endCommand();
    } else if (this.current.inputs.length > 0 || !/(^|[^;|&])[;\n]\s*$/.test(this.text)) {
      throw new NotUnderstood(); // it ends with an operator that needs another command
    }
    return this.commands;
  }

  private peek(ahead = 0): string {
    return this.text.charAt(this.at + ahead);
  }

  private rest(): string {
    return this.text.slice(this.at);
  }

  private endCommand(): void {
    if (this.current.words.length === 0) {
      throw new NotUnderstood();
    }
    this.commands.push(this.current);
    this.current = { words: [], inputs: [] };
  }

  private operator(): void {
    const operator = /^(?:&>|&&|\|\||\|&|;;|[;|&\n])/.exec(this.rest())?.[0] ?? "";
    if (operator === "&>") {
      this.at += operator.length;
      this.output();
      return;
    }
    if (!["&&", "||", "|", ";", "\n"].includes(operator)) {
      throw new NotUnderstood();
    }
    this.at += operator.length;
    this.endCommand();
    this.at += /^\s*/.exec(this.rest())?.[0].length ?? 0;
  }

  private redirection(): void {
    const operator = /^\d*(?:<<|<>|<\(|>\(|<&|>>|>&|>\||<|>)/.exec(this.rest())?.[0] ?? "";
    this.at += operator.length;
    switch (operator.replace(/^\d+/, "")) {
      case "<":
        this.current.inputs.push(this.target());
        break;
      case ">":
      case ">>":
        this.output();
        break;
      case ">&": {
        const number = /^[12](?=[\s;|&]|$)/.exec(this.rest());
        if (!number) {
          throw new NotUnderstood();
        }
        this.at += 1;
        break;
      }
      default:
        throw new NotUnderstood();
    }
  }

  private output(): void {
    const { text, glob, variables } = this.target();
    if (!SAFE_OUTPUTS.has(text) || glob || variables.length > 0) {
      throw new NotUnderstood();
    }
  }

  private target(): Word {
    this.at += /^[ \t]*/.exec(this.rest())?.[0].length ?? 0;
    if (this.at >= this.text.length || SPECIAL.has(this.peek())) {
      throw new NotUnderstood();
    }
    return this.word();
  }

  private word(): Word {
    const word: Word = { text: "", glob: false, variables: [] };
    if (this.peek() === "~" || this.peek() === "=") {
      throw new NotUnderstood(); // a home directory; in zsh, the path of a program
    }
    while (this.at < this.text.length && !SPECIAL.has(this.peek())) {
      this.part(word);
    }
    return word;
  }

  private part(word: Word): void {
    const character = this.peek();
    if (UNSUPPORTED.has(character)) {
      throw new NotUnderstood();
    }
    switch (character) {
      case "'":
        word.text += this.singleQuoted();
        break;
      case '"':
        this.doubleQuoted(word);
        break;
      case "\\":
        word.text += this.escaped();
        break;
      case "$":
        this.variable(word);
        break;
      default:
        word.glob ||= "*?[".includes(character);
        word.text += character;
        this.at += 1;
    }
  }

  private singleQuoted(): string {
    const end = this.text.indexOf("'", this.at + 1);
    if (end < 0) {
      throw new NotUnderstood();
    }
    const text = this.text.slice(this.at + 1, end);
    this.at = end + 1;
    return text;
  }

  private doubleQuoted(word: Word): void {
    this.at += 1;
    for (;;) {
      const character = this.peek();
      if (character === "" || character === "`" || character === "!") {
        throw new NotUnderstood();
      }
      if (character === '"') {
        this.at += 1;
        return;
      }
      if (character === "$" && /[\w{(?@*#$!-]/.test(this.peek(1))) {
        this.variable(word);
      } else if (character === "\\" && /[$`"\\]/.test(this.peek(1))) {
        word.text += this.peek(1);
        this.at += 2;
      } else {
        word.text += character;
        this.at += 1;
      }
    }
  }

  private escaped(): string {
    const character = this.peek(1);
    if (character === "" || character === "\n") {
      throw new NotUnderstood();
    }
    this.at += 2;
    return character;
  }

  private variable(word: Word): void {
    const found = VARIABLE.exec(this.rest());
    const name = found?.[1] ?? found?.[2];
    if (!found || name === undefined) {
      throw new NotUnderstood();
    }
    word.variables.push(name);
    word.text += found[0];
    this.at += found[0].length;
  }
}
