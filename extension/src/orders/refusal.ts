import type { FailureCode } from "../protocol";

/** An order that is not carried out: why, in words for an agent. */
export class Refusal extends Error {
  constructor(
    readonly code: FailureCode,
    message: string,
  ) {
    super(message);
    this.name = "Refusal";
  }
}

/** What the codes of VS Code's and of the system's errors are to an agent. */
const CODES: Readonly<Record<string, FailureCode>> = {
  FileNotFound: "not_found",
  EntryNotFound: "not_found",
  ENOENT: "not_found",
  FileExists: "exists",
  EntryExists: "exists",
  EEXIST: "exists",
  FileNotADirectory: "not_directory",
  EntryNotADirectory: "not_directory",
  ENOTDIR: "not_directory",
  FileIsADirectory: "is_directory",
  EntryIsADirectory: "is_directory",
  EISDIR: "is_directory",
  ENOTEMPTY: "not_empty",
};

/** The code of an error, as VS Code and the system give them; empty if it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}

/** Whether an error says that nothing is at a path. */
export function isMissing(error: unknown): boolean {
  return CODES[codeOf(error)] === "not_found" || codeOf(error) === "ENOTDIR";
}

/** What an error means for an order about `what`. */
export function refusalOf(error: unknown, what: string): Refusal {
  if (error instanceof Refusal) {
    return error;
  }
  const code = CODES[codeOf(error)] ?? "failed";
  return new Refusal(code, sentence(code, error, what));
}

function sentence(code: FailureCode, error: unknown, what: string): string {
  switch (code) {
    case "not_found":
      return `${what} does not exist.`;
    case "exists":
      return `${what} exists already.`;
    case "not_directory":
      return `${what} is not a directory, or a part of its path is not.`;
    case "is_directory":
      return `${what} is a directory.`;
    case "not_empty":
      return `${what} is a directory that is not empty.`;
    default:
      return `${what}: ${reason(error)}`;
  }
}

function reason(error: unknown): string {
  if (["EACCES", "EPERM", "EROFS", "NoPermissions"].includes(codeOf(error))) {
    return "permission denied.";
  }
  const text = error instanceof Error ? error.message : String(error);
  return text.split("\n", 1)[0] ?? "";
}
