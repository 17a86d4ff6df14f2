import type { Log } from "../activity/log";
import type { HubApi } from "./api";
import { errorText, Problem } from "../problem";
import type { Registered } from "../protocol";
import { withTimeout } from "../timing";

/** How long the main thread may take to answer. */
const LIMIT_MS = 5000;

/**
 * Sends heartbeats to a hub while the window's main thread answers.
 *
 * The extension host can outlive its window, connected and useless. So each heartbeat is sent only after the main
 * thread has answered (`checkMainThread`).
 */
export class HeartbeatSender {
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;
  #silent = false;

  constructor(
    private readonly api: HubApi,
    private readonly registered: Registered,
    private readonly checkMainThread: () => Promise<unknown>,
    private readonly onRefused: (problem: Problem) => void,
    private readonly log: Log,
  ) {}

  /** Start, with the first heartbeat now. */
  start(): void {
    void this.#sendNext();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  async #sendNext(): Promise<void> {
    const period = this.registered.heartbeat_seconds * 1000;
    const began = performance.now();
    const answered = await withTimeout(Math.min(period, LIMIT_MS), this.#mainThreadAnswers());
    if (this.#stopped) {
      return;
    }
    const took = performance.now() - began;
    this.#logChange(answered === true);
    if (answered) {
      await this.#send(took);
    }
    if (!this.#isStopped()) {
      this.#timer = setTimeout(() => void this.#sendNext(), Math.max(0, period - (performance.now() - began)));
    }
  }

  async #mainThreadAnswers(): Promise<boolean> {
    try {
      await this.checkMainThread();
      return true;
    } catch {
      return false;
    }
  }

  #isStopped(): boolean {
    return this.#stopped;
  }

  #logChange(answered: boolean): void {
    if (answered === this.#silent) {
      this.#silent = !answered;
      this.log.warn(answered ? "The window answers again." : "The window does not answer; no heartbeats are sent.");
    }
  }

  async #send(took: number): Promise<void> {
    try {
      await this.api.heartbeat(this.registered.id, { secret: this.registered.secret, main_thread_ms: took });
    } catch (error) {
      this.log.debug(`A heartbeat failed: ${errorText(error)}`);
      if (error instanceof Problem && !error.isTransient && !this.#stopped) {
        this.onRefused(error);
      }
    }
  }
}
