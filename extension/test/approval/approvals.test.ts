import assert from "node:assert/strict";
import { test } from "node:test";
import { type ApprovalContext, Approvals, type ProposedEdit } from "../../src/approval/approvals";
import type { Facts, Mode } from "../../src/approval/policy";
import { Refusal } from "../../src/orders/refusal";
import type { Order } from "../../src/protocol";
import { until } from "../support/window";

class FakeContext implements ApprovalContext {
  mode: Mode = "commands";
  readonly allowed: string[] = [];
  edit: ProposedEdit | undefined;

  async facts(): Promise<Omit<Facts, "approvedCommand">> {
    const { mode, allowed } = this;
    return await Promise.resolve({ mode, allowed, isInside: () => true, paths: [] });
  }

  async proposedEdit(): Promise<ProposedEdit | undefined> {
    return await Promise.resolve(this.edit);
  }

  shortPath(path: string): string {
    return path.replace("/w/", "");
  }

  async allowAlways(pattern: string): Promise<void> {
    this.allowed.push(pattern);
    await Promise.resolve();
  }
}

/** Orders that are checked, and what became of them. */
class Checks {
  readonly context = new FakeContext();
  readonly approvals = new Approvals(this.context);
  readonly results: string[] = [];
  readonly questions: string[] = [];
  changes = 0;

  constructor() {
    this.approvals.onDidChange(() => (this.changes += 1));
  }

  check(order: Order, action = "", signal = new AbortController().signal): void {
    this.approvals
      .check(order, action, signal, (question) => this.questions.push(question))
      .then(
        () => this.results.push("allowed"),
        (error: unknown) => this.results.push(error instanceof Refusal ? `${error.code}: ${error.message}` : String(error)),
      );
  }

  async waiting(count: number): Promise<string[]> {
    await until(`${count} requests`, () => this.approvals.pending.length === count);
    return this.approvals.pending.map(({ id }) => id);
  }

  async ended(count: number): Promise<string[]> {
    await until(`${count} results`, () => this.results.length === count);
    return this.results;
  }
}

const run = (command: string): Order => ({ kind: "run", session: "main", command, cwd: "" });
const read = (path: string): Order => ({ kind: "read", path, offset: 0, length: 1 });
const input: Order = { kind: "input", session: "main", text: "y\r" };

test("a harmless command is not asked for", async () => {
  const checks = new Checks();
  checks.check(run("ls"));
  assert.deepEqual(await checks.ended(1), ["allowed"]);
  assert.deepEqual(checks.questions, []);
});

test("another command waits until it is allowed, and the question is reported until then", async () => {
  const checks = new Checks();
  checks.check({ kind: "arrive", agent: "OpenHands", stay: "s", ask: false, env: {} });
  checks.check(run("make\nmake install"), "action");
  const [id = ""] = await checks.waiting(1);
  const [request] = checks.approvals.pending;
  assert.deepEqual(checks.questions, ["OpenHands wants to run make ⏎ make install"]);
  assert.equal(request?.kind, "run");
  assert.equal(request.action, "action");
  assert.equal(request.agent, "OpenHands");
  assert.equal(request.detail, "make\nmake install");
  assert.equal(await checks.approvals.decide(id, { kind: "allow" }), true);
  assert.deepEqual(await checks.ended(2), ["allowed", "allowed"]);
  assert.deepEqual(checks.questions.slice(1), [""]);
  assert.equal(checks.changes, 2);
  assert.equal(await checks.approvals.decide(id, { kind: "allow" }), false);
});

test("a denial reaches the agent with the user's words", async () => {
  const checks = new Checks();
  checks.check(run("rm x"));
  checks.check(run("rm y"));
  const [first = "", second = ""] = await checks.waiting(2);
  await checks.approvals.decide(first, { kind: "deny", words: " use git clean " });
  await checks.approvals.decide(second, { kind: "deny", words: "" });
  assert.deepEqual(await checks.ended(2), [
    "denied: The user of the window has denied this: use git clean",
    "denied: The user of the window has denied this.",
  ]);
});

test("a command that is always allowed is not asked for again", async () => {
  const checks = new Checks();
  checks.check(run("make all"));
  const [id = ""] = await checks.waiting(1);
  await checks.approvals.decide(id, { kind: "always", pattern: "make *" });
  await checks.ended(1);
  checks.check(run("make test"));
  assert.deepEqual(await checks.ended(2), ["allowed", "allowed"]);
});

test("a cancelled order withdraws its request, with the reason", async () => {
  const checks = new Checks();
  const [paused, cancelled, early] = [new AbortController(), new AbortController(), new AbortController()];
  early.abort();
  checks.check(run("make"), "", paused.signal);
  checks.check(run("make"), "", cancelled.signal);
  await checks.waiting(2);
  paused.abort(new Refusal("paused", "paused"));
  cancelled.abort();
  checks.check(run("make"), "", early.signal);
  assert.deepEqual(await checks.ended(3), [
    "paused: paused",
    "disconnected: The order was cancelled.",
    "disconnected: The order was cancelled.",
  ]);
  assert.deepEqual(checks.approvals.pending, []);
});

test("an edit's request has the text before and after", async () => {
  const checks = new Checks();
  checks.context.mode = "edits";
  checks.context.edit = { path: "/w/a", before: "", after: "new" };
  checks.check({ kind: "write", path: "/w/a", data: new Uint8Array(), expected: "", exclusive: false });
  await checks.waiting(1);
  const [request] = checks.approvals.pending;
  assert.deepEqual(request?.edit, checks.context.edit);
  assert.equal(request.question, "The agent wants to create a");
  assert.equal(request.command, undefined);
});

test("input belongs to a command that the user has allowed, as long as it runs", async () => {
  const checks = new Checks();
  checks.check(input);
  await checks.waiting(1);
  checks.check(run("make"));
  const [, id = ""] = await checks.waiting(2);
  await checks.approvals.decide(id, { kind: "allow" });
  await checks.ended(1);
  checks.check(input);
  assert.deepEqual(await checks.ended(2), ["allowed", "allowed"]);
  checks.approvals.ended(run("make"));
  checks.check(input);
  await checks.waiting(2);
});

test("input for a harmless command is asked for: a pager can run others", async () => {
  const checks = new Checks();
  checks.check(run("git log"));
  await checks.ended(1);
  checks.check({ ...input, text: "!rm -rf /\r" });
  await checks.waiting(1);
});

test("in the strictest mode an action that reads is asked for once, whatever it reads at the same time", async () => {
  const checks = new Checks();
  checks.context.mode = "everything";
  checks.check(read("/w/a"), "one");
  checks.check(read("/w/b"), "one");
  checks.check(read("/w/c"), "two");
  const [first = "", , third = ""] = await checks.waiting(3);
  await checks.approvals.decide(first, { kind: "allow" });
  assert.deepEqual(await checks.ended(2), ["allowed", "allowed"]);
  checks.check(read("/w/d"), "one");
  await checks.ended(3);
  await checks.approvals.decide(third, { kind: "deny", words: "" });
  await checks.ended(4);
  checks.check(read("/w/c"), "two");
  await checks.waiting(1);
});

test("what would hide a part of a command is not shown as it is", async () => {
  const checks = new Checks();
  checks.check(run("make\u202e x\u200b"));
  await checks.waiting(1);
  assert.equal(checks.questions[0], "The agent wants to run make\ufffd x\ufffd");
});
