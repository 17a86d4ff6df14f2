/** What a user can do about a problem. */
export type Remedy = "retry" | "setKey" | "openSettings" | "showLog";

/** Why there is no connection, with a message for the user. */
export class Problem extends Error {
  constructor(
    readonly kind: "absent" | "wrong_key" | "no_hub" | "refused" | "unknown_window",
    message: string,
    readonly remedies: readonly Remedy[] = ["retry", "showLog"],
  ) {
    super(message);
    this.name = "Problem";
  }

  /** Whether a retry may succeed. */
  get isTransient(): boolean {
    return this.kind === "absent";
  }
}

/** The message of an error, with that of its cause. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  const cause = error.cause instanceof Error ? error.cause : undefined;
  const code = cause && "code" in cause && typeof cause.code === "string" ? cause.code : "";
  const why = code || cause?.message;
  return why ? `${error.message}: ${why}` : error.message;
}

export function toProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem("refused", errorText(error));
}
