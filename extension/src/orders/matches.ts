import type { Line } from "../protocol";

/** A longer line is cut around its match. */
const LONGEST = 1000;
const CUT = "[…]";

/** What ripgrep prints with --json, as far as it is used here. */
interface Text {
  text?: string;
  bytes?: string;
}
interface Event {
  type: string;
  data: { path?: Text; lines?: Text; line_number?: number | null; submatches?: { start: number }[] };
}

/** Makes lines with their surroundings of what ripgrep prints. */
export class Matches {
  readonly lines: Line[] = [];
  private readonly around = new Map<number, string>();
  /** The lines that match in the file that is being told of. */
  private inFile: Line[] = [];

  constructor(
    private readonly before: number,
    private readonly after: number,
    private readonly wanted: (path: string) => boolean,
  ) {}

  /** Takes one line of ripgrep's. */
  take(record: string): void {
    if (record === "") {
      return;
    }
    const { type, data } = JSON.parse(record) as Event;
    if (type === "end") {
      this.finish();
    } else if (type === "match" || type === "context") {
      this.line(type === "match", data);
    }
  }

  /** Gives the lines of a file their surroundings. */
  finish(): void {
    for (const line of this.inFile) {
      line.before = this.texts(line.line - this.before, line.line - 1);
      line.after = this.texts(line.line + 1, line.line + this.after);
    }
    this.inFile = [];
    this.around.clear();
  }

  private line(matches: boolean, data: Event["data"]): void {
    const path = textOf(data.path);
    const number = data.line_number ?? 0;
    if (!this.wanted(path)) {
      return;
    }
    const whole = textOf(data.lines).replace(/\r?\n$/, "");
    if (this.before > 0 || this.after > 0) {
      this.around.set(number, clipped(whole, 0));
    }
    if (matches) {
      const line = { path, line: number, text: clipped(whole, columnOf(data)), before: [], after: [] };
      this.lines.push(line);
      this.inFile.push(line);
    }
  }

  private texts(first: number, last: number): string[] {
    const found: string[] = [];
    for (let number = first; number <= last; number += 1) {
      const text = this.around.get(number);
      if (text !== undefined) {
        found.push(text);
      }
    }
    return found;
  }
}

function textOf(text: Text | undefined): string {
  return text?.text ?? Buffer.from(text?.bytes ?? "", "base64").toString("utf8");
}

/** Where in a line its match is, in characters: ripgrep counts bytes. */
function columnOf(data: Event["data"]): number {
  const bytes = data.submatches?.[0]?.start ?? 0;
  return Buffer.from(textOf(data.lines), "utf8").subarray(0, bytes).toString("utf8").length;
}

/** A line, or the part of it around `at` if it is long. */
export function clipped(line: string, at: number): string {
  if (line.length <= LONGEST) {
    return line;
  }
  const start = Math.max(0, Math.min(at - LONGEST / 4, line.length - LONGEST));
  const end = start + LONGEST;
  // Halves of characters at the ends are left out.
  const part = line.slice(start, end).replace(/^[\udc00-\udfff]/, "").replace(/[\ud800-\udbff]$/, "");
  return (start > 0 ? CUT : "") + part + (end < line.length ? CUT : "");
}
