import assert from "node:assert/strict";
import { test } from "node:test";
import type { Answer, Order } from "../../src/protocol";
import { CommandSessions } from "../../src/tools/command_sessions";

const NEVER = new AbortController().signal;
const ENDED: Answer = { kind: "run_ended", exit_code: 0, cwd: "/work" };

/** A window whose commands print and end as the test says. */
class Terminal {
  readonly typed: string[] = [];
  readonly sessions = new CommandSessions(async (order, print) => await this.#execute(order, print));
  print: (text: string) => void = () => undefined;
  end: (answer: Answer) => void = () => undefined;
  fail: (error: Error) => void = () => undefined;
  running = 0;

  async #execute(order: Order, print: (text: string) => void): Promise<Answer> {
    if (order.kind === "input") {
      this.typed.push(order.text);
      return { kind: "done" };
    }
    this.running += 1;
    this.print = print;
    return await new Promise((resolve, reject) => {
      [this.end, this.fail] = [resolve, reject];
    });
  }
}

test("a command answers with its output as it looked at last, its exit code and directory", async () => {
  const terminal = new Terminal();
  const running = terminal.sessions.run("chat", "make", 60, NEVER);
  terminal.print("\x1b[32mok\x1b[0m\r\n10%\r50%\r100%\r\n");
  terminal.end(ENDED);
  assert.equal(await running, "ok\n100%\n[exit code 0, now in /work]");
});

test("a command that takes long goes on, is read on and typed into, and another one is not run meanwhile", async () => {
  const terminal = new Terminal();
  const first = terminal.sessions.run("chat", "read name", 0, NEVER);
  terminal.print("name? ");
  assert.equal(await first, "name? \n[still running after 0 s]");
  assert.match(await terminal.sessions.run("chat", "ls", 0, NEVER), /still running/);
  assert.equal(terminal.running, 1);
  const typing = terminal.sessions.type("chat", "Ada", 60, NEVER);
  await new Promise((resolve) => setImmediate(resolve));
  terminal.print("Ada\r\n");
  terminal.end({ kind: "run_ended", exit_code: null, cwd: "", shell_ended: true });
  assert.equal(await typing, "Ada\n[exit code unknown, the shell has ended]");
  assert.deepEqual(terminal.typed, ["Ada\r"]);
  assert.equal(await terminal.sessions.type("chat", "", 0, NEVER), "No command runs in this session.");
});

test("keys are typed without Enter", async () => {
  const terminal = new Terminal();
  await terminal.sessions.run("chat", "cat", 0, NEVER);
  await terminal.sessions.type("chat", "C-d", 0, NEVER);
  assert.deepEqual(terminal.typed, ["\x04"]);
});

test("a user who stops the call interrupts the command", async () => {
  const terminal = new Terminal();
  const controller = new AbortController();
  const running = terminal.sessions.run("chat", "sleep 600", 600, controller.signal);
  controller.abort();
  await running;
  assert.deepEqual(terminal.typed, ["\x03"]);
});

test("a refusal is the answer, and the session is free again", async () => {
  const terminal = new Terminal();
  const running = terminal.sessions.run("chat", "rm -rf x", 60, NEVER);
  terminal.fail(new Error("The user said no."));
  assert.equal(await running, "[not completed: The user said no.]");
  const again = terminal.sessions.run("chat", "ls", 60, NEVER);
  terminal.end(ENDED);
  assert.equal(await again, "[exit code 0, now in /work]");
});

test("of much output the end is in the answer", async () => {
  const terminal = new Terminal();
  const running = terminal.sessions.run("chat", "seq", 60, NEVER);
  terminal.print("x".repeat(50_000) + "end");
  terminal.end(ENDED);
  const answer = await running;
  assert.ok(answer.startsWith("[20003 characters left out]"));
  assert.match(answer, /xend\n\[exit code 0/);
});
