import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Server, type Socket } from "socket.io";
import type { Hello, Order, Registration, Told } from "../../src/protocol";

/** A minimal hub, with faults that a test can switch on. */
export class FakeHub {
  readonly registrations: { registration: Registration; id: string | undefined }[] = [];
  readonly hellos: Hello[] = [];
  readonly messages: Told[] = [];
  readonly events: [string, unknown][] = [];
  heartbeats = 0;
  unregistered: string[] = [];
  key = "right";
  /** The secrets of the registered windows by their ids. */
  windows = new Map<string, string>();
  /** Whether it acknowledges output and results. */
  acknowledges = true;
  #count = 0;
  #http: HttpServer | undefined;
  #io: Server | undefined;
  #socket: Socket | undefined;
  #port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Serve on the same port as the last time. */
  async start(): Promise<void> {
    const http = createServer((request, response) => void this.#respond(request, response));
    this.#http = http;
    this.#io = new Server(http, { transports: ["websocket"] });
    this.#io.use((socket, next) => {
      const { id, secret } = socket.handshake.auth as { id: string; secret: string };
      const known = this.windows.get(id);
      next(known === undefined ? new Error("unknown_window") : known === secret ? undefined : new Error("wrong_secret"));
    });
    this.#io.on("connection", (socket) => this.#accept(socket));
    await new Promise<void>((resolve) => http.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (http.address() as AddressInfo).port;
  }

  /** Close all connections without notice, as after a crash. */
  async stop(): Promise<void> {
    await this.#io?.close();
    this.#http?.closeAllConnections();
    this.#io = undefined;
  }

  /** Break the connection without notice. */
  breakConnection(): void {
    this.#socket?.conn.close();
  }

  /** Send an order; resolves when the window has acknowledged it. */
  async order(id: string, order: Order): Promise<unknown> {
    return await this.#socket?.emitWithAck("order", { id, order });
  }

  cancel(id: string): void {
    this.#socket?.emit("cancel", { id });
  }

  /** The messages about an order, each number once. */
  messagesOf(id: string): Told[] {
    const byNumber = new Map(this.messages.filter((message) => message.id === id).map((message) => [message.number, message]));
    return [...byNumber.values()].sort((a, b) => a.number - b.number);
  }

  #accept(socket: Socket): void {
    this.#socket = socket;
    socket.onAny((event: string, message: unknown, acknowledge?: (have: true) => void) => {
      this.events.push([event, message]);
      if (event === "hello") {
        this.hellos.push(message as Hello);
      }
      if (event === "told") {
        this.messages.push(message as Told);
      }
      if (this.acknowledges || event !== "told") {
        acknowledge?.(true);
      }
    });
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const send = (status: number, body: object): void => {
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    };
    let body = "";
    for await (const piece of request) {
      body += String(piece);
    }
    if (request.headers["x-session-api-key"] !== this.key) {
      send(401, { detail: "Invalid API key" });
    } else if (request.url === "/api/vscode/register") {
      send(200, this.#register(JSON.parse(body) as Registration, request.headers["x-window-id"]?.toString()));
    } else if (request.url?.startsWith("/api/vscode/heartbeat/")) {
      this.heartbeats += 1;
      send(200, {});
    } else if (request.url?.startsWith("/api/vscode/unregister/")) {
      this.unregistered.push(request.url.split("/").at(-1) ?? "");
      send(200, {});
    } else {
      send(404, { detail: "Not Found" });
    }
  }

  #register(registration: Registration, claimed: string | undefined): object {
    this.registrations.push({ registration, id: claimed });
    const id = claimed !== undefined && this.windows.has(claimed) ? claimed : `w${++this.#count}`;
    const secret = this.windows.get(id) ?? `secret of ${id}`;
    this.windows.set(id, secret);
    return { id, secret, heartbeat_seconds: 0.05, grace_seconds: 5 };
  }
}
