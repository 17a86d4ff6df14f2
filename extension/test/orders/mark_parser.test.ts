import assert from "node:assert/strict";
import { test } from "node:test";

import { MarkParser } from "../../src/orders/mark_parser";

const C = "\x1b]633;C\x07";

/** The output in a stream that is split into pieces of a size. */
function outputOf(stream: string, size = stream.length || 1): string {
  const parser = new MarkParser();
  let text = "";
  for (let at = 0; at < stream.length; at += size) {
    text += parser.parse(stream.slice(at, at + size));
  }
  return text + parser.finish();
}

test("output is the text between its marks, wherever the stream is split", () => {
  const stream = `echo\r\n\x1b]633;E;echo;nonce\x07${C}hello\r\n\x1b]633;D;0\x07\x1b]633;P;Cwd=/\x1b\\\x1b]633;A\x07$ `;
  for (let size = 1; size <= stream.length; size += 1) {
    assert.equal(outputOf(stream, size), "hello\r\n");
  }
});

test("the parts of several lines are joined", () => {
  const stream = `${C}1\r\n\x1b]633;D;0\x07\x1b]633;A\x07$ \x1b]633;B\x07second\r\n${C}2\r\n`;
  assert.equal(outputOf(stream), "1\r\n2\r\n");
  assert.equal(outputOf(stream, 3), "1\r\n2\r\n");
});

test("other control sequences are preserved, also a partial one at the end", () => {
  const stream = `${C}\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]63`;
  assert.equal(outputOf(stream), "\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]63");
  assert.equal(outputOf(stream, 1), "\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]63");
});

test("output is returned as it arrives", () => {
  const parser = new MarkParser();
  assert.equal(parser.parse(C), "");
  assert.equal(parser.parse("a"), "a");
  assert.equal(parser.parse("b\x1b"), "b");
  assert.equal(parser.parse("[m"), "\x1b[m");
});

test("a stream without marks is output", () => {
  assert.equal(outputOf("plain\r\n"), "plain\r\n");
  assert.equal(outputOf(""), "");
});

test("a sequence that starts like a mark and never ends does not block the rest", () => {
  const much = "x".repeat(100_000);
  const parser = new MarkParser();
  assert.equal(parser.parse(`${C}\x1b]633;`), "");
  assert.equal(parser.parse(much), `\x1b]633;${much}`);
});
