import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { CommandFile, OUTPUT_MARK } from "../../src/orders/command_file";
import { MarkParser } from "../../src/orders/mark_parser";
import { shellName } from "../../src/orders/shells";

/** Commands of which nothing may be executed when they are shown. */
const NASTY = [
  "echo '}'; touch $(touch made)",
  "echo 'not closed",
  "echo } '$(touch made)' \\",
  "`touch made`",
  "%s %d \\033[2J",
  "a\x03\x15touch made\x0d\x0a\x00\x1b[A\x9b",
  "größer ✓ 漢字 👩‍💻",
  "x".repeat(10_000),
];
const FLAGS: Record<string, string[]> = { bash: ["--norc", "--noprofile", "-i"], zsh: ["-f", "-i"], sh: ["-i"] };

/** What a shell prints that sources files with commands. */
async function run(shell: string, before: string, commands: string[], probe = false): Promise<{ out: string; exact: boolean[] }> {
  const place = mkdtempSync(join(tmpdir(), "glovebox-it's-"));
  const files = commands.map((_, at) => new CommandFile(join(place, at.toString()), shell, at > 0));
  await Promise.all(files.map((file, at) => file.prepare(commands[at] ?? "", probe)));
  const input = [before, ...files.map((file) => file.line), ""].join("\n");
  const env = { PATH: process.env.PATH, HOME: place, LANG: "C.UTF-8", PS1: "prompt> ", PS2: "more" };
  const ran = spawnSync(shell, FLAGS[shell] ?? [], { cwd: place, input, encoding: "utf8", timeout: 20_000, env });
  assert.ok(!existsSync(join(place, "made")));
  const exact = files.map((file) => file.isExact);
  await Promise.all(files.map((file) => file.remove()));
  assert.deepEqual(readdirSync(place).filter((name) => /^\d/.test(name)), []);
  rmSync(place, { recursive: true });
  return { out: ran.stdout, exact };
}

for (const shell of ["bash", "zsh"]) {
  const isMissing = spawnSync(shell, ["-c", ":"]).status !== 0;
  test(`a command of any shape in a file of ${shell} has its exit code, and is shown`, { skip: isMissing }, async () => {
    const commands = ["echo kept; (exit 7)", 'echo "ran $? $# ${n-} ${s-} ${p-}"', "cat <<END\nhere\nEND", "( echo in; exit 3 )", "echo $?"];
    const { out } = await run(shell, "", commands);
    for (const shown of ["echo kept; (exit 7)", "cat <<END\n> here\n> END", "( echo in; exit 3 )"]) {
      assert.ok(out.includes(`\x1b[J`) && out.includes(`${shown}\n\x1b]633;${OUTPUT_MARK}\x07`), out);
    }
    const parser = new MarkParser(OUTPUT_MARK);
    const ends = out.replaceAll("\x1b[1A", "\x1b]633;A\x07");
    assert.equal(parser.parse(ends).replaceAll("prompt> ", ""), "kept\nran 7 0   \nhere\nin\n3\n");
  });

  test(`a line that ${shell} reports from its history is removed from it`, { skip: isMissing || shell === "zsh" }, async () => {
    const { out } = await run(shell, "echo mine", ["history -s other", "(exit 5)", "echo $?; history"]);
    const printed = out.split(OUTPUT_MARK).at(-1) ?? "";
    assert.match(printed, /^.5\n/su);
    assert.deepEqual(printed.match(/echo mine|other|[12]'/gu), ["echo mine", "other"]);
  });

  test(`a command is shown in ${shell} without being executed`, { skip: isMissing }, async () => {
    const { out } = await run(shell, "", NASTY.map((command) => `: <<'END_OF_IT'\n${command}\nEND_OF_IT`));
    assert.equal(out.split(OUTPUT_MARK).length - 1, NASTY.length);
  });

  test(`${shell} with strict options sources a command, too`, { skip: isMissing }, async () => {
    const { out } = await run(shell, "set -eux", ["echo on", "echo still on"]);
    assert.ok(out.includes(`${OUTPUT_MARK}\x07on\n`) && out.includes(`${OUTPUT_MARK}\x07still on\n`), out);
  });

  test(`${shell} tells whether it reports lines exactly`, { skip: isMissing }, async () => {
    const exact = async (before: string): Promise<boolean | undefined> => (await run(shell, before, [":"], true)).exact[0];
    assert.equal(await exact("true"), false);
    assert.equal(await exact("__vsc_history_verify=0 __vsc_nonce=1"), true);
    const spoilt = shell === "bash" ? ["HISTTIMEFORMAT=x", "HISTIGNORE=ls", "HISTSIZE=0", "set +o history"] : ["setopt correct"];
    for (const one of spoilt) {
      assert.equal(await exact(`__vsc_history_verify=0 __vsc_nonce=1\n${one}`), false, one);
    }
  });
}

test("a shell has the name of its process, not of the program that was started", { skip: process.platform !== "linux" }, () => {
  assert.equal(shellName(process.ppid, "/bin/other"), "node");
  assert.equal(shellName(undefined, "/bin/bash"), "bash");
});
