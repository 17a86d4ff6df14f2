import assert from "node:assert/strict";
import { test } from "node:test";
import { Outbox } from "../src/outbox";
import type { Told } from "../src/protocol";

/** A connection whose acknowledgements the test gives. */
class Line {
  readonly sent: Told[] = [];
  readonly #acknowledgements: (() => void)[] = [];

  readonly send = (told: Told, acknowledged: () => void): void => {
    this.sent.push(told);
    this.#acknowledgements.push(acknowledged);
  };

  acknowledge(): void {
    const acknowledged = this.#acknowledgements.shift();
    assert.ok(acknowledged, "nothing is waiting to be acknowledged");
    acknowledged();
  }

  acknowledgeAll(): void {
    while (this.#acknowledgements.length > 0) {
      this.acknowledge();
    }
  }

  get text(): string {
    return this.sent.map((told) => (told.kind === "printed" ? told.text : "")).join("");
  }
}

function working(): { outbox: Outbox; line: Line } {
  const outbox = new Outbox();
  const line = new Line();
  outbox.connected(line.send);
  outbox.take("a");
  return { outbox, line };
}

test("what is told of an order is numbered from 1 and in order", () => {
  const { outbox, line } = working();
  outbox.printed("a", "one ");
  outbox.printed("a", "two ");
  outbox.printed("a", "three");
  outbox.succeeded("a", { kind: "done" });
  line.acknowledgeAll();
  assert.deepEqual(line.sent, [
    { kind: "printed", id: "a", number: 1, text: "one " },
    { kind: "printed", id: "a", number: 2, text: "two three" },
    { kind: "succeeded", id: "a", number: 3, answer: { kind: "done" } },
  ]);
  assert.deepEqual(outbox.orders, []);
});

test("what was not acknowledged is told again on the next connection, under the same number", () => {
  const { outbox, line } = working();
  outbox.printed("a", "one");
  line.acknowledge();
  outbox.printed("a", "two");
  outbox.disconnected();
  outbox.printed("a", "three");
  outbox.failed("a", "busy", "no");
  assert.deepEqual(outbox.orders, ["a"]);
  const next = new Line();
  outbox.connected(next.send);
  next.acknowledgeAll();
  assert.deepEqual(next.sent, [
    { kind: "printed", id: "a", number: 2, text: "two" },
    { kind: "printed", id: "a", number: 3, text: "three" },
    { kind: "failed", id: "a", number: 4, code: "busy", message: "no" },
  ]);
});

test("an acknowledgement that comes late, by the old connection, counts once", () => {
  const { outbox, line } = working();
  outbox.printed("a", "one");
  outbox.disconnected();
  const next = new Line();
  outbox.connected(next.send);
  outbox.printed("a", "two");
  line.acknowledge();
  next.acknowledgeAll();
  assert.deepEqual(
    next.sent.map((told) => told.number),
    [1, 2],
  );
});

test("an order that comes twice is taken once, also when it is over", () => {
  const { outbox, line } = working();
  assert.equal(outbox.take("a"), false);
  outbox.succeeded("a", { kind: "done" });
  line.acknowledgeAll();
  assert.equal(outbox.take("a"), false);
  assert.equal(outbox.take("b"), true);
});

test("only the first result of an order counts", () => {
  const { outbox, line } = working();
  outbox.failed("a", "paused", "stop");
  outbox.succeeded("a", { kind: "done" });
  outbox.printed("a", "too late");
  line.acknowledgeAll();
  assert.deepEqual(
    line.sent.map((told) => told.kind),
    ["failed"],
  );
});

test("nothing is told of an order that nobody waits for", () => {
  const { outbox, line } = working();
  outbox.forget("a");
  outbox.succeeded("a", { kind: "done" });
  assert.deepEqual(line.sent, []);
  assert.equal(outbox.take("a"), false);
});

test("much output goes in pieces that are put together again, and no character is cut", () => {
  const { outbox, line } = working();
  const text = "x" + "😀".repeat(400_000);
  outbox.printed("a", text);
  line.acknowledgeAll();
  assert.ok(line.sent.length > 2);
  assert.equal(line.text, text);
  for (const told of line.sent) {
    assert.ok(told.kind === "printed" && told.text.isWellFormed());
  }
});

test("what is printed while nobody takes it is bounded, and what is lost is said", () => {
  const { outbox } = working();
  outbox.disconnected();
  for (let at = 0; at < 100; at += 1) {
    outbox.printed("a", String(at % 10).repeat(100_000));
  }
  const next = new Line();
  outbox.connected(next.send);
  next.acknowledgeAll();
  assert.ok(next.text.length < 5_000_000);
  assert.match(next.text, /\d+ characters of output were lost here/);
  assert.ok(next.text.endsWith("9".repeat(100_000)));
});

test("an answer that no hub would take is a failure", () => {
  const { outbox, line } = working();
  outbox.succeeded("a", { kind: "content", data: new Uint8Array(7_000_000), size: 7_000_000 });
  const [told] = line.sent;
  assert.ok(told?.kind === "failed");
  assert.match(told.message, /too large/);
});

test("it is known when everything is told", async () => {
  const { outbox, line } = working();
  let empty = false;
  const emptied = outbox.emptied().then(() => (empty = true));
  outbox.printed("a", "one");
  outbox.succeeded("a", { kind: "done" });
  line.acknowledge();
  await Promise.resolve();
  assert.equal(empty, false);
  line.acknowledge();
  await emptied;
});
