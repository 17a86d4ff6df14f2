import type { Desk } from "./desk";
import { Heart } from "./heartbeat";
import type { Hub } from "./hub_file";
import { asProblem, Problem, said } from "./problem";
import type { Changed, Registered, Registration } from "./protocol";
import { HubApi, type Identity } from "./registering";
import { HubSocket } from "./socket";
import { Pauses, within } from "./waiting";
import type { HubIdentity } from "./reload_state";
import type { State, World } from "./world";

/** A connection that lasted so long was a good one: the next break is a new one. */
const GOOD_MS = 5000;
/** How long a hub has for taking note of something. */
const NOTE_MS = 10_000;
/** How long the last words may take. */
const LEAVE_MS = 1500;

/** Everything between the wish to be connected and the end of that wish. */
export class Attempt {
  readonly pauses = new Pauses();
  #stopped = false;
  #api: HubApi | undefined;
  #registered: Registered | undefined;
  #socket: HubSocket | undefined;
  /** Whether a hub that is not there is waited for. */
  #patient: boolean;
  /** When the window's main thread is known to have been alive: it has just asked for the connection. */
  #alive = Date.now();

  constructor(
    private readonly world: World,
    private readonly desk: Desk,
    private before: HubIdentity | undefined,
    private readonly become: (state: State) => void,
  ) {
    this.#patient = before !== undefined;
  }

  /** Connect, again and again. Fulfilled when it was stopped. */
  async run(): Promise<void> {
    while (!this.#stopped) {
      const began = Date.now();
      const why = await this.#once().catch((error: unknown) => this.#judge(asProblem(error)));
      if (this.#isStopped()) {
        return;
      }
      if (Date.now() - began > GOOD_MS) {
        this.pauses.reset();
      }
      this.world.log.info(`Not connected: ${why}`);
      this.become({ name: "connecting", why });
      await this.pauses.pass();
    }
  }

  /** Say goodbye, as far as there is a connection, and stop. */
  async leave(reason: string): Promise<void> {
    const [api, registered, socket] = [this.#api, this.#registered, this.#socket];
    this.#stopped = true;
    this.pauses.wake();
    let taken: boolean | undefined;
    if (socket?.open) {
      taken = await within(LEAVE_MS, this.#lastWords(socket, reason));
    }
    this.stop();
    if (!taken && api && registered) {
      await within(LEAVE_MS, api.unregister(registered)).catch((error: unknown) => {
        this.world.log.debug(`The hub was not told that this window leaves: ${said(error)}`);
      });
    }
  }

  async #lastWords(socket: HubSocket, reason: string): Promise<boolean> {
    await this.desk.outbox.emptied();
    return await socket.say("leaving", { reason });
  }

  /** Break off. */
  stop(): void {
    this.#stopped = true;
    this.pauses.wake();
    this.#socket?.close();
  }

  tellChange(): void {
    if (this.#socket?.open && this.#registered) {
      void this.#socket.say("changed", this.#situation());
      this.#announce();
    }
  }

  // Stopping happens while something is awaited, which the compiler does not see.
  #isStopped(): boolean {
    return this.#stopped;
  }

  async #once(): Promise<string> {
    const { api, registered } = await this.#introduced();
    if (this.#stopped) {
      return "stopped";
    }
    const socket = await HubSocket.open(api, registered, this.desk);
    if (this.#isStopped()) {
      socket.close();
      return "stopped";
    }
    this.#socket = socket;
    let refused: Problem | undefined;
    const heart = new Heart(
      api,
      registered,
      async () => {
        const alive = Date.now();
        await this.world.prove();
        this.#alive = alive;
        this.#save();
      },
      (problem) => {
        refused = problem;
        socket.close();
      },
      this.world.log,
    );
    try {
      await this.#greet(socket);
      heart.start();
      const why = await socket.closed;
      if (refused) {
        throw refused;
      }
      return `the connection broke (${why}).`;
    } finally {
      heart.stop();
      this.desk.outbox.disconnected();
      socket.close();
      this.#socket = undefined;
    }
  }

  /** Save the identity, unless the user has disconnected meanwhile. */
  #save(): void {
    if (this.#api && this.#registered && !this.#stopped) {
      this.world.saveIdentity({ ...this.#registered, url: this.#api.url }, this.#alive);
    }
  }

  async #greet(socket: HubSocket): Promise<void> {
    const hello = socket.say("hello", { orders: this.desk.outbox.orders, ...this.#situation() });
    const taken = await within(NOTE_MS, Promise.race([hello, socket.closed]));
    if (taken === undefined) {
      throw new Problem("absent", "The hub does not answer.");
    }
    if (taken === false) {
      throw new Problem("refused", "The hub does not understand what this window says; one of them may be too old.");
    }
    this.#patient = true;
    this.#save();
    if (socket.open) {
      this.desk.outbox.connected((told, acknowledged) => {
        void socket.say("told", told).then((taken) => taken && acknowledged());
      });
      this.#announce();
    }
  }

  #announce(): void {
    if (this.#api && this.#registered && !this.#stopped) {
      const name = this.desk.paused ? "paused" : "connected";
      this.become({ name, url: this.#api.url, id: this.#registered.id });
    }
  }

  /** The hub, and what it calls this window. */
  async #introduced(): Promise<{ api: HubApi; registered: Registered }> {
    const hub = await this.world.hub();
    if (this.#api?.url === hub.url && hub.keys.includes(this.#api.key) && this.#registered) {
      return { api: this.#api, registered: this.#registered };
    }
    const before = this.#registered && this.#api ? { ...this.#registered, url: this.#api.url } : this.before;
    const known = before?.url === hub.url ? before : undefined;
    const { api, registered } = await register(hub, this.world.registration(), known);
    if (registered.id !== before?.id) {
      this.desk.reset();
    }
    this.world.log.info(`Registered with the hub at ${api.url} as ${registered.id}.`);
    this.#api = api;
    this.#registered = registered;
    return { api, registered };
  }

  /** Whether to go on trying, and if so what the user should know meanwhile. */
  #judge(problem: Problem): string {
    if (problem.kind === "unknown_window") {
      this.#registered = undefined;
      this.before = undefined;
    } else if (problem.kind === "wrong_key" && this.#registered && this.#api) {
      // The hub may have another key now, which its file tells.
      this.before = { ...this.#registered, url: this.#api.url };
      this.#registered = undefined;
    } else if (!problem.passing || !this.#patient) {
      throw problem;
    }
    return problem.message;
  }

  #situation(): Changed {
    const { trusted = true, folders } = this.world.registration();
    return { paused: this.desk.paused, trusted, folders };
  }
}

/** Register with the first key that the hub accepts. */
async function register(
  hub: Hub,
  registration: Registration,
  before: Identity | undefined,
): Promise<{ api: HubApi; registered: Registered }> {
  let refused: unknown;
  for (const key of hub.keys.length ? hub.keys : [""]) {
    const api = new HubApi(hub.url, key);
    try {
      return { api, registered: await api.register(registration, before) };
    } catch (error) {
      if (!(error instanceof Problem && error.kind === "wrong_key")) {
        throw error;
      }
      refused = error;
    }
  }
  throw refused;
}
