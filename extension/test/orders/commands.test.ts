import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { BackgroundProcesses } from "../../src/orders/background_processes";
import { CommandFile } from "../../src/orders/command_file";
import { Refusal } from "../../src/orders/refusal";
import { ScriptedCommand, type ScriptEnd } from "../../src/orders/scripted_command";
import { environment, isAlive, quote } from "../../src/orders/shells";
import { sleep } from "../../src/timing";

let base = "";
let shell: ChildProcess;
let count = 0;
let hasEnded = false;

before(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "glovebox-it's-")));
  // It reads commands from a pipe one after the other, as from a terminal.
  shell = spawn("/bin/sh", { cwd: base, stdio: ["pipe", "ignore", "ignore"] });
  shell.once("exit", () => (hasEnded = true));
});

after(() => {
  shell.kill();
  rmSync(base, { recursive: true });
});

async function runScripted(command: string): Promise<ScriptEnd & { printed: string }> {
  count += 1;
  const directory = mkdtempSync(join(base, count.toString()));
  let printed = "";
  const script = new ScriptedCommand(directory, (text) => (printed += text));
  shell.stdin?.write(`${await script.prepare(command, "/bin/sh")}\n`);
  return { ...(await script.follow(() => hasEnded)), printed };
}

async function runInBackground(command: string, signal = new AbortController().signal): Promise<[number | null, string]> {
  let printed = "";
  const print = (text: string): void => void (printed += text);
  const run = await new BackgroundProcesses(() => undefined).run(command, { shell: "/bin/sh", cwd: base }, print, signal);
  return [run.exit_code, printed];
}

/** Wait for a condition; an ended process exists until its parent has waited for it. */
async function until(condition: () => boolean): Promise<void> {
  for (const end = Date.now() + 20_000; !condition(); ) {
    assert.ok(Date.now() < end, "it did not happen in time");
    await sleep(10);
  }
}

test("a shell without integration runs commands itself, so that their effects persist", async () => {
  assert.deepEqual(await runScripted("echo 'it''s'; echo err >&2; (exit 3)"), {
    exitCode: 3,
    cwd: base,
    printed: "its\r\nerr\r\n",
  });
  assert.equal((await runScripted("cd / && name=value")).cwd, "/");
  assert.equal((await runScripted('pwd\necho "$name"\ncat <<END\nhere\nEND')).printed, "/\r\nvalue\r\nhere\r\n");
});

test("a syntax error is reported, and the shell goes on", async () => {
  const wrong = await runScripted("echo 'not closed");
  assert.equal(wrong.exitCode, 2);
  assert.match(wrong.printed, /command/);
  assert.deepEqual((await runScripted("echo on")).printed, "on\r\n");
});

test("a process in the background does not delay the end", async () => {
  assert.deepEqual((await runScripted("sleep 5 & echo begun")).printed, "begun\r\n");
});

test("tee may start after the command has ended", async () => {
  const slow = join(base, "slow");
  mkdirSync(slow);
  writeFileSync(join(slow, "tee"), '#!/bin/sh\nsleep 0.8\nPATH=${PATH#*:} exec tee "$@"\n', { mode: 0o755 });
  await runScripted(`PATH=${quote(slow)}:$PATH`);
  assert.equal((await runScripted("echo late")).printed, "late\r\n");
  await runScripted("PATH=${PATH#*:}");
});

test("a shell that ends writes no result", async () => {
  assert.equal((await runScripted("echo last; exit 4")).exitCode, undefined);
});

test("a background process has an exit code, output in order, and signals", async () => {
  assert.deepEqual(await runInBackground("echo out; echo err >&2; exit 5"), [5, "out\r\nerr\r\n"]);
  assert.deepEqual(await runInBackground("kill -9 $$"), [137, ""]);
  assert.deepEqual(await runInBackground("sleep 5 & echo begun"), [0, "begun\r\n"]);
});

test("a cancelled process ends with its children", async () => {
  const controller = new AbortController();
  let pids: number[] = [];
  const running = new BackgroundProcesses(() => undefined).run(
    "sleep 60 & echo $$ $!; wait",
    { shell: "/bin/sh", cwd: base },
    (text) => {
      pids = text.trim().split(" ").map(Number);
      controller.abort(new Refusal("paused", ""));
    },
    controller.signal,
  );
  await assert.rejects(running, { code: "paused" });
  assert.equal(pids.length, 2);
  await until(() => !pids.some((pid) => isAlive(pid)));
});

test("words are quoted, and the environment has no variables of VS Code", () => {
  assert.equal(quote("/tmp/a-b.c"), "/tmp/a-b.c");
  assert.equal(quote("it's"), "'it'\\''s'");
  const made = environment({ HOME: "/h", VSCODE_PID: "1", ELECTRON_RUN_AS_NODE: "1", PAGER: "less" });
  assert.deepEqual([made.HOME, made.VSCODE_PID, made.ELECTRON_RUN_AS_NODE, made.PAGER], ["/h", undefined, undefined, "cat"]);
});

test("a command waits in a bash with HISTTIMEFORMAT until its output is being read", async () => {
  const bash = spawn("bash", { cwd: base, stdio: ["pipe", "pipe", "ignore"] });
  let printed = "";
  bash.stdout.on("data", (data: Buffer) => {
    // Without the command itself.
    printed = (printed + data.toString()).replace(/[^\n]*\[1A[^\n]*\n[^\n]*Glovebox./u, "");
  });
  const line = async (name: string, command: string): Promise<CommandFile> => {
    const commandFile = new CommandFile(join(base, name), "bash");
    await commandFile.prepare(command);
    bash.stdin.write(`. ${quote(commandFile.path)}\n`);
    return commandFile;
  };
  await line("held-1", "echo at once; HISTTIMEFORMAT='%F '; (exit 7)");
  await until(() => printed === "at once\n");
  const held = await line("held-2", "echo $? $n $s");
  await sleep(200);
  assert.equal(printed, "at once\n");
  await held.release();
  await until(() => printed === "at once\n7\n");
  await held.remove();
  bash.stdin.end();
});
