import type { Log } from "../activity/log";
import { ConnectionAttempt } from "./connection_attempt";
import type { Hub } from "./address_file";
import type { OrderDispatcher } from "./dispatcher";
import { type Problem, toProblem } from "../problem";
import type { Registration } from "../protocol";
import type { HubIdentity } from "./reload_state";

/** The state of the connection, as the user sees it. */
export type ConnectionState =
  | { name: "disconnected" }
  | { name: "connecting"; why: string }
  | { name: "connected" | "paused"; url: string; id: string }
  | { name: "error"; problem: Problem };

/** What a connection needs from the window. */
export interface HostWindow {
  readonly log: Log;
  /** The hub to connect to; settings and files may have changed since the last call. */
  hub(): Promise<Hub>;
  /** The current description of the window. */
  registration(): Registration;
  /** Resolves when the window's main thread has answered. */
  syncWithMainThread(): Promise<unknown>;
  /** Save the identity for a reload of the window; `alive` is when its main thread is known to have been alive. */
  saveIdentity(identity: HubIdentity, alive: number): void;
  /** Remove the saved identity: the window is not to be connected any more. */
  clearIdentity(): void;
  /** Show the state of the connection. */
  showState(state: ConnectionState): void;
}

/** The window's connection to a hub: at most one, which reconnects by itself until the user ends it. */
export class Connection {
  #state: ConnectionState = { name: "disconnected" };
  #attempt: ConnectionAttempt | undefined;

  constructor(
    private readonly window: HostWindow,
    private readonly dispatcher: OrderDispatcher,
  ) {}

  get state(): ConnectionState {
    return this.#state;
  }

  /** Whether the window is connected or tries to connect. */
  get active(): boolean {
    return this.#attempt !== undefined;
  }

  /** Connect, unless the window is connected or connecting; with its identity from before, if the hub still knows it. */
  connect(identity?: HubIdentity): void {
    if (this.#attempt) {
      this.#attempt.backoff.wake();
      return;
    }
    const attempt = new ConnectionAttempt(this.window, this.dispatcher, identity, (state) => {
      if (this.#attempt === attempt) {
        this.#setState(state);
      }
    });
    this.#attempt = attempt;
    this.#setState({ name: "connecting", why: "" });
    void attempt.run().catch((error: unknown) => {
      if (this.#attempt === attempt) {
        this.#attempt = undefined;
        this.window.clearIdentity();
        this.dispatcher.failAll("disconnected", "The window's connection to the hub has failed.");
        this.#setState({ name: "error", problem: toProblem(error) });
      }
    });
  }

  /** End the connection for the user: running orders fail, and the hub is notified. */
  async disconnect(): Promise<void> {
    const attempt = this.#attempt;
    this.#attempt = undefined;
    this.window.clearIdentity();
    this.dispatcher.failAll("disconnected", "The user has disconnected this window.");
    this.#setState({ name: "disconnected" });
    await attempt?.leave("The user has disconnected this window.");
    if (!this.active) {
      this.dispatcher.reset();
      this.dispatcher.resume();
    }
  }

  /** Refuse orders until `resume`; the window stays connected. */
  pause(): void {
    this.dispatcher.pause();
    this.sendChange();
  }

  resume(): void {
    this.dispatcher.resume();
    this.sendChange();
  }

  /** Send the hub the properties of the window that can change. */
  sendChange(): void {
    this.#attempt?.sendChange();
  }

  /** End the connection because the window closes; it may come back in a moment. */
  async suspend(): Promise<void> {
    const attempt = this.#attempt;
    this.#attempt = undefined;
    await attempt?.suspend();
  }

  #setState(state: ConnectionState): void {
    this.#state = state;
    this.window.showState(state);
  }
}
