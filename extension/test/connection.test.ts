import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import type { Run } from "../src/protocol";
import { SmallHub } from "./support/hub";
import { SmallWindow, until } from "./support/window";

const RUN: Run = { kind: "run", session: "main", command: "true", cwd: "" };

let hub: SmallHub;
let window: SmallWindow;

beforeEach(async () => {
  hub = new SmallHub();
  await hub.start();
  window = new SmallWindow({ url: hub.url, keys: ["right"] });
});

afterEach(async () => {
  window.connection.drop();
  await hub.stop();
});

async function connected(): Promise<void> {
  window.connection.connect();
  await until("it is connected", () => window.state === "connected");
}

function problem(): { kind: string; message: string } {
  const { state } = window.connection;
  assert.ok(state.name === "error", state.name);
  return { kind: state.problem.kind, message: state.problem.message };
}

test("nothing is sent before the user wants a connection", () => {
  assert.equal(window.state, "disconnected");
  assert.deepEqual(hub.registrations, []);
});

test("any number of wishes is one connection", async () => {
  window.connection.connect();
  window.connection.connect();
  await connected();
  window.connection.connect();
  await until("a heartbeat comes", () => hub.beats > 0);
  assert.equal(hub.registrations.length, 1);
  assert.equal(hub.hellos.length, 1);
  assert.deepEqual(hub.hellos[0], { orders: [], paused: false, trusted: true, folders: window.folders });
});

test("an order is carried out, and what it prints and comes to is told", async () => {
  await connected();
  assert.equal(await hub.order("o", RUN), true);
  window.hand.print("hello");
  window.hand.finish();
  await until("it is told", () => hub.toldOf("o").length === 2);
  assert.deepEqual(hub.toldOf("o"), [
    { kind: "printed", id: "o", number: 1, text: "hello" },
    { kind: "succeeded", id: "o", number: 2, answer: { kind: "done" } },
  ]);
});

test("bytes arrive as they are", async () => {
  await connected();
  await hub.order("o", { kind: "read", path: "/a/b", offset: 0, length: 9 });
  window.hand.finish({ kind: "content", data: new Uint8Array([0, 255, 10]).subarray(1), size: 2 });
  await until("it is told", () => hub.toldOf("o").length === 1);
  const [told] = hub.toldOf("o");
  assert.ok(told?.kind === "succeeded" && told.answer.kind === "content");
  assert.deepEqual([...told.answer.data], [255, 10]);
});

test("a broken connection loses nothing and repeats nothing", async () => {
  await connected();
  await hub.order("o", RUN);
  hub.acknowledges = false;
  window.hand.print("one");
  await until("the first is told", () => hub.told.length === 1);
  hub.cut();
  await until("the break is noticed", () => window.state === "connecting");
  window.hand.print("two");
  window.hand.finish();
  hub.acknowledges = true;
  await until("it is back", () => window.state === "connected");
  await hub.order("o", RUN);
  await until("all is told", () => hub.toldOf("o").length === 3);
  assert.deepEqual(hub.hellos[1]?.orders, ["o"]);
  assert.equal(window.hand.orders.length, 1);
  assert.equal(hub.registrations.length, 1);
  assert.deepEqual(
    hub.toldOf("o").map((told) => (told.kind === "printed" ? told.text : told.kind)),
    ["one", "two", "succeeded"],
  );
});

test("a hub that was restarted and knows the window has it back under the same name", async () => {
  await connected();
  await hub.stop();
  await until("the break is noticed", () => window.state === "connecting");
  await hub.start();
  await until("it is back", () => window.state === "connected");
  assert.equal(hub.registrations.length, 1);
  assert.equal(window.identity?.id, "w1");
});

test("a window that the hub has forgotten registers anew, and its old orders are given up", async () => {
  await connected();
  await hub.order("o", RUN);
  hub.windows.clear();
  hub.cut();
  await until("it is back", () => hub.hellos.length === 2);
  assert.deepEqual(hub.hellos[1]?.orders, []);
  assert.equal(hub.registrations.length, 2);
  assert.equal(hub.registrations[1]?.shown, undefined);
  assert.equal(window.hand.aborted.length, 1);
});

test("a window that was reloaded shows who it was", async () => {
  hub.windows.set("old", "its secret");
  window.connection.connect({ id: "old", secret: "its secret", url: hub.url });
  await until("it is connected", () => window.state === "connected");
  assert.equal(hub.registrations[0]?.shown, "old");
  assert.ok(window.connection.state.name === "connected" && window.connection.state.id === "old");
});

test("who it was at another hub is nobody's business", async () => {
  window.connection.connect({ id: "old", secret: "its secret", url: "http://elsewhere" });
  await until("it is connected", () => window.state === "connected");
  assert.equal(hub.registrations[0]?.shown, undefined);
});

test("a hub that is not there is a problem that says how to start one, and can be tried again", async () => {
  await hub.stop();
  window.connection.connect();
  await until("it has failed", () => window.state === "error");
  assert.equal(problem().kind, "absent");
  assert.match(problem().message, /glovebox hub/);
  await hub.start();
  await connected();
});

test("a wrong key is a problem; the second key that there is may be the right one", async () => {
  window.where.keys = ["wrong"];
  window.connection.connect();
  await until("it has failed", () => window.state === "error");
  assert.equal(problem().kind, "wrong_key");
  window.where.keys = ["wrong", "right"];
  await connected();
});

test("a hub that has another key now, which its file tells, is followed under the same name", async () => {
  await connected();
  hub.key = "new";
  window.where.keys = ["new"];
  hub.cut();
  await until("it is back", () => hub.hellos.length === 2);
  assert.equal(hub.registrations[1]?.shown, "w1");
});

test("a hub whose key is not known any more ends in an error", async () => {
  await connected();
  hub.key = "new";
  await until("it has failed", () => window.state === "error");
  assert.equal(problem().kind, "wrong_key");
});

test("a pause refuses what is under way and what comes, until it is over", async () => {
  await connected();
  await hub.order("o", RUN);
  window.connection.pause();
  await until("it is paused", () => window.state === "paused");
  await hub.order("p", RUN);
  await until("both are told", () => hub.toldOf("o").length === 1 && hub.toldOf("p").length === 1);
  for (const id of ["o", "p"]) {
    const [told] = hub.toldOf(id);
    assert.ok(told?.kind === "failed" && told.code === "paused");
  }
  window.connection.resume();
  await until("it goes on", () => window.state === "connected");
  await hub.order("q", RUN);
  assert.equal(window.hand.orders.length, 2);
  assert.deepEqual(
    hub.said.filter(([event]) => event === "changed").map(([, message]) => (message as { paused: boolean }).paused),
    [true, false],
  );
});

test("disconnecting ends what is under way with that reason, and the hub is told", async () => {
  await connected();
  await hub.order("o", RUN);
  await window.connection.disconnect();
  assert.equal(window.state, "disconnected");
  const [told] = hub.toldOf("o");
  assert.ok(told?.kind === "failed" && told.code === "disconnected");
  assert.deepEqual(
    hub.said.map(([event]) => event),
    ["hello", "told", "leaving"],
  );
  assert.deepEqual(hub.unregistered, []);
  assert.equal(window.identity, undefined);
  assert.equal(window.hand.aborted.length, 1);
});

test("the identity is saved as soon as the window is connected", async () => {
  window.answers = false;
  await connected();
  assert.equal(window.identity?.id, "w1");
});

test("an answer of the main thread that comes late does not bring the wish to be connected back", async () => {
  await connected();
  await until("a heartbeat comes", () => hub.beats > 0);
  window.answers = false;
  const asked = window.asked;
  await until("it is asked", () => window.asked > asked);
  const leaving = window.connection.disconnect();
  window.answerLate();
  await leaving;
  assert.equal(window.identity, undefined);
});

test("a hub that does not hear the last words is told by HTTP", async () => {
  await connected();
  await hub.order("o", RUN);
  hub.acknowledges = false;
  await window.connection.disconnect();
  assert.deepEqual(hub.unregistered, ["w1"]);
});

test("disconnecting ends the wish for a hub that is away", async () => {
  await connected();
  await hub.stop();
  await until("the break is noticed", () => window.state === "connecting");
  await window.connection.disconnect();
  assert.equal(window.state, "disconnected");
  assert.equal(window.connection.wanted, false);
});

test("an order that nobody waits for is ended, and not told of", async () => {
  await connected();
  await hub.order("o", RUN);
  hub.cancel("o");
  await until("it is ended", () => window.hand.aborted.length === 1);
  await hub.order("p", RUN);
  window.hand.finish();
  await until("the next is told", () => hub.toldOf("p").length === 1);
  assert.deepEqual(hub.toldOf("o"), []);
});

test("a window whose main thread does not answer sends no heartbeats, until it does", async () => {
  await connected();
  await until("a heartbeat comes", () => hub.beats > 1);
  window.answers = false;
  const asked = window.asked;
  await until("it was asked in vain", () => window.asked > asked + 1);
  const beats = hub.beats;
  await until("it was asked in vain again", () => window.asked > asked + 4);
  assert.equal(hub.beats, beats);
  assert.equal(window.state, "connected");
  window.answers = true;
  await until("they go on", () => hub.beats > beats);
});
