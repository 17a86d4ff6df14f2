import assert from "node:assert/strict";
import { test } from "node:test";

import { Marks } from "../../src/orders/marks";

const C = "\x1b]633;C\x07";

/** What is printed when a stream comes in pieces of a size. */
function printed(stream: string, size = stream.length || 1): string {
  const marks = new Marks();
  let text = "";
  for (let at = 0; at < stream.length; at += size) {
    text += marks.take(stream.slice(at, at + size));
  }
  return text + marks.end();
}

test("output is what stands between its marks, in whatever pieces it comes", () => {
  const stream = `echo\r\n\x1b]633;E;echo;nonce\x07${C}hello\r\n\x1b]633;D;0\x07\x1b]633;P;Cwd=/\x1b\\\x1b]633;A\x07$ `;
  for (let size = 1; size <= stream.length; size += 1) {
    assert.equal(printed(stream, size), "hello\r\n");
  }
});

test("the parts of several lines are joined", () => {
  const stream = `${C}1\r\n\x1b]633;D;0\x07\x1b]633;A\x07$ \x1b]633;B\x07second\r\n${C}2\r\n`;
  assert.equal(printed(stream), "1\r\n2\r\n");
  assert.equal(printed(stream, 3), "1\r\n2\r\n");
});

test("other control sequences stay, and an escape at the end is not lost", () => {
  const stream = `${C}\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]63`;
  assert.equal(printed(stream), "\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]63");
  assert.equal(printed(stream, 1), "\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]63");
});

test("output is told as it comes", () => {
  const marks = new Marks();
  assert.equal(marks.take(C), "");
  assert.equal(marks.take("a"), "a");
  assert.equal(marks.take("b\x1b"), "b");
  assert.equal(marks.take("[m"), "\x1b[m");
});

test("a stream without marks is output", () => {
  assert.equal(printed("plain\r\n"), "plain\r\n");
  assert.equal(printed(""), "");
});

test("what begins like a mark and never ends does not hold up the rest", () => {
  const much = "x".repeat(100_000);
  const marks = new Marks();
  assert.equal(marks.take(`${C}\x1b]633;`), "");
  assert.equal(marks.take(much), `\x1b]633;${much}`);
});
