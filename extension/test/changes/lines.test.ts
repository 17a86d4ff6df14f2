import assert from "node:assert/strict";
import { test } from "node:test";
import { hunks, markHunks, replaceLines } from "../../src/changes/lines";

function marked(before: string, after: string): [number, number][] {
  return markHunks([], hunks(before, after)).map(({ start, count }) => [start, count]);
}

test("changed, added and removed lines are found", () => {
  assert.deepEqual(marked("a\nb\nc\n", "a\nB\nc\n"), [[1, 1]]);
  assert.deepEqual(marked("a\nc\n", "a\nb1\nb2\nc\n"), [[1, 2]]);
  assert.deepEqual(marked("a\nb\nc\n", "a\nc\n"), [[1, 0]]);
  assert.deepEqual(marked("a\nb\nc\nd\ne\n", "A\nb\nc\nd\nE\n"), [[0, 1], [4, 1]]);
  assert.deepEqual(marked("same\r\n", "same\n"), []);
  assert.deepEqual(marked("", "new\n"), [[0, 1]]);
});

test("texts that differ too much are one change", () => {
  const [before, after] = [1, 2].map((seed) => Array.from({ length: 2000 }, (_, n) => `${seed * n}`).join("\n"));
  assert.equal(hunks(`x\n${before}\ny`, `x\n${after}\ny`).length, 1);
});

test("a user's edit removes the marks of its lines and moves those below", () => {
  const ranges = [{ start: 1, count: 1 }, { start: 4, count: 3 }, { start: 9, count: 0 }];
  assert.deepEqual(replaceLines(ranges, 5, 1, 3), [{ start: 1, count: 1 }, { start: 4, count: 1 }, { start: 8, count: 1 }, { start: 11, count: 0 }]);
  assert.deepEqual(replaceLines(ranges, 0, 20, 1), []);
});

test("another edit keeps earlier marks where their lines are now", () => {
  const first = markHunks([], hunks("a\nb\nc\n", "a\nb\nC\n"));
  assert.deepEqual(markHunks(first, hunks("a\nb\nC\n", "new\na\nb\nC\n")), [{ start: 0, count: 1 }, { start: 3, count: 1 }]);
});
