import type { Answer, FailureCode, Told } from "./protocol";

/** How much of what is printed goes in one message, in characters. */
const MOST_PRINTED = 256 * 1024;
/** How much of what is printed is kept while nobody takes it. */
const MOST_KEPT = 4 * 1024 * 1024;
/** The largest answer; a hub drops a connection on which more comes at once. */
const MOST_ANSWERED = 6 * 1024 * 1024;
/** How many orders that are over are remembered, in case they come again. */
const MOST_REMEMBERED = 1000;

/** Sends something on the connection there is; `acknowledged` is called when the hub has it. */
export type Send = (told: Told, acknowledged: () => void) => void;

type Result =
  | { kind: "succeeded"; answer: Answer }
  | { kind: "failed"; code: FailureCode; message: string };

/** What is still to be told of an order. */
interface Account {
  number: number;
  /** What was sent and is not acknowledged. */
  sent?: Told;
  printed: string;
  dropped: number;
  result?: Result;
}

/**
 * What is told of orders: numbered, kept until the hub has acknowledged it, and told again after a break.
 *
 * Of each order one message is on its way at a time, so that they arrive in order whatever happens.
 */
export class Outbox {
  readonly #accounts = new Map<string, Account>();
  readonly #over = new Set<string>();
  readonly #emptied: (() => void)[] = [];
  #send: Send | undefined;

  /** Orders that are being carried out, or of which not everything is acknowledged. */
  get orders(): string[] {
    return [...this.#accounts.keys()];
  }

  /** Orders without a result. */
  get pending(): string[] {
    return [...this.#accounts].filter(([, account]) => !account.result).map(([id]) => id);
  }

  /** Note an order; false if it has come before. */
  take(id: string): boolean {
    if (this.#accounts.has(id) || this.#over.has(id)) {
      return false;
    }
    this.#accounts.set(id, { number: 0, printed: "", dropped: 0 });
    return true;
  }

  /** An order has printed something. */
  printed(id: string, text: string): void {
    const account = this.#accounts.get(id);
    if (!account || account.result || text === "") {
      return;
    }
    account.printed += text;
    if (account.printed.length > MOST_KEPT) {
      account.dropped += account.printed.length - MOST_KEPT / 2;
      account.printed = account.printed.slice(-MOST_KEPT / 2);
    }
    this.#next(id, account);
  }

  /** An order worked. */
  succeeded(id: string, answer: Answer): void {
    const size = weight(answer);
    if (size > MOST_ANSWERED) {
      this.failed(id, "failed", `The answer is too large (${size} bytes). Ask for less at once.`);
    } else {
      this.#ended(id, { kind: "succeeded", answer });
    }
  }

  /** An order did not work. */
  failed(id: string, code: FailureCode, message: string): void {
    this.#ended(id, { kind: "failed", code, message });
  }

  /** Nobody wants to hear of an order any more. */
  forget(id: string): void {
    if (this.#accounts.delete(id)) {
      this.#remember(id);
    }
    if (this.#accounts.size === 0) {
      this.#emptied.splice(0).forEach((tell) => tell());
    }
  }

  /** Fulfilled when everything is told and acknowledged. */
  async emptied(): Promise<void> {
    if (this.#accounts.size > 0) {
      await new Promise<void>((resolve) => this.#emptied.push(resolve));
    }
  }

  /** There is a connection: tell again what was not acknowledged, and then the rest. */
  connected(send: Send): void {
    this.#send = send;
    for (const [id, account] of this.#accounts) {
      if (account.sent) {
        this.#emit(id, account, account.sent);
      } else {
        this.#next(id, account);
      }
    }
  }

  /** The connection is broken. */
  disconnected(): void {
    this.#send = undefined;
  }

  #ended(id: string, result: Result): void {
    const account = this.#accounts.get(id);
    if (!account || account.result) {
      return;
    }
    account.result = result;
    this.#next(id, account);
  }

  #next(id: string, account: Account): void {
    if (!this.#send || account.sent) {
      return;
    }
    const text = takePrinted(account);
    if (text !== "") {
      account.sent = { kind: "printed", id, number: ++account.number, text };
    } else if (account.result) {
      account.sent = { id, number: ++account.number, ...account.result };
    }
    if (account.sent) {
      this.#emit(id, account, account.sent);
    }
  }

  #emit(id: string, account: Account, told: Told): void {
    this.#send?.(told, () => {
      if (account.sent !== told || this.#accounts.get(id) !== account) {
        return; // acknowledged twice, or nobody cares any more
      }
      delete account.sent;
      if (told.kind === "printed") {
        this.#next(id, account);
      } else {
        this.forget(id);
      }
    });
  }

  #remember(id: string): void {
    this.#over.add(id);
    for (const oldest of this.#over) {
      if (this.#over.size <= MOST_REMEMBERED) {
        break;
      }
      this.#over.delete(oldest);
    }
  }
}

/** The next piece of what was printed; a character that takes two places is not cut. */
function takePrinted(account: Account): string {
  const lost = account.dropped ? `\r\n[${account.dropped} characters of output were lost here]\r\n` : "";
  account.dropped = 0;
  let end = Math.min(account.printed.length, MOST_PRINTED);
  if (end < account.printed.length && /[\uD800-\uDBFF]/.test(account.printed.charAt(end - 1))) {
    end -= 1;
  }
  const text = lost + account.printed.slice(0, end);
  account.printed = account.printed.slice(end);
  return text;
}

/** About how many bytes something takes on the wire. */
function weight(value: unknown): number {
  if (typeof value === "string") {
    return Buffer.byteLength(value);
  }
  if (value instanceof Uint8Array) {
    return value.byteLength;
  }
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).reduce((sum, [name, part]) => sum + name.length + 4 + weight(part), 2);
  }
  return 8;
}
