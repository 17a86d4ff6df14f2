import { io, type Socket } from "socket.io-client";
import { Problem } from "../problem";
import type { ActionReport, Cancelled, Changed, Hello, Leaving, Ordered, Told } from "../protocol";
import type { HubApi, Identity } from "./api";

/** How long connecting may take. */
const CONNECT_MS = 10_000;

/** The events that a hub sends. */
interface HubEvents {
  order: (ordered: Ordered, acknowledge?: (have: true) => void) => void;
  cancel: (cancelled: Cancelled, acknowledge?: (have: true) => void) => void;
  action: (report: ActionReport, acknowledge?: (have: true) => void) => void;
}

type Acknowledged = (have?: unknown) => void;

/** The events that a window sends. */
interface WindowEvents {
  hello: (hello: Hello, acknowledged: Acknowledged) => void;
  told: (told: Told, acknowledged: Acknowledged) => void;
  changed: (changed: Changed, acknowledged: Acknowledged) => void;
  leaving: (leaving: Leaving, acknowledged: Acknowledged) => void;
}

/** Receives the orders of a hub. */
export interface OrderReceiver {
  receive(ordered: Ordered): void;
  cancel(id: string): void;
  /** Show an action of the agent. */
  show(report: ActionReport): void;
}

/** One Socket.IO connection to a hub. It does not reconnect. */
export class HubSocket {
  /** Resolves with the reason when the connection has closed. */
  readonly closed: Promise<string>;

  private constructor(private readonly socket: Socket<HubEvents, WindowEvents>) {
    this.closed = new Promise((resolve) => {
      socket.once("disconnect", (reason) => resolve(reason));
    });
  }

  /**
   * Connect.
   *
   * @throws Problem if the hub does not answer or refuses this window.
   */
  static async open(api: HubApi, { id, secret }: Identity, receiver: OrderReceiver): Promise<HubSocket> {
    const address = new URL(api.url);
    const socket: Socket<HubEvents, WindowEvents> = io(address.origin, {
      path: `${address.pathname.replace(/\/+$/, "")}/socket.io/`,
      transports: ["websocket"],
      auth: { id, secret },
      extraHeaders: { "X-Session-API-Key": api.key },
      forceNew: true,
      reconnection: false,
      timeout: CONNECT_MS,
    });
    socket.on("order", (ordered, acknowledge) => {
      acknowledge?.(true);
      receiver.receive(ordered);
    });
    socket.on("cancel", (cancelled, acknowledge) => {
      acknowledge?.(true);
      receiver.cancel(cancelled.id);
    });
    socket.on("action", (report, acknowledge) => {
      acknowledge?.(true);
      receiver.show(report);
    });
    const opened = new HubSocket(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("connect_error", (error) => reject(connectProblem(error, api)));
    }).catch((error: unknown) => {
      socket.disconnect();
      throw error;
    });
    return opened;
  }

  /** Whether the connection is open, as far as this side knows. */
  get open(): boolean {
    return this.socket.connected;
  }

  /** Send an event. Resolves with whether the hub accepts it; never if the connection breaks before. */
  async send<Event extends keyof WindowEvents>(event: Event, message: Parameters<WindowEvents[Event]>[0]): Promise<boolean> {
    return await new Promise((resolve) => {
      // Socket.IO would keep an event for the next connection, where it would arrive in the wrong order.
      if (this.socket.connected) {
        const acknowledged: Acknowledged = (have) => resolve(have === true);
        const parameters = [message, acknowledged] as unknown as Parameters<WindowEvents[Event]>;
        this.socket.emit(event, ...parameters);
      }
    });
  }

  close(): void {
    this.socket.disconnect();
  }
}

function connectProblem(error: Error, api: HubApi): Problem {
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
