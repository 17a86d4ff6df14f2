import assert from "node:assert/strict";
import { test } from "node:test";

import { beginning, LONGEST, Printing, TerminalLines } from "../../src/orders/printing";

test("the first words are told at once, what follows is gathered", () => {
  const told: string[] = [];
  const printing = new Printing((text) => told.push(text), 1_000_000);
  for (const text of ["a", "b", "", "c"]) {
    printing.add(text);
  }
  assert.deepEqual(told, ["a"]);
  printing.flush();
  printing.flush();
  assert.deepEqual(told, ["a", "bc"]);
});

test("what is gathered is told by itself after a while", async () => {
  await new Promise<void>((resolve) => {
    const printing = new Printing((text) => {
      if (text === "b") {
        resolve();
      }
    }, 5);
    printing.add("a");
    printing.add("b");
  });
});

test("much is told in pieces that are not too long, and no character is cut in two", () => {
  const told: string[] = [];
  const printing = new Printing((text) => told.push(text), 1_000_000);
  const text = `x${"😀".repeat(LONGEST)}`;
  printing.add(text);
  printing.flush();
  assert.equal(told.join(""), text);
  assert.ok(told.every((piece) => piece.length <= LONGEST));
  assert.ok(told.every((piece) => Buffer.from(piece).toString() === piece));
});

test("a beginning has no half of a character", () => {
  assert.equal(beginning("a😀b", 2), "a");
  assert.equal(beginning("a😀b", 3), "a😀");
  assert.equal(beginning("ab", 5), "ab");
});

test("line ends are as a terminal has them, wherever the pieces end", () => {
  const lines = new TerminalLines();
  assert.equal(lines.take("a\nb\r\nc\r"), "a\r\nb\r\nc\r");
  assert.equal(lines.take("\n\n"), "\n\r\n");
  assert.equal(lines.take(""), "");
  assert.equal(lines.take("\n"), "\r\n");
});
