import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";

import { cancellation, throwIfCancelled } from "../orders/concurrency";
import { Refusal } from "../orders/refusal";
import { type BodyPiece, type FetchBody, type Forward, type Forwarded, PIECE } from "../protocol";
import type { CompanionAddress } from "./process";
import { allowedRequest, type CompanionRequest } from "./requests";

/** The most responses whose bodies are being fetched. */
const MAX_STREAMS = 100;
/** How long a body may wait for the next order to fetch it. */
const IDLE_MS = 60_000;
const EVENTS = "text/event-stream";

/** Starts and stops the companion box. */
interface Starter {
  address(): Promise<CompanionAddress>;
  stop(): void;
}

/** Forwards requests to the companion box, and keeps bodies that go on until they are fetched. */
export class Forwarder {
  readonly #streams = new Map<string, ResponseBody>();

  constructor(private readonly box: Starter) {}

  async forward(order: Forward, signal: AbortSignal): Promise<Forwarded> {
    const allowed = allowedRequest(order);
    if (this.#streams.size >= MAX_STREAMS) {
      throw new Refusal("busy", `${MAX_STREAMS} requests to the companion box are under way already.`);
    }
    const response = await send(allowed, await this.box.address(), signal);
    const { statusCode: status = 0, headers } = response;
    const body = new ResponseBody(response);
    const first = headers["content-type"]?.startsWith(EVENTS)
      ? { data: Buffer.alloc(0), last: false }
      : await body.next(PIECE, signal);
    const texts = Object.entries(headers).flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : []));
    const stream = first.last ? "" : this.#keep(body);
    return { kind: "forwarded", status, headers: Object.fromEntries(texts) as Record<string, string>, body: first.data, stream };
  }

  async fetch(order: FetchBody, signal: AbortSignal): Promise<BodyPiece> {
    const body = this.#streams.get(order.stream);
    if (order.close || !body) {
      this.#close(order.stream);
      if (!order.close) {
        throw new Refusal("no_companion", "The companion box has ended the answer, or it was not fetched in time.");
      }
      return { kind: "body_piece", data: Buffer.alloc(0), last: true };
    }
    try {
      const piece = await body.next(1, signal);
      if (piece.last) {
        this.#streams.delete(order.stream);
      }
      return { kind: "body_piece", ...piece };
    } catch (error) {
      this.#close(order.stream);
      throw error;
    }
  }

  /** End all requests, and the box. */
  stop(): void {
    [...this.#streams.keys()].forEach((id) => this.#close(id));
    this.box.stop();
  }

  #keep(body: ResponseBody): string {
    const id = randomUUID();
    this.#streams.set(id, body);
    body.onIdle(() => this.#close(id));
    return id;
  }

  #close(id: string): void {
    this.#streams.get(id)?.close();
    this.#streams.delete(id);
  }
}

/** The body of a response, of which no more is read than is asked for. */
class ResponseBody {
  #idle: NodeJS.Timeout | undefined;
  #whenIdle: () => void = () => undefined;
  #ended = false;

  constructor(private readonly response: IncomingMessage) {
    response.on("end", () => (this.#ended = true));
    response.on("error", () => undefined); // `next` reports it
  }

  /** Wait for so many bytes, or the end; at most `PIECE` of them. */
  async next(least: number, signal: AbortSignal): Promise<{ data: Buffer; last: boolean }> {
    clearTimeout(this.#idle);
    const pieces: Buffer[] = [];
    let size = 0;
    for (;;) {
      const piece = this.response.read() as Buffer | null;
      if (piece) {
        pieces.push(piece);
        size += piece.length;
      } else if (this.#ended || size >= least) {
        break;
      } else {
        await this.#more(signal);
      }
      if (size >= PIECE) {
        break;
      }
    }
    this.#idle = setTimeout(this.#whenIdle, IDLE_MS).unref();
    return { data: Buffer.concat(pieces), last: this.#ended };
  }

  onIdle(callback: () => void): void {
    this.#whenIdle = callback;
  }

  close(): void {
    clearTimeout(this.#idle);
    this.response.destroy();
  }

  async #more(signal: AbortSignal): Promise<void> {
    if (this.response.destroyed) {
      throw lost();
    }
    const done = new AbortController();
    const either = AbortSignal.any([signal, done.signal]);
    try {
      await Promise.race(["readable", "end", "close"].map((event) => once(this.response, event, { signal: either })));
    } catch {
      throwIfCancelled(signal);
      throw lost();
    } finally {
      done.abort();
    }
  }
}

async function send(asked: CompanionRequest, { port, key }: CompanionAddress, signal: AbortSignal): Promise<IncomingMessage> {
  const headers = { ...asked.headers, "x-session-api-key": key, authorization: `Bearer ${key}` };
  return await new Promise<IncomingMessage>((resolve, reject) => {
    const { method, path, body } = asked;
    const sent = request({ host: "127.0.0.1", port, method, path, headers: { ...headers, "content-length": body.length }, signal, agent: false });
    sent.once("response", resolve);
    sent.on("error", () => {
      reject(signal.aborted ? cancellation(signal) : lost());
    });
    sent.end(body);
  });
}

function lost(): Refusal {
  return new Refusal(
    "no_companion",
    "The companion box ended before it answered. The next action starts it again; variables of cells are lost.",
  );
}
