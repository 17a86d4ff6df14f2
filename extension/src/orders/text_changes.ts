import { createHash } from "node:crypto";

const BOM = "\ufeff";
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The replacement of a part of a text. */
export interface Change {
  start: number;
  end: number;
  text: string;
}

/** The smallest change from one text to another; undefined if they are the same. */
export function smallestChange(before: string, after: string): Change | undefined {
  if (before === after) {
    return undefined;
  }
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before.charCodeAt(start) === after.charCodeAt(start)) {
    start += 1;
  }
  while (start > 0 && (isSplit(before, start) || isSplit(after, start))) {
    start -= 1;
  }
  let tail = 0;
  while (
    tail < shorter - start &&
    before.charCodeAt(before.length - 1 - tail) === after.charCodeAt(after.length - 1 - tail)
  ) {
    tail += 1;
  }
  while (tail > 0 && (isSplit(before, before.length - tail) || isSplit(after, after.length - tail))) {
    tail -= 1;
  }
  return { start, end: before.length - tail, text: after.slice(start, after.length - tail) };
}

/** Whether a position is inside a line ending or a surrogate pair. */
function isSplit(text: string, at: number): boolean {
  const [left, right] = [text.charCodeAt(at - 1), text.charCodeAt(at)];
  const inLineEnding = left === 0x0d && right === 0x0a;
  const inCharacter = left >= 0xd800 && left <= 0xdbff && right >= 0xdc00 && right <= 0xdfff;
  return inLineEnding || inCharacter;
}

/** The text of a file, without a byte order mark; undefined if it is not UTF-8 text. */
export function decodeText(data: Uint8Array): string | undefined {
  if (data.includes(0)) {
    return undefined;
  }
  try {
    const text = decoder.decode(data);
    return text.startsWith(BOM) ? text.slice(BOM.length) : text;
  } catch {
    return undefined;
  }
}

/** Whether a file starts with a byte order mark of UTF-8. */
export function hasByteOrderMark(data: Uint8Array): boolean {
  return data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf;
}

/** The line ending of a text; undefined if it has none. */
export function lineEnding(text: string): "\n" | "\r\n" | "mixed" | undefined {
  const all = text.split("\n").length - 1;
  const pairs = text.split("\r\n").length - 1;
  const returns = text.split("\r").length - 1;
  if (all === 0 && returns === 0) {
    return undefined;
  }
  if (returns === pairs && pairs === all) {
    return "\r\n";
  }
  return returns === 0 ? "\n" : "mixed";
}

/** A text with `\n` as its line ending. */
export function normalizeNewlines(text: string): string {
  return text.replaceAll(/\r\n?/g, "\n");
}

export function sha256(data: Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}
