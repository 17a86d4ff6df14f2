import type { Log } from "./log";
import { Problem, said } from "./problem";
import type { HubApi } from "./registering";
import type { Registered } from "./protocol";
import { within } from "./waiting";

/** The longest that the main thread may take for an answer. */
const LIMIT_MS = 5000;

/**
 * Tells a hub again and again that the window's main thread answers.
 *
 * The process that extensions run in can outlive its window, connected and useless. So nothing is told unless
 * the window has just done something (`prove`).
 */
export class Heart {
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;
  #silent = false;

  constructor(
    private readonly api: HubApi,
    private readonly registered: Registered,
    private readonly prove: () => Promise<unknown>,
    private readonly refused: (problem: Problem) => void,
    private readonly log: Log,
  ) {}

  /** Begin, with the first beat now. */
  start(): void {
    void this.#beat();
  }

  /** No more beats. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  async #beat(): Promise<void> {
    const period = this.registered.heartbeat_seconds * 1000;
    const began = performance.now();
    const answered = await within(Math.min(period, LIMIT_MS), this.#proved());
    if (this.#stopped) {
      return;
    }
    const took = performance.now() - began;
    this.#note(answered === true);
    if (answered) {
      await this.#tell(took);
    }
    if (!this.#isStopped()) {
      this.#timer = setTimeout(() => void this.#beat(), Math.max(0, period - (performance.now() - began)));
    }
  }

  async #proved(): Promise<boolean> {
    try {
      await this.prove();
      return true;
    } catch {
      return false;
    }
  }

  #isStopped(): boolean {
    return this.#stopped;
  }

  #note(answered: boolean): void {
    if (answered === this.#silent) {
      this.#silent = !answered;
      this.log.warn(answered ? "The window answers again." : "The window does not answer; the hub is not told otherwise.");
    }
  }

  async #tell(took: number): Promise<void> {
    try {
      await this.api.heartbeat(this.registered.id, { secret: this.registered.secret, main_thread_ms: took });
    } catch (error) {
      this.log.debug(`A heartbeat was not taken: ${said(error)}`);
      if (error instanceof Problem && !error.passing && !this.#stopped) {
        this.refused(error);
      }
    }
  }
}
