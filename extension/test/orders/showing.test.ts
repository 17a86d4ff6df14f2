import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { nameOf } from "../../src/orders/shells";
import { shown, sourcing } from "../../src/orders/showing";

/** What would do something if a shell read it. */
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

test("a command is shown on one line", () => {
  assert.equal(shown("echo 'it''s' \"$HOME\" # why!"), "echo 'it''s' \"$HOME\" # why!");
  assert.equal(shown("  echo\thello \n\n"), "echo hello");
  assert.equal(shown("for i in 1 2; do\r\n  echo $i\r\ndone"), "for i in 1 2; do ... (+2 lines)");
  assert.equal(shown("cat <<END\nEND\n"), "cat <<END ... (+1 line)");
  assert.equal(shown("größer ✓ 漢字"), "größer ✓ 漢字");
  assert.equal(shown(" \n "), "");
});

test("of a long command the beginning is shown, and no character is cut in two", () => {
  assert.equal(shown("x".repeat(100)), "x".repeat(100));
  assert.equal(shown("x".repeat(101)), `${"x".repeat(100)}...`);
  assert.equal(shown(`x${"👍".repeat(200)}`), `x${"👍".repeat(49)}...`);
  assert.equal(shown(`${"x".repeat(101)}\ny`), `${"x".repeat(100)} ... (+1 line)`);
});

test("what a terminal would do something about is not shown", () => {
  assert.equal(shown("a\x03b\x1b[31mc\x7fd\x9be\u202ef\ud800g"), "a?b?[31mc?d?e?f?g");
  for (const command of NASTY) {
    assert.doesNotMatch(shown(command), /[\p{C}\p{Zl}\p{Zp}]/u);
  }
});

for (const [name, flags] of [["bash", ["--norc", "--noprofile", "-i"]], ["sh", ["-i"]]] as const) {
  test(`${name} does nothing about what is shown at its prompt`, () => {
    const place = mkdtempSync(join(tmpdir(), "glovebox-it's-"));
    try {
      const file = join(place, "1");
      // Without arguments, and after the status of what was before.
      writeFileSync(file, 'echo "ran $# $?"\n(exit 7)\n');
      const lines = NASTY.map((command) => `${sourcing(file, command, name)}\n`);
      const input = `history -s touch made\n(exit 7)\n${lines.join("")}ls\n`;
      const env = { PATH: process.env.PATH, HOME: place, LANG: "C.UTF-8", PS1: "", PS2: "more" };
      const ran = spawnSync(name, flags, { cwd: place, input, encoding: "utf8", timeout: 20_000, env });
      assert.deepEqual(ran.stdout.trim().split("\n"), [...NASTY.map(() => "ran 0 7"), "1"]);
    } finally {
      rmSync(place, { recursive: true });
    }
  });
}

test("a shell gets what it leaves alone, and one that is not known gets nothing", () => {
  assert.equal(sourcing("/tmp/1", "echo hello", "sh"), " . /tmp/1 # echo hello");
  assert.equal(sourcing("/tmp/1", "echo hello", "zsh"), " . /tmp/1 ${__+'echo hello'}");
  assert.equal(sourcing("/tmp/1", "echo 'hello'", "bash"), ' . /tmp/1 ${__+"echo \'hello\'"}');
  assert.equal(sourcing("/tmp/1", "echo 'it' !", "bash"), " . /tmp/1 ${__+'echo '\\''it'\\'' !'}");
  assert.equal(sourcing("/tmp/1", "echo hello", "fish"), " . /tmp/1");
  assert.equal(sourcing("/tmp/1", "", "bash"), " . /tmp/1");
});

test("a shell is called what it is now, not what was started", { skip: process.platform !== "linux" }, () => {
  assert.equal(nameOf(process.ppid, "/bin/other"), "node");
  assert.equal(nameOf(undefined, "/bin/bash"), "bash");
});
