import assert from "node:assert/strict";
import { test } from "node:test";

import { changeBetween, hasMark, lineEndOf, textOf, withNewlines } from "../../src/orders/changes";

const TEXTS = ["", "a", "aa", "aaa", "abc\ndef\n", "abc\r\ndef\r\n", "abc\r\nd\nf", "x😀y", "x😁y", "😀😀", "\r\n\r\n", "\n\n"];

test("a change makes one text of another", () => {
  for (const before of TEXTS) {
    for (const after of TEXTS) {
      const change = changeBetween(before, after);
      const made = change === undefined ? before : before.slice(0, change.start) + change.text + before.slice(change.end);
      assert.equal(made, after);
    }
  }
});

test("a change is as small as it can be", () => {
  assert.deepEqual(changeBetween("one two three", "one 2 three"), { start: 4, end: 7, text: "2" });
  assert.deepEqual(changeBetween("ab", "aab"), { start: 1, end: 1, text: "a" });
  assert.equal(changeBetween("same", "same"), undefined);
});

test("a change cuts neither characters nor line ends in two", () => {
  assert.deepEqual(changeBetween("x😀y", "x😁y"), { start: 1, end: 3, text: "😁" });
  assert.deepEqual(changeBetween("a\r\nb", "a\rb"), { start: 1, end: 3, text: "\r" });
  assert.deepEqual(changeBetween("a\r\nb", "a\nb"), { start: 1, end: 3, text: "\n" });
});

test("text is UTF-8 without NUL, and its byte order mark is not a part of it", () => {
  assert.equal(textOf(Buffer.from("é😀")), "é😀");
  assert.equal(textOf(Buffer.from("\ufeffa")), "a");
  assert.equal(hasMark(Buffer.from("\ufeffa")), true);
  assert.equal(hasMark(Buffer.from("a")), false);
  assert.equal(textOf(Uint8Array.of(0x63, 0xe9)), undefined);
  assert.equal(textOf(Uint8Array.of(0x63, 0)), undefined);
});

test("line ends are told apart", () => {
  assert.equal(lineEndOf("a\nb\n"), "\n");
  assert.equal(lineEndOf("a\r\nb\r\n"), "\r\n");
  assert.equal(lineEndOf("a\r\nb\n"), "mixed");
  assert.equal(lineEndOf("a\rb\n"), "mixed");
  assert.equal(lineEndOf("a"), undefined);
  assert.equal(withNewlines("a\r\nb\rc\n"), "a\nb\nc\n");
});
