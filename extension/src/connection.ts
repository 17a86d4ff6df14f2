import { Attempt } from "./attempt";
import type { Desk } from "./desk";
import { asProblem } from "./problem";
import type { HubIdentity } from "./reload_state";
import type { State, World } from "./world";

/** The window's connection to a hub: at most one, which comes back by itself until the user ends it. */
export class Connection {
  #state: State = { name: "disconnected" };
  #attempt: Attempt | undefined;

  constructor(
    private readonly world: World,
    private readonly desk: Desk,
  ) {}

  get state(): State {
    return this.#state;
  }

  /** Whether there is a connection, or one is tried for. */
  get wanted(): boolean {
    return this.#attempt !== undefined;
  }

  /** Connect, unless that is done or under way; as the window that it was before, if the hub still knows that. */
  connect(before?: HubIdentity): void {
    if (this.#attempt) {
      this.#attempt.pauses.wake();
      return;
    }
    const attempt = new Attempt(this.world, this.desk, before, (state) => {
      if (this.#attempt === attempt) {
        this.#become(state);
      }
    });
    this.#attempt = attempt;
    this.#become({ name: "connecting", why: "" });
    void attempt.run().catch((error: unknown) => {
      if (this.#attempt === attempt) {
        this.#attempt = undefined;
        this.world.clearIdentity();
        this.desk.end("disconnected", "The window's connection to the hub has failed.");
        this.#become({ name: "error", problem: asProblem(error) });
      }
    });
  }

  /** End the connection because the user wants it; what is being carried out fails, and the hub is told. */
  async disconnect(): Promise<void> {
    const attempt = this.#attempt;
    this.#attempt = undefined;
    this.world.clearIdentity();
    this.desk.end("disconnected", "The user has disconnected this window.");
    this.#become({ name: "disconnected" });
    await attempt?.leave("The user has disconnected this window.");
    if (!this.wanted) {
      this.desk.reset();
      this.desk.resume();
    }
  }

  /** Have the agent stop for now; the hub stays connected. */
  pause(): void {
    this.desk.pause();
    this.tellChange();
  }

  /** Let the agent go on. */
  resume(): void {
    this.desk.resume();
    this.tellChange();
  }

  /** The hub should know that something about the window is different. */
  tellChange(): void {
    this.#attempt?.tellChange();
  }

  /** Break off without a word: the window may come back in a moment. */
  drop(): void {
    this.#attempt?.stop();
    this.#attempt = undefined;
  }

  #become(state: State): void {
    this.#state = state;
    this.world.changed(state);
  }
}
