import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { previewCommand, sourceLine } from "../../src/orders/command_file";
import { shellName } from "../../src/orders/shells";

/** Commands whose preview must have no effect at a prompt. */
const NASTY = [
  "echo hello",
  "echo 'not closed",
  "echo 'closed'; touch made",
  "echo '}'; touch made",
  "echo } '$(touch made)' \\",
  'echo "not closed $(touch made) `touch made`',
  "true; touch made",
  "true && touch made | touch made > made",
  "echo !! !$ !1 !echo ^true^touch made bye!",
  "ends with a backslash \\",
  "# a comment",
  "a\ntouch made\n'",
  "a\rtouch made",
  "a\u2028touch made",
  "a\x03\x15touch made\x0d\x0a\x00\x1b[A\x9b",
  "größer ✓ 漢字 👩‍💻",
  "x".repeat(10_000),
];

test("a preview has one line", () => {
  assert.equal(previewCommand("echo 'it''s' \"$HOME\" # why!"), "echo 'it''s' \"$HOME\" # why!");
  assert.equal(previewCommand("  echo\thello \n\n"), "echo hello");
  assert.equal(previewCommand("for i in 1 2; do\r\n  echo $i\r\ndone"), "for i in 1 2; do ... (+2 lines)");
  assert.equal(previewCommand("cat <<END\nEND\n"), "cat <<END ... (+1 line)");
  assert.equal(previewCommand("größer ✓ 漢字"), "größer ✓ 漢字");
  assert.equal(previewCommand(" \n "), "");
});

test("the preview of a long command is truncated, and no character is split", () => {
  assert.equal(previewCommand("x".repeat(100)), "x".repeat(100));
  assert.equal(previewCommand("x".repeat(101)), `${"x".repeat(100)}...`);
  assert.equal(previewCommand(`x${"👍".repeat(200)}`), `x${"👍".repeat(49)}...`);
  assert.equal(previewCommand(`${"x".repeat(101)}\ny`), `${"x".repeat(100)} ... (+1 line)`);
});

test("a preview has no control characters", () => {
  assert.equal(previewCommand("a\x03b\x1b[31mc\x7fd\x9be\u202ef\ud800g"), "a?b?[31mc?d?e?f?g");
  for (const command of NASTY) {
    assert.doesNotMatch(previewCommand(command), /[\p{C}\p{Zl}\p{Zp}]/u);
  }
});

for (const [name, flags] of [["bash", ["--norc", "--noprofile", "-i"]], ["sh", ["-i"]]] as const) {
  test(`a preview has no effect at the prompt of ${name}`, () => {
    const place = mkdtempSync(join(tmpdir(), "glovebox-it's-"));
    try {
      const file = join(place, "1");
      // There are no arguments, and the status from before is preserved.
      writeFileSync(file, 'echo "ran $# $?"\n(exit 7)\n');
      const lines = NASTY.map((command) => `${sourceLine(file, command, name)}\n`);
      const input = `history -s touch made\n(exit 7)\n${lines.join("")}ls\n`;
      const env = { PATH: process.env.PATH, HOME: place, LANG: "C.UTF-8", PS1: "", PS2: "more" };
      const ran = spawnSync(name, flags, { cwd: place, input, encoding: "utf8", timeout: 20_000, env });
      assert.deepEqual(ran.stdout.trim().split("\n"), [...NASTY.map(() => "ran 0 7"), "1"]);
    } finally {
      rmSync(place, { recursive: true });
    }
  });
}

test("each shell gets a preview in its syntax, an unknown shell none", () => {
  assert.equal(sourceLine("/tmp/1", "echo hello", "sh"), " . /tmp/1 # echo hello");
  assert.equal(sourceLine("/tmp/1", "echo hello", "zsh"), " . /tmp/1 ${__+'echo hello'}");
  assert.equal(sourceLine("/tmp/1", "echo 'hello'", "bash"), ' . /tmp/1 ${__+"echo \'hello\'"}');
  assert.equal(sourceLine("/tmp/1", "echo 'it' !", "bash"), " . /tmp/1 ${__+'echo '\\''it'\\'' !'}");
  assert.equal(sourceLine("/tmp/1", "echo hello", "fish"), " . /tmp/1");
  assert.equal(sourceLine("/tmp/1", "", "bash"), " . /tmp/1");
});

test("a shell has the name of its process, not of the program that was started", { skip: process.platform !== "linux" }, () => {
  assert.equal(shellName(process.ppid, "/bin/other"), "node");
  assert.equal(shellName(undefined, "/bin/bash"), "bash");
});
