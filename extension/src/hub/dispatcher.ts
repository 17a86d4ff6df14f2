import type { Log } from "../activity/log";
import { Outbox } from "./outbox";
import { errorText } from "../problem";
import { type ActionReport, type Answer, FAILURES, type FailureCode, type Order, type Ordered } from "../protocol";

/** How long the executor may take to report the orders that a pause has ended, before they fail here. */
const PAUSE_MS = 1000;

/** Receives a text about an order that runs. */
export type Report = (text: string) => void;

/** Executes one order. */
export interface OrderExecutor {
  /**
   * `action` is the id of the agent's action, empty for none; `print` receives the output, and `wait` what the user is
   * asked before it is executed. Rejects with an error whose `code` is a failure code.
   */
  execute(order: Order, action: string, print: Report, signal: AbortSignal, wait: Report): Promise<Answer>;
  pause(): void;
  resume(): void;
}

const PAUSED = "The user has paused the agent in this window.";

/** Receives orders, has each of them executed once, and puts output and results into the outbox. */
export class OrderDispatcher {
  #outbox = new Outbox();
  readonly #running = new Map<string, AbortController>();
  #paused = false;
  #busy = 0;

  /**
   * `onBusy` is called with the number of orders that are running, `show` with the reports of the agent's actions,
   * `onFailed` with each order that fails.
   */
  constructor(
    private readonly executor: OrderExecutor,
    private readonly log: Log,
    private readonly onBusy: (count: number) => void = () => undefined,
    readonly show: (report: ActionReport) => void = () => undefined,
    private readonly onFailed: (order: Order, code: FailureCode) => void = () => undefined,
  ) {}

  get outbox(): Outbox {
    return this.#outbox;
  }

  /** Whether orders are refused because the user has paused the agent. */
  get paused(): boolean {
    return this.#paused;
  }

  /** Start an order, unless it has been received before: a hub sends it again after a break. */
  receive({ id, order, action }: Ordered): void {
    const outbox = this.#outbox;
    if (!outbox.add(id)) {
      this.log.debug(`Order ${id} was received again.`);
      return;
    }
    if (this.#paused) {
      outbox.fail(id, "paused", PAUSED);
      return;
    }
    const controller = new AbortController();
    this.#running.set(id, controller);
    const work = order.kind === "watch" ? 0 : 1;
    this.onBusy((this.#busy += work));
    void this.#execute({ id, order, action }, outbox, controller.signal).finally(() => {
      if (this.#running.get(id) === controller) {
        this.#running.delete(id);
      }
      this.onBusy((this.#busy -= work));
    });
  }

  /** Abort an order whose result nobody waits for any more. */
  cancel(id: string): void {
    this.#outbox.remove(id);
    this.#running.get(id)?.abort();
  }

  /** Fail running orders, and refuse new ones until `resume`. */
  pause(): void {
    if (this.#paused) {
      return;
    }
    this.#paused = true;
    const outbox = this.#outbox;
    const pending = outbox.pending;
    this.executor.pause();
    setTimeout(() => pending.forEach((id) => outbox.fail(id, "paused", PAUSED)), PAUSE_MS).unref();
  }

  resume(): void {
    if (this.#paused) {
      this.#paused = false;
      this.executor.resume();
    }
  }

  /** Fail and abort all running orders. */
  failAll(code: FailureCode, message: string): void {
    this.#outbox.pending.forEach((id) => this.#outbox.fail(id, code, message));
    this.#abortAll();
  }

  /** Abort all running orders without a result: the hub that sent them is gone. */
  reset(): void {
    this.#outbox = new Outbox();
    this.#abortAll();
  }

  #abortAll(): void {
    const running = [...this.#running.values()];
    this.#running.clear();
    running.forEach((controller) => controller.abort());
  }

  async #execute({ id, order, action }: Ordered, outbox: Outbox, signal: AbortSignal): Promise<void> {
    try {
      const print: Report = (text) => outbox.addOutput(id, text);
      const wait: Report = (question) => outbox.addQuestion(id, question);
      outbox.succeed(id, await this.executor.execute(order, action, print, signal, wait));
    } catch (error) {
      outbox.fail(id, failureCode(error), errorText(error));
      this.onFailed(order, failureCode(error));
      if (failureCode(error) === "failed") {
        this.log.warn(`${order.kind} failed: ${errorText(error)}`);
      }
    }
  }
}

function failureCode(error: unknown): FailureCode {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return FAILURES.find((known) => known === code) ?? "failed";
}
