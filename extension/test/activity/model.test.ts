import assert from "node:assert/strict";
import { test } from "node:test";
import { Activity, actionText, MAX_ACTIONS, outcome } from "../../src/activity/model";
import { ActionOutput, MAX_OUTPUT, readable } from "../../src/activity/output";
import type { ActionReport } from "../../src/protocol";
import { until } from "../support/window";

function report(id: string, fields: Partial<ActionReport> = {}): ActionReport {
  return { id, kind: "run", summary: "make", agent: "Ada", state: "started", exit_code: null, seconds: 0, message: "", output: "", ...fields };
}

function only(activity: Activity): { state: string; text: string } {
  const [action] = activity.actions;
  assert.ok(action);
  return { state: action.state, text: outcome(action) };
}

test("an action runs, prints and ends with its exit code", () => {
  const activity = new Activity();
  activity.report(report("a"));
  activity.orderStarted({ kind: "run", session: "main", command: "make", cwd: "" }, "a");
  activity.printed("a", "\x1b[31mbuilding\x1b[0m\r\n");
  assert.deepEqual(only(activity), { state: "running", text: "running" });
  activity.orderEnded("a", { kind: "run_ended", exit_code: 0, cwd: "/" });
  activity.report(report("a", { state: "succeeded", exit_code: 0, seconds: 1.24 }));
  assert.deepEqual(only(activity), { state: "succeeded", text: "exit 0 · 1.2 s" });
  assert.equal(activity.agent, "Ada");
  assert.match(activity.actions.map(actionText).join(""), /^\$ make\n\nbuilding\n/);
});

test("a command that runs on is running until it has ended, and its exit code is shown", () => {
  const activity = new Activity();
  activity.report(report("a"));
  activity.orderStarted({ kind: "run", session: "main", command: "make", cwd: "" }, "a");
  activity.report(report("a", { state: "succeeded", seconds: 30, message: "The command runs on." }));
  assert.equal(only(activity).state, "running");
  activity.orderEnded("a", { kind: "run_ended", exit_code: 2, cwd: "/" });
  assert.deepEqual(only(activity), { state: "failed", text: "exit 2 · 30.0 s" });
});

test("an action that waits for approval says so", () => {
  const activity = new Activity();
  activity.report(report("a"));
  activity.waiting = new Set(["a"]);
  assert.deepEqual(only(activity), { state: "waiting", text: "waits for your approval" });
  activity.waiting = new Set();
  assert.equal(only(activity).state, "running");
});

test("a report that comes twice or late changes nothing", () => {
  const activity = new Activity();
  activity.report(report("a", { state: "failed", message: "no", seconds: 0.2 }));
  activity.report(report("a"));
  activity.report(report("a", { state: "succeeded" }));
  assert.deepEqual(only(activity), { state: "failed", text: "failed · 200 ms" });
  assert.equal(activity.actions.length, 1);
});

test("an order whose action was not reported is shown, too, and one without an action is not", () => {
  const activity = new Activity();
  activity.orderStarted({ kind: "read", path: "/w/a.txt", offset: 0, length: 1 }, "a");
  activity.orderStarted({ kind: "read", path: "/w/b.txt", offset: 0, length: 1 }, "");
  const [action, ...others] = activity.actions;
  assert.equal(others.length, 0);
  assert.equal(action?.summary, "/w/a.txt");
  assert.deepEqual([...action.files], ["/w/a.txt"]);
});

test("the newest come first, the oldest are dropped, and the end of the connection ends what runs", () => {
  const activity = new Activity();
  for (let number = 0; number <= MAX_ACTIONS; number += 1) {
    activity.report(report(String(number)));
  }
  assert.equal(activity.actions.length, MAX_ACTIONS);
  assert.equal(activity.actions[0]?.id, String(MAX_ACTIONS));
  activity.abandon();
  assert.ok(!activity.isWorking);
});

test("listeners are called once for many changes", async () => {
  const activity = new Activity();
  let calls = 0;
  const subscription = activity.onDidChange(() => (calls += 1));
  const watch = setInterval(() => undefined, 10); // the timer of the listeners does not keep the process alive
  activity.report(report("a"));
  activity.printed("a", "one");
  await until("a call", () => calls > 0);
  assert.equal(calls, 1);
  subscription.dispose();
  clearInterval(watch);
});

test("output is bounded and shown as a screen would", () => {
  const output = new ActionOutput();
  for (let at = 0; at < 50; at += 1) {
    output.add("x".repeat(MAX_OUTPUT / 10));
  }
  output.add("\r\nend");
  assert.ok(output.toString().length < MAX_OUTPUT + 100);
  assert.ok(output.toString().startsWith("… (earlier output"));
  assert.ok(output.toString().endsWith("\nend"));
  assert.equal(readable("10%\r50%\r100%\r\n\x1b]0;title\x07done\x1b[K\b"), "100%\ndone");
});
