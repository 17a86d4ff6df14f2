import type { Log } from "./log";
import { Outbox } from "./outbox";
import { said } from "./problem";
import { type Answer, FAILURES, type FailureCode, type Order, type Ordered } from "./protocol";

/** How long the one who carries out orders has for saying what became of those that a pause ended. */
const PAUSE_MS = 1000;

/** Who carries out orders. */
export interface Performing {
  perform(order: Order, told: { printed(text: string): void }, signal: AbortSignal): Promise<Answer>;
  pause(): void;
  resume(): void;
}

const PAUSED = "The user has paused the agent in this window.";

/** Takes orders, has each carried out once, and sees to it that what comes of it is told. */
export class Desk {
  #outbox = new Outbox();
  readonly #running = new Map<string, AbortController>();
  #paused = false;

  /** `busy` hears how many orders are being carried out. */
  constructor(
    private readonly performer: Performing,
    private readonly log: Log,
    private readonly busy: (count: number) => void = () => undefined,
  ) {}

  /** What is to be told. */
  get outbox(): Outbox {
    return this.#outbox;
  }

  /** Whether orders are refused because the user wants it so. */
  get paused(): boolean {
    return this.#paused;
  }

  /** An order has come, perhaps not for the first time. */
  ordered({ id, order }: Ordered): void {
    const outbox = this.#outbox;
    if (!outbox.take(id)) {
      this.log.debug(`Order ${id} came again.`);
      return;
    }
    if (this.#paused) {
      outbox.failed(id, "paused", PAUSED);
      return;
    }
    const controller = new AbortController();
    this.#running.set(id, controller);
    this.busy(this.#running.size);
    void this.#carryOut(id, order, outbox, controller.signal).finally(() => {
      if (this.#running.get(id) === controller) {
        this.#running.delete(id);
      }
      this.busy(this.#running.size);
    });
  }

  /** Nobody waits for an order any more. */
  cancelled(id: string): void {
    this.#outbox.forget(id);
    this.#running.get(id)?.abort();
  }

  /** The user wants the agent to stop for now. */
  pause(): void {
    if (this.#paused) {
      return;
    }
    this.#paused = true;
    const outbox = this.#outbox;
    const ended = outbox.pending;
    this.performer.pause();
    setTimeout(() => ended.forEach((id) => outbox.failed(id, "paused", PAUSED)), PAUSE_MS).unref();
  }

  /** The agent may go on. */
  resume(): void {
    if (this.#paused) {
      this.#paused = false;
      this.performer.resume();
    }
  }

  /** End what is being carried out, for this reason. */
  end(code: FailureCode, message: string): void {
    this.#outbox.pending.forEach((id) => this.#outbox.failed(id, code, message));
    this.#abort();
  }

  /** Forget everything: whoever gave the orders is gone. */
  reset(): void {
    this.#outbox = new Outbox();
    this.#abort();
  }

  #abort(): void {
    const running = [...this.#running.values()];
    this.#running.clear();
    running.forEach((controller) => controller.abort());
  }

  async #carryOut(id: string, order: Order, outbox: Outbox, signal: AbortSignal): Promise<void> {
    try {
      const answer = await this.performer.perform(order, { printed: (text) => outbox.printed(id, text) }, signal);
      outbox.succeeded(id, answer);
    } catch (error) {
      outbox.failed(id, codeOf(error), said(error));
      if (codeOf(error) === "failed") {
        this.log.warn(`${order.kind} failed: ${said(error)}`);
      }
    }
  }
}

function codeOf(error: unknown): FailureCode {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return FAILURES.find((known) => known === code) ?? "failed";
}
