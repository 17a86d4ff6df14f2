import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";

import { Forwarder } from "../../src/companion/forward";
import { Refusal } from "../../src/orders/refusal";
import { type Forward, PIECE } from "../../src/protocol";

const KEY = "a-key";
const never = new AbortController().signal;
let answer: (request: IncomingMessage, response: ServerResponse) => void = () => undefined;
const seen: IncomingMessage[] = [];
const server = createServer((request, response) => {
  seen.push(request);
  answer(request, response);
});
server.listen(0, "127.0.0.1");
after(() => {
  server.closeAllConnections();
  server.close();
});

function forwarder(): Forwarder {
  const { port } = server.address() as AddressInfo;
  return new Forwarder({ address: () => Promise.resolve({ port, key: KEY }), stop: () => undefined });
}

function order(method: string, path: string, body = ""): Forward {
  return { kind: "forward", method, path, headers: {}, body: Buffer.from(body) };
}

async function refusal(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof Refusal, String(error));
    return error.code;
  }
  throw new Error("it was not refused");
}

test("a request gets the key of the box, and its answer comes at once", async () => {
  answer = (_, response) => response.writeHead(201, { "content-type": "application/json" }).end('{"a": 1}');
  const said = await forwarder().forward(order("POST", "/kernels", "{}"), never);
  assert.deepEqual([said.status, said.stream, Buffer.from(said.body ?? []).toString()], [201, "", '{"a": 1}']);
  assert.equal(said.headers["content-type"], "application/json");
  assert.equal(seen.at(-1)?.headers["x-session-api-key"], KEY);
  assert.equal(seen.at(-1)?.headers.authorization, `Bearer ${KEY}`);
});

test("what is not on the list never reaches the box", async () => {
  const before = seen.length;
  for (const path of ["/commands", "/mcp/box", "/kernels/../commands", "/execute_action"]) {
    assert.equal(await refusal(forwarder().forward(order("POST", path, "{}"), never)), "unsupported");
  }
  assert.equal(seen.length, before);
});

test("events are fetched piece by piece, as they come", async () => {
  let write: (text: string) => void = () => undefined;
  let end = (): void => undefined;
  answer = (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.flushHeaders();
    write = (text) => void response.write(text);
    end = () => void response.end();
  };
  const box = forwarder();
  const { stream = "" } = await box.forward(order("GET", "/mcp/sse"), never);
  assert.notEqual(stream, "");
  write("data: one\n\n");
  const first = await box.fetch({ kind: "fetch_body", stream, close: false }, never);
  assert.deepEqual([Buffer.from(first.data).toString(), first.last], ["data: one\n\n", false]);
  const waiting = box.fetch({ kind: "fetch_body", stream, close: false }, never);
  write("data: two\n\n");
  assert.equal(Buffer.from((await waiting).data).toString(), "data: two\n\n");
  end();
  assert.equal((await box.fetch({ kind: "fetch_body", stream, close: false }, never)).last, true);
  assert.equal(await refusal(box.fetch({ kind: "fetch_body", stream, close: false }, never)), "no_companion");
});

test("a body of several pieces arrives whole, and is not read ahead", async () => {
  const whole = Buffer.alloc(5 * PIECE + 17, "abc");
  answer = (_, response) => response.writeHead(200, { "content-type": "image/png" }).end(whole);
  const box = forwarder();
  const head = await box.forward(order("GET", "/browser/screenshot"), never);
  const pieces = [Buffer.from(head.body ?? [])];
  for (let last = false; !last; ) {
    const piece = await box.fetch({ kind: "fetch_body", stream: head.stream ?? "", close: false }, never);
    assert.ok(piece.data.length < 2 * PIECE);
    pieces.push(Buffer.from(piece.data));
    last = piece.last;
  }
  assert.ok(Buffer.concat(pieces).equals(whole));
});

test("a request ends when it is closed or cancelled", async () => {
  const ended: Promise<void>[] = [];
  answer = (_, response) => {
    ended.push(new Promise((resolve) => response.once("close", resolve)));
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.flushHeaders();
  };
  const box = forwarder();
  const first = await box.forward(order("GET", "/sse"), never);
  await box.fetch({ kind: "fetch_body", stream: first.stream ?? "", close: true }, never);
  const second = await box.forward(order("GET", "/sse"), never);
  const controller = new AbortController();
  const waiting = box.fetch({ kind: "fetch_body", stream: second.stream ?? "", close: false }, controller.signal);
  controller.abort(new Refusal("paused", "why"));
  assert.equal(await refusal(waiting), "paused");
  await box.forward(order("GET", "/sse"), never);
  box.stop();
  await Promise.all(ended);
});

test("a box that ends in the middle of an answer is told as such", async () => {
  answer = (request) => request.socket.destroy();
  assert.equal(await refusal(forwarder().forward(order("GET", "/kernels"), never)), "no_companion");
  answer = (request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("data: 1\n\n", () => request.socket.destroy());
  };
  const box = forwarder();
  const { stream = "" } = await box.forward(order("GET", "/sse"), never);
  const rest = async (): Promise<void> => {
    for (;;) {
      await box.fetch({ kind: "fetch_body", stream, close: false }, never);
    }
  };
  assert.equal(await refusal(rest()), "no_companion");
});
