import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import type { Run } from "../../src/protocol";
import { FakeHub } from "../support/hub";
import { FakeWindow, until } from "../support/window";

const RUN: Run = { kind: "run", session: "main", command: "true", cwd: "" };

let hub: FakeHub;
let window: FakeWindow;

beforeEach(async () => {
  hub = new FakeHub();
  await hub.start();
  window = new FakeWindow({ url: hub.url, keys: ["right"] });
});

afterEach(async () => {
  await window.connection.suspend();
  await hub.stop();
});

async function connect(): Promise<void> {
  window.connection.connect();
  await until("a connection", () => window.state === "connected");
}

function problem(): { kind: string; message: string } {
  const { state } = window.connection;
  assert.ok(state.name === "error", state.name);
  return { kind: state.problem.kind, message: state.problem.message };
}

test("nothing is sent before the user connects", () => {
  assert.equal(window.state, "disconnected");
  assert.deepEqual(hub.registrations, []);
});

test("several calls of connect make one connection", async () => {
  window.connection.connect();
  window.connection.connect();
  await connect();
  window.connection.connect();
  await until("a heartbeat", () => hub.heartbeats > 0);
  assert.equal(hub.registrations.length, 1);
  assert.equal(hub.hellos.length, 1);
  assert.deepEqual(hub.hellos[0], { orders: [], paused: false, trusted: true, folders: window.folders });
});

test("an order is executed, and its output and result are sent", async () => {
  await connect();
  assert.equal(await hub.order("o", RUN), true);
  window.executor.print("hello");
  window.executor.finish();
  await until("its messages", () => hub.messagesOf("o").length === 2);
  assert.deepEqual(hub.messagesOf("o"), [
    { kind: "printed", id: "o", number: 1, text: "hello" },
    { kind: "succeeded", id: "o", number: 2, answer: { kind: "done" } },
  ]);
});

test("bytes arrive unchanged", async () => {
  await connect();
  await hub.order("o", { kind: "read", path: "/a/b", offset: 0, length: 9 });
  window.executor.finish({ kind: "content", data: new Uint8Array([0, 255, 10]).subarray(1), size: 2 });
  await until("its messages", () => hub.messagesOf("o").length === 1);
  const [message] = hub.messagesOf("o");
  assert.ok(message?.kind === "succeeded" && message.answer.kind === "content");
  assert.deepEqual([...message.answer.data], [255, 10]);
});

test("a broken connection loses nothing and repeats nothing", async () => {
  await connect();
  await hub.order("o", RUN);
  hub.acknowledges = false;
  window.executor.print("one");
  await until("the first message", () => hub.messages.length === 1);
  hub.breakConnection();
  await until("a broken connection", () => window.state === "connecting");
  window.executor.print("two");
  window.executor.finish();
  hub.acknowledges = true;
  await until("a new connection", () => window.state === "connected");
  await hub.order("o", RUN);
  await until("all messages", () => hub.messagesOf("o").length === 3);
  assert.deepEqual(hub.hellos[1]?.orders, ["o"]);
  assert.equal(window.executor.orders.length, 1);
  assert.equal(hub.registrations.length, 1);
  assert.deepEqual(
    hub.messagesOf("o").map((message) => (message.kind === "printed" ? message.text : message.kind)),
    ["one", "two", "succeeded"],
  );
});

test("a window reconnects with the same id to a restarted hub that knows it", async () => {
  await connect();
  await hub.stop();
  await until("a broken connection", () => window.state === "connecting");
  await hub.start();
  await until("a new connection", () => window.state === "connected");
  assert.equal(hub.registrations.length, 1);
  assert.equal(window.identity?.id, "w1");
});

test("a window that the hub has forgotten registers again, and its old orders are aborted", async () => {
  await connect();
  await hub.order("o", RUN);
  hub.windows.clear();
  hub.breakConnection();
  await until("a new connection", () => hub.hellos.length === 2);
  assert.deepEqual(hub.hellos[1]?.orders, []);
  assert.equal(hub.registrations.length, 2);
  assert.equal(hub.registrations[1]?.id, undefined);
  assert.equal(window.executor.aborted.length, 1);
});

test("a reloaded window registers with its identity", async () => {
  hub.windows.set("old", "its secret");
  window.connection.connect({ id: "old", secret: "its secret", url: hub.url });
  await until("a connection", () => window.state === "connected");
  assert.equal(hub.registrations[0]?.id, "old");
  assert.ok(window.connection.state.name === "connected" && window.connection.state.id === "old");
});

test("a window that closes says that it may come back, and is not unregistered", async () => {
  await connect();
  await window.connection.suspend();
  assert.deepEqual(hub.events.at(-1), ["leaving", { reason: "The window closes.", returns: true }]);
  assert.deepEqual(hub.unregistered, []);
  assert.equal(window.identity?.id, "w1");
});

test("an extension host without its window does not register again when it was taken over", async () => {
  await connect();
  window.answers = false;
  hub.windows.clear();
  hub.breakConnection();
  await until("a refusal", () => window.states.at(-1)?.name === "connecting");
  const calls = window.calls;
  await until("a call of the main thread", () => window.calls > calls + 1, 30_000);
  assert.equal(hub.registrations.length, 1);
  window.answers = true;
  window.answerLate();
  await until("a new connection", () => window.state === "connected", 30_000);
  assert.equal(hub.registrations.length, 2);
});

test("an identity is not sent to another hub", async () => {
  window.connection.connect({ id: "old", secret: "its secret", url: "http://elsewhere" });
  await until("a connection", () => window.state === "connected");
  assert.equal(hub.registrations[0]?.id, undefined);
});

test("an absent hub is a problem with a hint how to start one, and a retry works", async () => {
  await hub.stop();
  window.connection.connect();
  await until("an error", () => window.state === "error");
  assert.equal(problem().kind, "absent");
  assert.match(problem().message, /glovebox hub/);
  await hub.start();
  await connect();
});

test("a wrong key is a problem, unless the second key is right", async () => {
  window.hubConfig.keys = ["wrong"];
  window.connection.connect();
  await until("an error", () => window.state === "error");
  assert.equal(problem().kind, "wrong_key");
  window.hubConfig.keys = ["wrong", "right"];
  await connect();
});

test("a window reconnects with the same id to a hub whose file has a new key", async () => {
  await connect();
  hub.key = "new";
  window.hubConfig.keys = ["new"];
  hub.breakConnection();
  await until("a new connection", () => hub.hellos.length === 2);
  assert.equal(hub.registrations[1]?.id, "w1");
});

test("a hub with an unknown new key is an error", async () => {
  await connect();
  hub.key = "new";
  await until("an error", () => window.state === "error");
  assert.equal(problem().kind, "wrong_key");
});

test("a pause refuses running and new orders until it ends", async () => {
  await connect();
  await hub.order("o", RUN);
  window.connection.pause();
  await until("a pause", () => window.state === "paused");
  await hub.order("p", RUN);
  await until("both results", () => hub.messagesOf("o").length === 1 && hub.messagesOf("p").length === 1);
  for (const id of ["o", "p"]) {
    const [message] = hub.messagesOf(id);
    assert.ok(message?.kind === "failed" && message.code === "paused");
  }
  window.connection.resume();
  await until("the end of the pause", () => window.state === "connected");
  await hub.order("q", RUN);
  assert.equal(window.executor.orders.length, 2);
  assert.deepEqual(
    hub.events.filter(([event]) => event === "changed").map(([, message]) => (message as { paused: boolean }).paused),
    [true, false],
  );
});

test("disconnecting fails running orders with that reason, and notifies the hub", async () => {
  await connect();
  await hub.order("o", RUN);
  await window.connection.disconnect();
  assert.equal(window.state, "disconnected");
  const [message] = hub.messagesOf("o");
  assert.ok(message?.kind === "failed" && message.code === "disconnected");
  assert.deepEqual(
    hub.events.map(([event]) => event),
    ["hello", "told", "leaving"],
  );
  assert.deepEqual(hub.unregistered, []);
  assert.equal(window.identity, undefined);
  assert.equal(window.executor.aborted.length, 1);
});

test("the identity is saved as soon as the window is connected", async () => {
  window.answers = false;
  await connect();
  assert.equal(window.identity?.id, "w1");
});

test("a late answer of the main thread does not save the identity of a disconnected window", async () => {
  await connect();
  await until("a heartbeat", () => hub.heartbeats > 0);
  window.answers = false;
  const calls = window.calls;
  await until("a call of the main thread", () => window.calls > calls);
  const leaving = window.connection.disconnect();
  window.answerLate();
  await leaving;
  assert.equal(window.identity, undefined);
});

test("a hub that does not acknowledge is notified by HTTP that the window leaves", async () => {
  await connect();
  await hub.order("o", RUN);
  hub.acknowledges = false;
  await window.connection.disconnect();
  assert.deepEqual(hub.unregistered, ["w1"]);
});

test("disconnecting ends the attempts to reach an absent hub", async () => {
  await connect();
  await hub.stop();
  await until("a broken connection", () => window.state === "connecting");
  await window.connection.disconnect();
  assert.equal(window.state, "disconnected");
  assert.equal(window.connection.active, false);
});

test("a cancelled order is aborted, and nothing is sent about it", async () => {
  await connect();
  await hub.order("o", RUN);
  hub.cancel("o");
  await until("its end", () => window.executor.aborted.length === 1);
  await hub.order("p", RUN);
  window.executor.finish();
  await until("the next result", () => hub.messagesOf("p").length === 1);
  assert.deepEqual(hub.messagesOf("o"), []);
});

test("a window sends no heartbeats while its main thread does not answer", async () => {
  await connect();
  await until("a heartbeat", () => hub.heartbeats > 1);
  window.answers = false;
  const calls = window.calls;
  await until("a call without an answer", () => window.calls > calls + 1);
  const heartbeats = hub.heartbeats;
  await until("more calls without an answer", () => window.calls > calls + 4);
  assert.equal(hub.heartbeats, heartbeats);
  assert.equal(window.state, "connected");
  window.answers = true;
  await until("more heartbeats", () => hub.heartbeats > heartbeats);
});
