import { io, type Socket } from "socket.io-client";
import { Problem } from "./problem";
import type { Cancelled, Changed, Hello, Leaving, Ordered, Told } from "./protocol";
import type { HubApi, Identity } from "./registering";

/** How long a connection has to come about. */
const LIMIT_MS = 10_000;

/** What a hub says. */
interface FromHub {
  order: (ordered: Ordered, acknowledge?: (have: true) => void) => void;
  cancel: (cancelled: Cancelled, acknowledge?: (have: true) => void) => void;
}

type Acknowledged = (have?: unknown) => void;

/** What a window says. */
interface FromWindow {
  hello: (hello: Hello, acknowledged: Acknowledged) => void;
  told: (told: Told, acknowledged: Acknowledged) => void;
  changed: (changed: Changed, acknowledged: Acknowledged) => void;
  leaving: (leaving: Leaving, acknowledged: Acknowledged) => void;
}

/** Who hears a hub. */
export interface Hearer {
  ordered(ordered: Ordered): void;
  cancelled(id: string): void;
}

/** One connection to a hub, from when it stands until it breaks. It does not come back by itself. */
export class HubSocket {
  /** Fulfilled with the reason when the connection is no more. */
  readonly closed: Promise<string>;

  private constructor(private readonly socket: Socket<FromHub, FromWindow>) {
    this.closed = new Promise((resolve) => {
      socket.once("disconnect", (reason) => resolve(reason));
    });
  }

  /**
   * Connect.
   *
   * @throws Problem if the hub is not there or does not want this window.
   */
  static async open(api: HubApi, { id, secret }: Identity, hearer: Hearer): Promise<HubSocket> {
    const address = new URL(api.url);
    const socket: Socket<FromHub, FromWindow> = io(address.origin, {
      path: `${address.pathname.replace(/\/+$/, "")}/socket.io/`,
      transports: ["websocket"],
      auth: { id, secret },
      extraHeaders: { "X-Session-API-Key": api.key },
      forceNew: true,
      reconnection: false,
      timeout: LIMIT_MS,
    });
    socket.on("order", (ordered, acknowledge) => {
      acknowledge?.(true);
      hearer.ordered(ordered);
    });
    socket.on("cancel", (cancelled, acknowledge) => {
      acknowledge?.(true);
      hearer.cancelled(cancelled.id);
    });
    const opened = new HubSocket(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("connect_error", (error) => reject(refusal(error, api)));
    }).catch((error: unknown) => {
      socket.disconnect();
      throw error;
    });
    return opened;
  }

  /** Whether something that is said now has a chance to arrive. */
  get open(): boolean {
    return this.socket.connected;
  }

  /** Say something; fulfilled with whether the hub takes it, never if the connection breaks before. */
  async say<Event extends keyof FromWindow>(event: Event, message: Parameters<FromWindow[Event]>[0]): Promise<boolean> {
    return await new Promise((resolve) => {
      // What is said to a broken connection would be said on the next one, in the wrong order.
      if (this.socket.connected) {
        const acknowledged: Acknowledged = (have) => resolve(have === true);
        const spoken = [message, acknowledged] as unknown as Parameters<FromWindow[Event]>;
        this.socket.emit(event, ...spoken);
      }
    });
  }

  /** End the connection. */
  close(): void {
    this.socket.disconnect();
  }
}

function refusal(error: Error, api: HubApi): Problem {
  if (error.message === "unknown_window" || error.message === "wrong_secret") {
    return new Problem("unknown_window", "The hub does not know this window any more.");
  }
  const description: unknown = "description" in error ? error.description : undefined;
  const why =
    typeof description === "object" && description !== null && "message" in description
      ? String(description.message)
      : error.message;
  if (/\b40[13]\b/.test(why)) {
    return new Problem("wrong_key", `The hub does not accept the key (${api.url}).`, ["setKey", "retry", "showLog"]);
  }
  return new Problem("absent", `The hub at ${api.url} does not answer (${why}).`, ["retry", "openSettings", "showLog"]);
}
