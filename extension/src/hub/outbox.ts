import type { Answer, FailureCode, Told } from "../protocol";

/** The most characters of output in one message. */
const MAX_MESSAGE = 256 * 1024;
/** The most characters of output that are buffered for an order. */
const MAX_BUFFERED = 4 * 1024 * 1024;
/** The largest answer, in bytes; a hub drops a connection that sends a larger message. */
const MAX_ANSWER = 6 * 1024 * 1024;
/** How many finished orders are remembered, in case the hub sends them again. */
const MAX_REMEMBERED = 1000;

/** Sends a message; `acknowledged` is called when the hub has it. */
export type Send = (message: Told, acknowledged: () => void) => void;

type Result =
  | { kind: "succeeded"; answer: Answer }
  | { kind: "failed"; code: FailureCode; message: string };

type Message = Result | { kind: "printed"; text: string } | { kind: "waiting"; question: string };

/** What the hub has not acknowledged of an order. */
interface PendingOrder {
  /** The number of the last message. */
  number: number;
  /** The message that was sent and is not acknowledged. */
  sent?: Told;
  /** What the user is asked, if that was not sent; empty if the decision was made. */
  question?: string;
  output: string;
  /** How many characters of output were dropped before `output`. */
  dropped: number;
  result?: Result;
}

/**
 * Delivers the output and the results of orders: numbers messages, and sends them again on a new connection until the
 * hub acknowledges them.
 *
 * For each order one message is in flight at a time, so that messages arrive in order.
 */
export class Outbox {
  readonly #orders = new Map<string, PendingOrder>();
  readonly #finished = new Set<string>();
  readonly #emptyCallbacks: (() => void)[] = [];
  #send: Send | undefined;

  /** The ids of orders that are running, or whose messages are not all acknowledged. */
  get orders(): string[] {
    return [...this.#orders.keys()];
  }

  /** The ids of orders without a result. */
  get pending(): string[] {
    return [...this.#orders].filter(([, order]) => !order.result).map(([id]) => id);
  }

  /** Add an order; false if it was added before. */
  add(id: string): boolean {
    if (this.#orders.has(id) || this.#finished.has(id)) {
      return false;
    }
    this.#orders.set(id, { number: 0, output: "", dropped: 0 });
    return true;
  }

  addOutput(id: string, text: string): void {
    const order = this.#orders.get(id);
    if (!order || order.result || text === "") {
      return;
    }
    order.output += text;
    if (order.output.length > MAX_BUFFERED) {
      order.dropped += order.output.length - MAX_BUFFERED / 2;
      order.output = order.output.slice(-MAX_BUFFERED / 2);
    }
    this.#sendNext(id, order);
  }

  /** The order waits for the user's decision on a question; an empty one when it was made. */
  addQuestion(id: string, question: string): void {
    const order = this.#orders.get(id);
    if (order && !order.result) {
      order.question = question;
      this.#sendNext(id, order);
    }
  }

  succeed(id: string, answer: Answer): void {
    const size = encodedSize(answer);
    if (size > MAX_ANSWER) {
      this.fail(id, "failed", `The answer is too large (${size} bytes). Ask for less at once.`);
    } else {
      this.#end(id, { kind: "succeeded", answer });
    }
  }

  fail(id: string, code: FailureCode, message: string): void {
    this.#end(id, { kind: "failed", code, message });
  }

  /** Remove an order; nothing more is sent about it. */
  remove(id: string): void {
    if (this.#orders.delete(id)) {
      this.#remember(id);
    }
    if (this.#orders.size === 0) {
      this.#emptyCallbacks.splice(0).forEach((callback) => callback());
    }
  }

  /** Resolves when all orders have ended and the hub has acknowledged all messages. */
  async waitUntilEmpty(): Promise<void> {
    if (this.#orders.size > 0) {
      await new Promise<void>((resolve) => this.#emptyCallbacks.push(resolve));
    }
  }

  /** Use a new connection: send what was not acknowledged again, then the rest. */
  connect(send: Send): void {
    this.#send = send;
    for (const [id, order] of this.#orders) {
      if (order.sent) {
        this.#emit(id, order, order.sent);
      } else {
        this.#sendNext(id, order);
      }
    }
  }

  /** Buffer messages until the next `connect`. */
  disconnect(): void {
    this.#send = undefined;
  }

  #end(id: string, result: Result): void {
    const order = this.#orders.get(id);
    if (!order || order.result) {
      return;
    }
    order.result = result;
    this.#sendNext(id, order);
  }

  #sendNext(id: string, order: PendingOrder): void {
    if (!this.#send || order.sent) {
      return;
    }
    const next = takeNext(order);
    if (next) {
      order.sent = { id, number: ++order.number, ...next };
      this.#emit(id, order, order.sent);
    }
  }

  #emit(id: string, order: PendingOrder, message: Told): void {
    this.#send?.(message, () => {
      if (order.sent !== message || this.#orders.get(id) !== order) {
        return; // acknowledged twice, or removed
      }
      delete order.sent;
      if (message.kind === "succeeded" || message.kind === "failed") {
        this.remove(id);
      } else {
        this.#sendNext(id, order);
      }
    });
  }

  #remember(id: string): void {
    this.#finished.add(id);
    for (const oldest of this.#finished) {
      if (this.#finished.size <= MAX_REMEMBERED) {
        break;
      }
      this.#finished.delete(oldest);
    }
  }
}

/** Take the next message about an order, without its number. */
function takeNext(order: PendingOrder): Message | undefined {
  const { question, result } = order;
  if (question !== undefined && !result) {
    delete order.question;
    return { kind: "waiting", question };
  }
  const text = takeOutput(order);
  return text === "" ? result : { kind: "printed", text };
}

/** Take the next piece of output; surrogate pairs are not split. */
function takeOutput(order: PendingOrder): string {
  const lost = order.dropped ? `\r\n[${order.dropped} characters of output were lost here]\r\n` : "";
  order.dropped = 0;
  let end = Math.min(order.output.length, MAX_MESSAGE);
  if (end < order.output.length && /[\uD800-\uDBFF]/.test(order.output.charAt(end - 1))) {
    end -= 1;
  }
  const text = lost + order.output.slice(0, end);
  order.output = order.output.slice(end);
  return text;
}

/** About how many bytes a value takes on the wire. */
function encodedSize(value: unknown): number {
  if (typeof value === "string") {
    return Buffer.byteLength(value);
  }
  if (value instanceof Uint8Array) {
    return value.byteLength;
  }
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).reduce((sum, [name, part]) => sum + name.length + 4 + encodedSize(part), 2);
  }
  return 8;
}
