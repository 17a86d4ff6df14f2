/** The marks of VS Code's shell integration: `ESC ] 633 ; name …`, ended by `BEL` or `ESC \\`. */
const BEGIN = "\x1b]633;";
const ENDS = ["\x07", "\x1b\\"] as const;
/** A sequence that starts like a mark and is longer than this is not a mark. */
const MAX_LENGTH = 1 << 16;

/**
 * Extracts a command's output from a terminal's stream, which may be split anywhere.
 *
 * The shell marks where output starts (C, or a mark of our own) and where it ends (D, or at the latest the next prompt, A). A command
 * of several lines has several such parts. Marks are removed, all other control sequences are preserved.
 */
export class MarkParser {
  private buffer = "";
  private inside = false;
  private begun = false;
  /** The text before any mark: it is the output if there are no marks. */
  private early = "";

  /** `start` is the name of the mark where output starts. */
  constructor(private readonly start = "C") {}

  /** Start inside the output, unless the first piece has the mark of its start. */
  startInOutput(first: string): void {
    if (!first.includes(BEGIN + this.start)) {
      this.apply(this.start);
    }
  }

  /** The output in the next piece of the stream. */
  parse(data: string): string {
    const text = this.buffer + data;
    this.buffer = "";
    let printed = "";
    let at = 0;
    for (;;) {
      const mark = text.indexOf(BEGIN, at);
      if (mark < 0) {
        break;
      }
      printed += this.output(text.slice(at, mark));
      const end = endOf(text, mark + BEGIN.length);
      if (end < 0) {
        if (text.length - mark <= MAX_LENGTH) {
          this.buffer = text.slice(mark);
          return printed;
        }
        at = mark + BEGIN.length;
        printed += this.output(BEGIN);
        continue;
      }
      this.apply(/^\w*/.exec(text.slice(mark + BEGIN.length, end))?.[0] ?? "");
      at = end;
    }
    const whole = text.length - partialMarkLength(text.slice(at));
    this.buffer = text.slice(whole);
    return printed + this.output(text.slice(at, whole));
  }

  /** The rest of the output, after the end of the stream. */
  finish(): string {
    const rest = this.output(this.buffer);
    this.buffer = "";
    return this.begun ? rest : this.early;
  }

  private apply(name: string): void {
    if (name === this.start) {
      this.inside = true;
      this.begun = true;
    } else if (name === "D" || name === "A") {
      this.inside = false;
    }
  }

  private output(text: string): string {
    if (!this.begun) {
      this.early += text;
    }
    return this.inside ? text : "";
  }
}

function endOf(text: string, from: number): number {
  const ends = ENDS.map((end) => [text.indexOf(end, from), end.length] as const).filter(([at]) => at >= 0);
  return ends.length === 0 ? -1 : Math.min(...ends.map(([at, length]) => at + length));
}

/** How many characters at the end of a text may be the start of a mark. */
function partialMarkLength(text: string): number {
  for (let length = Math.min(BEGIN.length - 1, text.length); length > 0; length -= 1) {
    if (BEGIN.startsWith(text.slice(-length))) {
      return length;
    }
  }
  return 0;
}
