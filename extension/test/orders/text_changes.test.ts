import assert from "node:assert/strict";
import { test } from "node:test";

import {
  decodeText,
  hasByteOrderMark,
  lineEnding,
  normalizeNewlines,
  smallestChange,
} from "../../src/orders/text_changes";

const TEXTS = ["", "a", "aa", "aaa", "abc\ndef\n", "abc\r\ndef\r\n", "abc\r\nd\nf", "x😀y", "x😁y", "😀😀", "\r\n\r\n", "\n\n"];

test("a change turns one text into another", () => {
  for (const before of TEXTS) {
    for (const after of TEXTS) {
      const change = smallestChange(before, after);
      const made = change === undefined ? before : before.slice(0, change.start) + change.text + before.slice(change.end);
      assert.equal(made, after);
    }
  }
});

test("a change is as small as it can be", () => {
  assert.deepEqual(smallestChange("one two three", "one 2 three"), { start: 4, end: 7, text: "2" });
  assert.deepEqual(smallestChange("ab", "aab"), { start: 1, end: 1, text: "a" });
  assert.equal(smallestChange("same", "same"), undefined);
});

test("a change splits neither characters nor line endings", () => {
  assert.deepEqual(smallestChange("x😀y", "x😁y"), { start: 1, end: 3, text: "😁" });
  assert.deepEqual(smallestChange("a\r\nb", "a\rb"), { start: 1, end: 3, text: "\r" });
  assert.deepEqual(smallestChange("a\r\nb", "a\nb"), { start: 1, end: 3, text: "\n" });
});

test("text is UTF-8 without NUL, and the byte order mark is not part of it", () => {
  assert.equal(decodeText(Buffer.from("é😀")), "é😀");
  assert.equal(decodeText(Buffer.from("\ufeffa")), "a");
  assert.equal(hasByteOrderMark(Buffer.from("\ufeffa")), true);
  assert.equal(hasByteOrderMark(Buffer.from("a")), false);
  assert.equal(decodeText(Uint8Array.of(0x63, 0xe9)), undefined);
  assert.equal(decodeText(Uint8Array.of(0x63, 0)), undefined);
});

test("line endings are distinguished", () => {
  assert.equal(lineEnding("a\nb\n"), "\n");
  assert.equal(lineEnding("a\r\nb\r\n"), "\r\n");
  assert.equal(lineEnding("a\r\nb\n"), "mixed");
  assert.equal(lineEnding("a\rb\n"), "mixed");
  assert.equal(lineEnding("a"), undefined);
  assert.equal(normalizeNewlines("a\r\nb\rc\n"), "a\nb\nc\n");
});
