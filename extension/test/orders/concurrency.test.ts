import assert from "node:assert/strict";
import { test } from "node:test";

import { summarizeOrder } from "../../src/activity/log";
import { KeyedLock, unlessCancelled } from "../../src/orders/concurrency";
import { Refusal, toRefusal } from "../../src/orders/refusal";

test("work with the same key runs in order, also after a failure; work with another key does not wait", async () => {
  const lock = new KeyedLock();
  const done: string[] = [];
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const first = lock.run("a", async () => {
    await held;
    done.push("first");
    throw new Error("it failed");
  });
  const second = lock.run("a", async () => Promise.resolve(void done.push("second")));
  await lock.run("b", async () => Promise.resolve(void done.push("other")));
  release();
  await assert.rejects(first);
  await second;
  assert.deepEqual(done, ["other", "first", "second"]);
});

test("cancelled work is refused with the reason, unless it ends in time", async () => {
  const controller = new AbortController();
  const never = new Promise<void>(() => undefined);
  const waiting = unlessCancelled(never, controller.signal);
  controller.abort(new Refusal("paused", "why"));
  await assert.rejects(waiting, { code: "paused", message: "why" });
  assert.equal(await unlessCancelled(Promise.resolve(1), controller.signal, 10_000), 1);
  await assert.rejects(unlessCancelled(never, AbortSignal.abort()), { code: "disconnected" });
});

test("errors of VS Code and of the system become refusals without a stack", () => {
  const failing = (code: string): Refusal => toRefusal(Object.assign(new Error("x\n  at y"), { code }), "/f");
  assert.equal(failing("FileNotFound").code, "not_found");
  assert.equal(failing("EISDIR").code, "is_directory");
  assert.deepEqual([failing("EACCES").code, failing("EACCES").message], ["failed", "/f: permission denied."]);
  assert.equal(failing("ESTRANGE").message, "/f: x");
  assert.equal(toRefusal("words", "/f").message, "/f: words");
  const refusal = new Refusal("busy", "b");
  assert.equal(toRefusal(refusal, "/f"), refusal);
});

test("an order is summarized in one line, if it is worth one", () => {
  const long = summarizeOrder({ kind: "run", session: "main", command: `echo ${"x".repeat(500)}`, cwd: "" }) ?? "";
  assert.ok(long.length < 130);
  assert.equal(summarizeOrder({ kind: "run", session: "main", command: "a\nb", cwd: "" }), "a …");
  assert.equal(summarizeOrder({ kind: "move", path: "/a", to: "/b", overwrite: false }), "/a to /b");
  assert.equal(summarizeOrder({ kind: "put", upload: "u", data: new Uint8Array() }), undefined);
});
