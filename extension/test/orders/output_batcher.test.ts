import assert from "node:assert/strict";
import { test } from "node:test";

import { MAX_LENGTH, NewlineConverter, OutputBatcher, truncate } from "../../src/orders/output_batcher";

test("the first text is sent at once, the next ones are batched", () => {
  const sent: string[] = [];
  const batcher = new OutputBatcher((text) => sent.push(text), 1_000_000);
  for (const text of ["a", "b", "", "c"]) {
    batcher.add(text);
  }
  assert.deepEqual(sent, ["a"]);
  batcher.flush();
  batcher.flush();
  assert.deepEqual(sent, ["a", "bc"]);
});

test("a batch is sent by itself after a while", async () => {
  await new Promise<void>((resolve) => {
    const batcher = new OutputBatcher((text) => {
      if (text === "b") {
        resolve();
      }
    }, 5);
    batcher.add("a");
    batcher.add("b");
  });
});

test("long output is sent in pieces of limited length, and no character is split", () => {
  const sent: string[] = [];
  const batcher = new OutputBatcher((text) => sent.push(text), 1_000_000);
  const text = `x${"😀".repeat(MAX_LENGTH)}`;
  batcher.add(text);
  batcher.flush();
  assert.equal(sent.join(""), text);
  assert.ok(sent.every((piece) => piece.length <= MAX_LENGTH));
  assert.ok(sent.every((piece) => Buffer.from(piece).toString() === piece));
});

test("truncation splits no character", () => {
  assert.equal(truncate("a😀b", 2), "a");
  assert.equal(truncate("a😀b", 3), "a😀");
  assert.equal(truncate("ab", 5), "ab");
});

test("newlines are converted, wherever the pieces end", () => {
  const newlines = new NewlineConverter();
  assert.equal(newlines.convert("a\nb\r\nc\r"), "a\r\nb\r\nc\r");
  assert.equal(newlines.convert("\n\n"), "\n\r\n");
  assert.equal(newlines.convert(""), "");
  assert.equal(newlines.convert("\n"), "\r\n");
});
