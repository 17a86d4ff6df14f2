/** What a user can do about a problem. */
export type Remedy = "retry" | "setKey" | "openSettings" | "showLog";

/** Why there is no connection, in words for the user. */
export class Problem extends Error {
  constructor(
    readonly kind: "absent" | "wrong_key" | "no_hub" | "refused" | "unknown_window",
    message: string,
    readonly remedies: readonly Remedy[] = ["retry", "showLog"],
  ) {
    super(message);
    this.name = "Problem";
  }

  /** Whether it may go away by itself, so that trying again makes sense. */
  get passing(): boolean {
    return this.kind === "absent";
  }
}

/** The words of whatever was thrown. */
export function said(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  const cause = error.cause instanceof Error ? error.cause : undefined;
  const code = cause && "code" in cause && typeof cause.code === "string" ? cause.code : "";
  const why = code || cause?.message;
  return why ? `${error.message}: ${why}` : error.message;
}

/** Whatever was thrown, as a problem. */
export function asProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem("refused", said(error));
}
