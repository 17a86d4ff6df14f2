import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Apart } from "../../src/orders/apart";
import { Refusal } from "../../src/orders/refusal";
import { Scripted, type ScriptEnding } from "../../src/orders/scripted";
import { environment, isAlive, quoted } from "../../src/orders/shells";
import { Sourced } from "../../src/orders/sourced";
import { pause } from "../../src/orders/waiting";

let base = "";
let shell: ChildProcess;
let count = 0;
let hasEnded = false;

before(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "glovebox-it's-")));
  // It reads its commands from a pipe, one after the other, as it would from a terminal.
  shell = spawn("/bin/sh", { cwd: base, stdio: ["pipe", "ignore", "ignore"] });
  shell.once("exit", () => (hasEnded = true));
});

after(() => {
  shell.kill();
  rmSync(base, { recursive: true });
});

async function scripted(command: string): Promise<ScriptEnding & { printed: string }> {
  count += 1;
  const directory = mkdtempSync(join(base, count.toString()));
  let printed = "";
  const script = new Scripted(directory, (text) => (printed += text));
  shell.stdin?.write(`${await script.prepare(command, "/bin/sh", "sh")}\n`);
  return { ...(await script.follow(() => hasEnded)), printed };
}

async function apart(command: string, signal = new AbortController().signal): Promise<[number | null, string]> {
  let printed = "";
  const tell = (text: string): void => void (printed += text);
  const run = await new Apart(() => undefined).run(command, { shell: "/bin/sh", cwd: base }, tell, signal);
  return [run.exit_code, printed];
}

/** Waits for a condition; processes that have ended are there until somebody takes notice. */
async function until(isSo: () => boolean): Promise<void> {
  for (const end = Date.now() + 20_000; !isSo(); ) {
    assert.ok(Date.now() < end, "it did not happen in time");
    await pause(10);
  }
}

test("a shell without integration runs commands itself, and keeps what they do", async () => {
  assert.deepEqual(await scripted("echo 'it''s'; echo err >&2; (exit 3)"), {
    exitCode: 3,
    cwd: base,
    printed: "its\r\nerr\r\n",
  });
  assert.equal((await scripted("cd / && name=value")).cwd, "/");
  assert.equal((await scripted('pwd\necho "$name"\ncat <<END\nhere\nEND')).printed, "/\r\nvalue\r\nhere\r\n");
});

test("a syntax error is told, and the shell goes on", async () => {
  const wrong = await scripted("echo 'not closed");
  assert.equal(wrong.exitCode, 2);
  assert.match(wrong.printed, /command/);
  assert.deepEqual((await scripted("echo on")).printed, "on\r\n");
});

test("something in the background does not hold up the end", async () => {
  assert.deepEqual((await scripted("sleep 5 & echo begun")).printed, "begun\r\n");
});

test("what takes the output may begin after the command has ended", async () => {
  const slow = join(base, "slow");
  mkdirSync(slow);
  writeFileSync(join(slow, "tee"), '#!/bin/sh\nsleep 0.8\nPATH=${PATH#*:} exec tee "$@"\n', { mode: 0o755 });
  await scripted(`PATH=${quoted(slow)}:$PATH`);
  assert.equal((await scripted("echo late")).printed, "late\r\n");
  await scripted("PATH=${PATH#*:}");
});

test("a shell that ends leaves no result", async () => {
  assert.equal((await scripted("echo last; exit 4")).exitCode, undefined);
});

test("a process of its own has its exit code, its output in order and its signals", async () => {
  assert.deepEqual(await apart("echo out; echo err >&2; exit 5"), [5, "out\r\nerr\r\n"]);
  assert.deepEqual(await apart("kill -9 $$"), [137, ""]);
  assert.deepEqual(await apart("sleep 5 & echo begun"), [0, "begun\r\n"]);
});

test("a process that is given up ends with all that it started", async () => {
  const giving = new AbortController();
  let pids: number[] = [];
  const running = new Apart(() => undefined).run(
    "sleep 60 & echo $$ $!; wait",
    { shell: "/bin/sh", cwd: base },
    (text) => {
      pids = text.trim().split(" ").map(Number);
      giving.abort(new Refusal("paused", ""));
    },
    giving.signal,
  );
  await assert.rejects(running, { code: "paused" });
  assert.equal(pids.length, 2);
  await until(() => !pids.some((pid) => isAlive(pid)));
});

test("words are quoted, and the environment has nothing of VS Code's", () => {
  assert.equal(quoted("/tmp/a-b.c"), "/tmp/a-b.c");
  assert.equal(quoted("it's"), "'it'\\''s'");
  const made = environment({ HOME: "/h", VSCODE_PID: "1", ELECTRON_RUN_AS_NODE: "1", PAGER: "less" });
  assert.deepEqual([made.HOME, made.VSCODE_PID, made.ELECTRON_RUN_AS_NODE, made.PAGER], ["/h", undefined, undefined, "cat"]);
});

test("a command is held back in a bash that tells the time until somebody listens", async () => {
  const bash = spawn("bash", { cwd: base, stdio: ["pipe", "pipe", "ignore"] });
  let printed = "";
  bash.stdout.on("data", (data: Buffer) => (printed += data.toString()));
  const line = async (name: string, command: string): Promise<Sourced> => {
    const sourced = new Sourced(join(base, name));
    await sourced.prepare(command, true);
    bash.stdin.write(`. ${quoted(sourced.file)}\n`);
    return sourced;
  };
  await line("held-1", "echo at once; HISTTIMEFORMAT='%F '; (exit 7)");
  await until(() => printed === "at once\n");
  const held = await line("held-2", "echo $? $n $s");
  await pause(200);
  assert.equal(printed, "at once\n");
  await held.begin();
  await until(() => printed === "at once\n7\n");
  await held.remove();
  bash.stdin.end();
});
