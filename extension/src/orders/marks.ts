/** What VS Code's shell integration wraps its marks in: `ESC ] 633 ; letter … BEL`, or `ESC \` at the end. */
const BEGIN = "\x1b]633;";
const ENDS = ["\x07", "\x1b\\"] as const;
/** What begins like a mark and is longer than this is none. */
const LONGEST = 1 << 16;

/**
 * Takes what a command printed out of a terminal's stream, which comes in any pieces.
 *
 * The shell marks where output begins (C) and where it ends (D, or at the latest the next prompt, A). A command
 * of several lines has several such parts. Marks are taken out, all other control sequences stay.
 */
export class Marks {
  private held = "";
  private inside = false;
  private begun = false;
  /** Printed before any mark: all there is, if none ever comes. */
  private early = "";

  /** This piece comes from within the output if it does not say where that begins. */
  expect(first: string): void {
    if (!first.includes(`${BEGIN}C`)) {
      this.turn("C");
    }
  }

  /** What of the next piece of the stream the command printed. */
  take(data: string): string {
    const text = this.held + data;
    this.held = "";
    let printed = "";
    let at = 0;
    for (;;) {
      const mark = text.indexOf(BEGIN, at);
      if (mark < 0) {
        break;
      }
      printed += this.kept(text.slice(at, mark));
      const end = endOf(text, mark + BEGIN.length);
      if (end < 0) {
        if (text.length - mark <= LONGEST) {
          this.held = text.slice(mark);
          return printed;
        }
        at = mark + BEGIN.length;
        printed += this.kept(BEGIN);
        continue;
      }
      this.turn(text.charAt(mark + BEGIN.length));
      at = end;
    }
    const whole = text.length - beginningAtEnd(text.slice(at));
    this.held = text.slice(whole);
    return printed + this.kept(text.slice(at, whole));
  }

  /** What is left when the stream has ended. */
  end(): string {
    const rest = this.kept(this.held);
    this.held = "";
    return this.begun ? rest : this.early;
  }

  private turn(letter: string): void {
    if (letter === "C") {
      this.inside = true;
      this.begun = true;
    } else if (letter === "D" || letter === "A") {
      this.inside = false;
    }
  }

  private kept(text: string): string {
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

/** How many characters at the end of a text may be the beginning of a mark. */
function beginningAtEnd(text: string): number {
  for (let length = Math.min(BEGIN.length - 1, text.length); length > 0; length -= 1) {
    if (BEGIN.startsWith(text.slice(-length))) {
      return length;
    }
  }
  return 0;
}
