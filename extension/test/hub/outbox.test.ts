import assert from "node:assert/strict";
import { test } from "node:test";
import { Outbox } from "../../src/hub/outbox";
import type { Told } from "../../src/protocol";

/** A connection on which the test acknowledges messages. */
class FakeConnection {
  readonly sent: Told[] = [];
  readonly #acknowledgements: (() => void)[] = [];

  readonly send = (message: Told, acknowledged: () => void): void => {
    this.sent.push(message);
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
    return this.sent.map((message) => (message.kind === "printed" ? message.text : "")).join("");
  }
}

function startOrder(): { outbox: Outbox; connection: FakeConnection } {
  const outbox = new Outbox();
  const connection = new FakeConnection();
  outbox.connect(connection.send);
  outbox.add("a");
  return { outbox, connection };
}

test("the messages of an order are numbered from 1 and in order", () => {
  const { outbox, connection } = startOrder();
  outbox.addOutput("a", "one ");
  outbox.addOutput("a", "two ");
  outbox.addOutput("a", "three");
  outbox.succeed("a", { kind: "done" });
  connection.acknowledgeAll();
  assert.deepEqual(connection.sent, [
    { kind: "printed", id: "a", number: 1, text: "one " },
    { kind: "printed", id: "a", number: 2, text: "two three" },
    { kind: "succeeded", id: "a", number: 3, answer: { kind: "done" } },
  ]);
  assert.deepEqual(outbox.orders, []);
});

test("a message that was not acknowledged is sent again on the next connection, with the same number", () => {
  const { outbox, connection } = startOrder();
  outbox.addOutput("a", "one");
  connection.acknowledge();
  outbox.addOutput("a", "two");
  outbox.disconnect();
  outbox.addOutput("a", "three");
  outbox.fail("a", "busy", "no");
  assert.deepEqual(outbox.orders, ["a"]);
  const next = new FakeConnection();
  outbox.connect(next.send);
  next.acknowledgeAll();
  assert.deepEqual(next.sent, [
    { kind: "printed", id: "a", number: 2, text: "two" },
    { kind: "printed", id: "a", number: 3, text: "three" },
    { kind: "failed", id: "a", number: 4, code: "busy", message: "no" },
  ]);
});

test("a late acknowledgement on the old connection counts once", () => {
  const { outbox, connection } = startOrder();
  outbox.addOutput("a", "one");
  outbox.disconnect();
  const next = new FakeConnection();
  outbox.connect(next.send);
  outbox.addOutput("a", "two");
  connection.acknowledge();
  next.acknowledgeAll();
  assert.deepEqual(
    next.sent.map((message) => message.number),
    [1, 2],
  );
});

test("an order that is received twice is added once, also when it has ended", () => {
  const { outbox, connection } = startOrder();
  assert.equal(outbox.add("a"), false);
  outbox.succeed("a", { kind: "done" });
  connection.acknowledgeAll();
  assert.equal(outbox.add("a"), false);
  assert.equal(outbox.add("b"), true);
});

test("only the first result of an order counts", () => {
  const { outbox, connection } = startOrder();
  outbox.fail("a", "paused", "stop");
  outbox.succeed("a", { kind: "done" });
  outbox.addOutput("a", "too late");
  connection.acknowledgeAll();
  assert.deepEqual(
    connection.sent.map((message) => message.kind),
    ["failed"],
  );
});

test("nothing is sent about an order that was removed", () => {
  const { outbox, connection } = startOrder();
  outbox.remove("a");
  outbox.succeed("a", { kind: "done" });
  assert.deepEqual(connection.sent, []);
  assert.equal(outbox.add("a"), false);
});

test("long output is sent in pieces, and no character is split", () => {
  const { outbox, connection } = startOrder();
  const text = "x" + "😀".repeat(400_000);
  outbox.addOutput("a", text);
  connection.acknowledgeAll();
  assert.ok(connection.sent.length > 2);
  assert.equal(connection.text, text);
  for (const message of connection.sent) {
    assert.ok(message.kind === "printed" && message.text.isWellFormed());
  }
});

test("output without a connection is bounded, and the loss is reported", () => {
  const { outbox } = startOrder();
  outbox.disconnect();
  for (let at = 0; at < 100; at += 1) {
    outbox.addOutput("a", String(at % 10).repeat(100_000));
  }
  const next = new FakeConnection();
  outbox.connect(next.send);
  next.acknowledgeAll();
  assert.ok(next.text.length < 5_000_000);
  assert.match(next.text, /\d+ characters of output were lost here/);
  assert.ok(next.text.endsWith("9".repeat(100_000)));
});

test("an answer that is too large for a hub is a failure", () => {
  const { outbox, connection } = startOrder();
  outbox.succeed("a", { kind: "content", data: new Uint8Array(7_000_000), size: 7_000_000 });
  const [message] = connection.sent;
  assert.ok(message?.kind === "failed");
  assert.match(message.message, /too large/);
});

test("an outbox is empty when all messages are acknowledged", async () => {
  const { outbox, connection } = startOrder();
  let empty = false;
  const emptied = outbox.waitUntilEmpty().then(() => (empty = true));
  outbox.addOutput("a", "one");
  outbox.succeed("a", { kind: "done" });
  connection.acknowledge();
  await Promise.resolve();
  assert.equal(empty, false);
  connection.acknowledge();
  await emptied;
});

test("a question is sent before output, and one that was decided before it could be sent is not", () => {
  const { outbox, connection } = startOrder();
  outbox.addQuestion("a", "may it?");
  outbox.addQuestion("a", "");
  outbox.addOutput("a", "text");
  outbox.succeed("a", { kind: "done" });
  connection.acknowledgeAll();
  assert.deepEqual(
    connection.sent.map((message) => [message.number, message.kind === "waiting" ? message.question : message.kind]),
    [
      [1, "may it?"],
      [2, "printed"],
      [3, "succeeded"],
    ],
  );
});

test("a question and its end are reported in order", () => {
  const { outbox, connection } = startOrder();
  outbox.addQuestion("a", "may it?");
  connection.acknowledge();
  outbox.addQuestion("a", "");
  connection.acknowledge();
  outbox.fail("a", "denied", "no");
  connection.acknowledge();
  assert.deepEqual(
    connection.sent.map(({ kind }) => kind),
    ["waiting", "waiting", "failed"],
  );
  assert.deepEqual(outbox.orders, []);
});
