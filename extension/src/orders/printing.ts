/** The most characters of one message. */
export const LONGEST = 1 << 16;
/** Messages that are not full have at least so many milliseconds between them. */
const PAUSE = 50;

/** Tells what a command prints: soon, but not in more messages than it takes. */
export class Printing {
  private held = "";
  private timer: NodeJS.Timeout | undefined;
  private last = 0;

  constructor(
    private readonly tell: (text: string) => void,
    private readonly between = PAUSE,
  ) {}

  add(text: string): void {
    this.held += text;
    while (this.held.length >= LONGEST) {
      const piece = beginning(this.held, LONGEST);
      this.held = this.held.slice(piece.length);
      this.send(piece);
    }
    if (this.held === "" || this.timer !== undefined) {
      return;
    }
    const early = this.last + this.between - Date.now();
    if (early <= 0) {
      this.flush();
    } else {
      this.timer = setTimeout(() => this.flush(), early);
    }
  }

  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const text = this.held;
    this.held = "";
    if (text !== "") {
      this.send(text);
    }
  }

  private send(text: string): void {
    this.last = Date.now();
    this.tell(text);
  }
}

/** The first characters of a text, not more than `most`, and no character cut in two. */
export function beginning(text: string, most: number): string {
  const last = text.charCodeAt(most - 1);
  const cutInTwo = text.length > most && last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, cutInTwo ? most - 1 : most);
}

/** Turns line ends into what a terminal makes of them, for output that did not go through one. */
export class TerminalLines {
  private afterReturn = false;

  take(text: string): string {
    if (text === "") {
      return "";
    }
    const first = this.afterReturn && text.startsWith("\n") ? "\n" : "";
    this.afterReturn = text.endsWith("\r");
    return first + text.slice(first.length).replaceAll(/(?<!\r)\n/g, "\r\n");
  }
}
