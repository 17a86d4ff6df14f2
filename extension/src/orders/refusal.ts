import type { FailureCode } from "../protocol";

/** Why an order is not executed, with a message for the agent. */
export class Refusal extends Error {
  constructor(
    readonly code: FailureCode,
    message: string,
  ) {
    super(message);
    this.name = "Refusal";
  }
}

/** The failure codes for the error codes of VS Code and of the system. */
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

/** The code of an error of VS Code or of the system; empty if it has none. */
export function errorCode(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}

/** Whether an error means that nothing is at a path. */
export function isMissing(error: unknown): boolean {
  return CODES[errorCode(error)] === "not_found" || errorCode(error) === "ENOTDIR";
}

/** The refusal for an error in an order about `what`. */
export function toRefusal(error: unknown, what: string): Refusal {
  if (error instanceof Refusal) {
    return error;
  }
  const code = CODES[errorCode(error)] ?? "failed";
  return new Refusal(code, message(code, error, what));
}

function message(code: FailureCode, error: unknown, what: string): string {
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
  if (["EACCES", "EPERM", "EROFS", "NoPermissions"].includes(errorCode(error))) {
    return "permission denied.";
  }
  const text = error instanceof Error ? error.message : String(error);
  return text.split("\n", 1)[0] ?? "";
}
