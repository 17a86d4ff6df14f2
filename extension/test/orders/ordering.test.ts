import assert from "node:assert/strict";
import { test } from "node:test";

import { described } from "../../src/orders/describing";
import { Refusal, refusalOf } from "../../src/orders/refusal";
import { Turns } from "../../src/orders/turns";
import { unlessGivenUp } from "../../src/orders/waiting";

test("work on one thing is done in order, also after a failure; on another it does not wait", async () => {
  const turns = new Turns();
  const done: string[] = [];
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const first = turns.take("a", async () => {
    await held;
    done.push("first");
    throw new Error("it failed");
  });
  const second = turns.take("a", async () => Promise.resolve(void done.push("second")));
  await turns.take("b", async () => Promise.resolve(void done.push("other")));
  release();
  await assert.rejects(first);
  await second;
  assert.deepEqual(done, ["other", "first", "second"]);
});

test("what is given up is refused with the reason, unless it ends in time", async () => {
  const giving = new AbortController();
  const never = new Promise<void>(() => undefined);
  const waiting = unlessGivenUp(never, giving.signal);
  giving.abort(new Refusal("paused", "why"));
  await assert.rejects(waiting, { code: "paused", message: "why" });
  assert.equal(await unlessGivenUp(Promise.resolve(1), giving.signal, 10_000), 1);
  await assert.rejects(unlessGivenUp(never, AbortSignal.abort()), { code: "disconnected" });
});

test("errors of VS Code and of the system become refusals without a stack", () => {
  const failing = (code: string): Refusal => refusalOf(Object.assign(new Error("x\n  at y"), { code }), "/f");
  assert.equal(failing("FileNotFound").code, "not_found");
  assert.equal(failing("EISDIR").code, "is_directory");
  assert.deepEqual([failing("EACCES").code, failing("EACCES").message], ["failed", "/f: permission denied."]);
  assert.equal(failing("ESTRANGE").message, "/f: x");
  assert.equal(refusalOf("words", "/f").message, "/f: words");
  const refusal = new Refusal("busy", "b");
  assert.equal(refusalOf(refusal, "/f"), refusal);
});

test("an order is described in one line, if it is worth one", () => {
  const long = described({ kind: "run", session: "main", command: `echo ${"x".repeat(500)}`, cwd: "" }) ?? "";
  assert.ok(long.length < 130);
  assert.equal(described({ kind: "run", session: "main", command: "a\nb", cwd: "" }), "a …");
  assert.equal(described({ kind: "move", path: "/a", to: "/b", overwrite: false }), "/a to /b");
  assert.equal(described({ kind: "put", upload: "u", data: new Uint8Array() }), undefined);
});
