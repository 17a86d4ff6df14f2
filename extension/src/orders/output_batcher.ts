/** The most characters in one message. */
export const MAX_LENGTH = 1 << 16;
/** The least milliseconds between messages that are not full. */
const INTERVAL = 50;

/** Sends a command's output: the first text at once, then in batches. */
export class OutputBatcher {
  private buffer = "";
  private timer: NodeJS.Timeout | undefined;
  private last = 0;

  constructor(
    private readonly sendText: (text: string) => void,
    private readonly interval = INTERVAL,
  ) {}

  add(text: string): void {
    this.buffer += text;
    while (this.buffer.length >= MAX_LENGTH) {
      const piece = truncate(this.buffer, MAX_LENGTH);
      this.buffer = this.buffer.slice(piece.length);
      this.send(piece);
    }
    if (this.buffer === "" || this.timer !== undefined) {
      return;
    }
    const early = this.last + this.interval - Date.now();
    if (early <= 0) {
      this.flush();
    } else {
      this.timer = setTimeout(() => this.flush(), early);
    }
  }

  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const text = this.buffer;
    this.buffer = "";
    if (text !== "") {
      this.send(text);
    }
  }

  private send(text: string): void {
    this.last = Date.now();
    this.sendText(text);
  }
}

/** The first characters of a text, at most `most`; surrogate pairs are not split. */
export function truncate(text: string, most: number): string {
  const last = text.charCodeAt(most - 1);
  const isSplit = text.length > most && last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, isSplit ? most - 1 : most);
}

/** Converts `\n` to `\r\n`, for output that did not go through a terminal. */
export class NewlineConverter {
  private afterReturn = false;

  convert(text: string): string {
    if (text === "") {
      return "";
    }
    const first = this.afterReturn && text.startsWith("\n") ? "\n" : "";
    this.afterReturn = text.endsWith("\r");
    return first + text.slice(first.length).replaceAll(/(?<!\r)\n/g, "\r\n");
  }
}
