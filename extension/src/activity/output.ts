import type { Answer } from "../protocol";

/** The most characters that are kept of the output of an action: of its end. */
export const MAX_OUTPUT = 100_000;
// eslint-disable-next-line no-control-regex
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g;
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f]/g;

/** The output of an action: as much of its end as is kept. */
export class ActionOutput {
  #raw = "";
  #dropped = false;

  get isEmpty(): boolean {
    return this.#raw === "";
  }

  add(text: string): void {
    this.#raw += text;
    if (this.#raw.length > 2 * MAX_OUTPUT) {
      this.#raw = this.#raw.slice(-MAX_OUTPUT);
      this.#dropped = true;
    }
  }

  /** The text without control sequences, as it would be on a screen without an end. */
  toString(): string {
    const text = readable(this.#raw);
    const shown = text.slice(-MAX_OUTPUT);
    return this.#dropped || shown.length < text.length ? `… (earlier output is in the terminal)\n${shown}` : shown;
  }
}

/** Terminal output as plain text: colours removed, and lines that were overwritten as they were at last. */
export function readable(text: string): string {
  return text
    .replaceAll(ESCAPES, "")
    .replaceAll("\r\n", "\n")
    .split("\n")
    .map((line) => (line.replace(/\r+$/, "").split("\r").at(-1) ?? "").replaceAll(CONTROLS, ""))
    .join("\n");
}

/** What a search or a list has found, as text; empty for other answers. */
export function answerText(answer: Answer): string {
  switch (answer.kind) {
    case "found":
      return answer.paths.map((path) => `${path}\n`).join("");
    case "lines":
      return answer.lines.map(({ path, line, text }) => `${path}:${line}: ${text}\n`).join("");
    case "entries":
      return answer.entries.map(({ name, type }) => `${name}${type === "directory" ? "/" : ""}\n`).join("");
    default:
      return "";
  }
}
