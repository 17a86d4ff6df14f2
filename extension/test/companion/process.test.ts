import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { CompanionProcess } from "../../src/companion/process";
import { isAlive } from "../../src/orders/shells";
import { Refusal } from "../../src/orders/refusal";
import { sleep } from "../../src/timing";

const place = mkdtempSync(join(tmpdir(), "companion-"));
after(() => rmSync(place, { recursive: true, force: true }));

/** A program in the place of `glovebox`. */
function program(name: string, script: string): string {
  const path = join(place, name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

const SERVES = `read key; echo "$@" > "$0.arguments"
echo "Glovebox serves /a on http://127.0.0.1:12345 (ready in 7 ms)"; read end`;

function companion(command: string, folders: string[] = ["/a", "/b"]): CompanionProcess {
  return new CompanionProcess(
    () => ({ command, folders }),
    () => undefined,
  );
}

async function refusal(box: CompanionProcess): Promise<Refusal> {
  try {
    await box.address();
  } catch (error) {
    assert.ok(error instanceof Refusal);
    return error;
  }
  throw new Error("it was started");
}

async function ended(pid: number | undefined): Promise<void> {
  while (isAlive(pid)) {
    await sleep(10);
  }
}

test("a box is started once, and again after it has ended", async () => {
  const box = companion(program("serves", SERVES));
  const [first, second] = await Promise.all([box.address(), box.address()]);
  assert.deepEqual(first, second);
  assert.equal(first.port, 12345);
  assert.match(first.key, /^[0-9a-f]{64}$/);
  const { pid } = box;
  process.kill(pid ?? 0, "SIGKILL");
  await ended(pid);
  while (box.pid !== undefined) {
    await sleep(10);
  }
  assert.notEqual((await box.address()).key, first.key);
  const last = box.pid;
  box.stop();
  await ended(last);
});

test("a program that is missing, too old or broken is told with what helps", async () => {
  const missing = await refusal(companion(join(place, "missing")));
  assert.equal(missing.code, "no_companion");
  assert.match(missing.message, /pip install.*glovebox\.command/);
  assert.match((await refusal(companion("no-such-glovebox"))).message, /on PATH \(/);
  const old = program("old", "echo \"glovebox serve: there is no flag '--stop-with-stdin'.\" >&2; exit 2");
  assert.match((await refusal(companion(old))).message, /too old.*Update/);
  const broken = await refusal(companion(program("broken", "echo 'No module named x' >&2; exit 1")));
  assert.match(broken.message, /No module named x/);
  const box = companion(program("mended", "exit 1"));
  await refusal(box);
  program("mended", SERVES);
  assert.equal((await box.address()).port, 12345);
  box.stop();
});

test("a window without a folder has no companion box", async () => {
  assert.equal((await refusal(companion("glovebox", []))).code, "no_folder");
});
