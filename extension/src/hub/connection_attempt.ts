import type { ConnectionState, HostWindow } from "./connection";
import { answers, HeartbeatSender, type HubApi, withKey } from "./api";
import { HubSocket } from "./socket";
import type { OrderDispatcher } from "./dispatcher";
import { errorText, Problem, toProblem } from "../problem";
import type { Changed, Registered } from "../protocol";
import type { HubIdentity } from "./reload_state";
import { Backoff, withTimeout } from "../timing";

/** After a connection that lasted this long, the delays between attempts start from the shortest again. */
const STABLE_MS = 5000;
/** How long a hub may take to acknowledge a message. */
const ACKNOWLEDGE_MS = 10_000;
/** How long it may take to notify the hub that the window leaves. */
const LEAVE_MS = 1500;

/** Connects to a hub and reconnects, from when the user connects until the connection is ended. */
export class ConnectionAttempt {
  readonly backoff = new Backoff();
  #stopped = false;
  #api: HubApi | undefined;
  #registered: Registered | undefined;
  #socket: HubSocket | undefined;
  /** Whether to retry while there is no hub. */
  #patient: boolean;
  /** When the window's main thread is known to have been alive: it has just requested this connection. */
  #alive = Date.now();

  constructor(
    private readonly window: HostWindow,
    private readonly dispatcher: OrderDispatcher,
    private previous: HubIdentity | undefined,
    private readonly setState: (state: ConnectionState) => void,
  ) {
    this.#patient = previous !== undefined;
  }

  /** Connect, and reconnect after each break. Resolves when stopped; rejects with what a retry cannot help. */
  async run(): Promise<void> {
    while (!this.#stopped) {
      const began = Date.now();
      const why = await this.#connectOnce().catch((error: unknown) => this.#handleProblem(toProblem(error)));
      if (this.#isStopped()) {
        return;
      }
      if (Date.now() - began > STABLE_MS) {
        this.backoff.reset();
      }
      this.window.log.info(`Not connected: ${why}`);
      this.setState({ name: "connecting", why });
      await this.backoff.wait();
    }
  }

  /** Stop, and notify the hub that the window leaves: by the socket if it is open, else by HTTP. */
  async leave(reason: string): Promise<void> {
    const [api, registered, socket] = [this.#api, this.#registered, this.#socket];
    this.#stopped = true;
    this.backoff.wake();
    let taken: boolean | undefined;
    if (socket?.open) {
      taken = await withTimeout(LEAVE_MS, this.#sendLeaving(socket, reason));
    }
    socket?.close();
    if (!taken && api && registered) {
      await withTimeout(LEAVE_MS, api.unregister(registered)).catch((error: unknown) => {
        this.window.log.debug(`The hub was not notified that this window leaves: ${errorText(error)}`);
      });
    }
  }

  async #sendLeaving(socket: HubSocket, reason: string): Promise<boolean> {
    await this.dispatcher.outbox.waitUntilEmpty();
    return await socket.send("leaving", { reason });
  }

  /** Stop because the window closes, and notify the hub, which waits: VS Code does not say whether it is reloaded. */
  async suspend(): Promise<void> {
    const socket = this.#socket;
    this.#stopped = true;
    this.backoff.wake();
    if (socket?.open) {
      await withTimeout(LEAVE_MS, socket.send("leaving", { reason: "The window closes.", returns: true }));
    }
    socket?.close();
  }

  sendChange(): void {
    if (this.#socket?.open && this.#registered) {
      void this.#socket.send("changed", this.#properties());
      this.#showConnected();
    }
  }

  // `#stopped` changes while something is awaited, which the compiler does not see.
  #isStopped(): boolean {
    return this.#stopped;
  }

  /** Connect, and wait until the connection breaks. Returns why there is none. */
  async #connectOnce(): Promise<string> {
    const { api, registered } = await this.#register();
    if (this.#stopped) {
      return "stopped";
    }
    const socket = await HubSocket.open(api, registered, this.dispatcher);
    if (this.#isStopped()) {
      socket.close();
      return "stopped";
    }
    this.#socket = socket;
    let refused: Problem | undefined;
    const heartbeat = new HeartbeatSender(
      api,
      registered,
      () => this.#checkMainThread(),
      (problem) => {
        refused = problem;
        socket.close();
      },
      this.window.log,
    );
    try {
      await this.#sendHello(socket);
      heartbeat.start();
      const why = await socket.closed;
      if (refused) {
        throw refused;
      }
      return `the connection broke (${why}).`;
    } finally {
      heartbeat.stop();
      this.dispatcher.outbox.disconnect();
      socket.close();
      this.#socket = undefined;
    }
  }

  async #checkMainThread(): Promise<void> {
    const alive = Date.now();
    await this.window.syncWithMainThread();
    this.#alive = alive;
    this.#saveIdentity();
  }

  /** Save the identity, unless the user has disconnected in the meantime. */
  #saveIdentity(): void {
    if (this.#api && this.#registered && !this.#stopped) {
      this.window.saveIdentity({ ...this.#registered, url: this.#api.url }, this.#alive);
    }
  }

  async #sendHello(socket: HubSocket): Promise<void> {
    const hello = socket.send("hello", { orders: this.dispatcher.outbox.orders, ...this.#properties() });
    const taken = await withTimeout(ACKNOWLEDGE_MS, Promise.race([hello, socket.closed]));
    if (taken === undefined) {
      throw new Problem("absent", "The hub does not answer.");
    }
    if (taken === false) {
      throw new Problem("refused", "The hub does not understand this window's messages; one of them may be too old.");
    }
    this.#patient = true;
    this.#saveIdentity();
    if (socket.open) {
      this.dispatcher.outbox.connect((message, acknowledged) => {
        void socket.send("told", message).then((taken) => taken && acknowledged());
      });
      this.#showConnected();
    }
  }

  #showConnected(): void {
    if (this.#api && this.#registered && !this.#stopped) {
      const name = this.dispatcher.paused ? "paused" : "connected";
      this.setState({ name, url: this.#api.url, id: this.#registered.id });
    }
  }

  /** Register with the hub, unless the last registration is still good. */
  async #register(): Promise<{ api: HubApi; registered: Registered }> {
    const hub = await this.window.hub();
    if (this.#api?.url === hub.url && hub.keys.includes(this.#api.key) && this.#registered) {
      return { api: this.#api, registered: this.#registered };
    }
    const previous = this.#registered && this.#api ? { ...this.#registered, url: this.#api.url } : this.previous;
    const known = previous?.url === hub.url ? previous : undefined;
    await this.#checkIsWindow();
    const { api, registered } = await withKey(hub, async (api) => ({
      api,
      registered: await api.register(this.window.registration(), known),
    }));
    if (registered.id !== previous?.id) {
      this.dispatcher.reset();
    }
    this.window.log.info(`Registered with the hub at ${api.url} as ${registered.id}.`);
    this.#api = api;
    this.#registered = registered;
    return { api, registered };
  }

  /**
   * Check that the main thread answers before the window registers by itself.
   *
   * An extension host can outlive its window. When the reloaded window has taken over its id, it must not register as
   * another window.
   */
  async #checkIsWindow(): Promise<void> {
    if (this.#patient && !(await answers(() => this.window.syncWithMainThread()))) {
      throw new Problem("absent", "The window does not answer.");
    }
  }

  /** Decide whether to retry: returns the reason to show meanwhile, or throws what a retry cannot help. */
  #handleProblem(problem: Problem): string {
    if (problem.kind === "unknown_window") {
      this.#registered = undefined;
      this.previous = undefined;
    } else if (problem.kind === "wrong_key" && this.#registered && this.#api) {
      // The hub may have a new key, which is in its file.
      this.previous = { ...this.#registered, url: this.#api.url };
      this.#registered = undefined;
    } else if (!problem.isTransient || !this.#patient) {
      throw problem;
    }
    return problem.message;
  }

  /** The properties of the window that can change while it is connected. */
  #properties(): Changed {
    const { trusted = true, folders } = this.window.registration();
    return { paused: this.dispatcher.paused, trusted, folders };
  }
}
