import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Server, type Socket } from "socket.io";
import type { Hello, Order, Registration, Told } from "../../src/protocol";

/** A hub that does as little as windows need, and as badly as a test wants. */
export class SmallHub {
  readonly registrations: { registration: Registration; shown: string | undefined }[] = [];
  readonly hellos: Hello[] = [];
  readonly told: Told[] = [];
  readonly said: [string, unknown][] = [];
  beats = 0;
  unregistered: string[] = [];
  key = "right";
  /** Windows it knows: their secrets by their ids. */
  windows = new Map<string, string>();
  acknowledges = true;
  #count = 0;
  #http: HttpServer | undefined;
  #io: Server | undefined;
  #socket: Socket | undefined;
  #port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Serve, on the port of the last time. */
  async start(): Promise<void> {
    const http = createServer((request, response) => void this.#answer(request, response));
    this.#http = http;
    this.#io = new Server(http, { transports: ["websocket"] });
    this.#io.use((socket, next) => {
      const { id, secret } = socket.handshake.auth as { id: string; secret: string };
      const known = this.windows.get(id);
      next(known === undefined ? new Error("unknown_window") : known === secret ? undefined : new Error("wrong_secret"));
    });
    this.#io.on("connection", (socket) => this.#welcome(socket));
    await new Promise<void>((resolve) => http.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (http.address() as AddressInfo).port;
  }

  /** Be gone, as after a crash. */
  async stop(): Promise<void> {
    await this.#io?.close();
    this.#http?.closeAllConnections();
    this.#io = undefined;
  }

  /** Break the connection without a word. */
  cut(): void {
    this.#socket?.conn.close();
  }

  /** Give an order; fulfilled when the window has it. */
  async order(id: string, order: Order): Promise<unknown> {
    return await this.#socket?.emitWithAck("order", { id, order });
  }

  cancel(id: string): void {
    this.#socket?.emit("cancel", { id });
  }

  /** What was told of an order, each number once. */
  toldOf(id: string): Told[] {
    const byNumber = new Map(this.told.filter((told) => told.id === id).map((told) => [told.number, told]));
    return [...byNumber.values()].sort((a, b) => a.number - b.number);
  }

  #welcome(socket: Socket): void {
    this.#socket = socket;
    socket.onAny((event: string, message: unknown, acknowledge?: (have: true) => void) => {
      this.said.push([event, message]);
      if (event === "hello") {
        this.hellos.push(message as Hello);
      }
      if (event === "told") {
        this.told.push(message as Told);
      }
      if (this.acknowledges || event !== "told") {
        acknowledge?.(true);
      }
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
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
      send(200, this.#registered(JSON.parse(body) as Registration, request.headers["x-window-id"]?.toString()));
    } else if (request.url?.startsWith("/api/vscode/heartbeat/")) {
      this.beats += 1;
      send(200, {});
    } else if (request.url?.startsWith("/api/vscode/unregister/")) {
      this.unregistered.push(request.url.split("/").at(-1) ?? "");
      send(200, {});
    } else {
      send(404, { detail: "Not Found" });
    }
  }

  #registered(registration: Registration, shown: string | undefined): object {
    this.registrations.push({ registration, shown });
    const id = shown !== undefined && this.windows.has(shown) ? shown : `w${++this.#count}`;
    const secret = this.windows.get(id) ?? `secret of ${id}`;
    this.windows.set(id, secret);
    return { id, secret, heartbeat_seconds: 0.05, grace_seconds: 5 };
  }
}
