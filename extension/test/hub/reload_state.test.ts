import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { ReloadState } from "../../src/hub/reload_state";

const IDENTITY = { id: "w", secret: "s", url: "http://127.0.0.1:1" };
const WORKSPACE = "file:///a";
/** A process that has ended, like the extension host of a window before its reload. */
const ENDED = spawnSync("true").pid;

let directory = "";
let before: ReloadState;

beforeEach(() => {
  directory = join(mkdtempSync(join(tmpdir(), "glovebox-reload-")), "connected");
  before = new ReloadState(directory, WORKSPACE, ENDED);
});

afterEach(() => rmSync(join(directory, ".."), { recursive: true }));

/** What a window finds that starts now. */
function reloaded(pid = process.pid): ReloadState {
  return new ReloadState(directory, WORKSPACE, pid);
}

test("a window that is reloaded right after it connected has its identity again, once", async () => {
  before.save(IDENTITY, Date.now());
  const after = reloaded();
  assert.deepEqual(await after.take(), IDENTITY);
  after.clear();
  assert.equal(await reloaded().take(), undefined);
});

test("of several windows that start at the same time, one takes the identity", async () => {
  before.save(IDENTITY, Date.now());
  const living = [process.pid, process.ppid, 1];
  const taken = await Promise.all(
    living.map(async (pid) => {
      const window = reloaded(pid);
      const identity = await window.take();
      if (identity) {
        window.save(identity, Date.now() + 1000); // its first heartbeat
      }
      return identity;
    }),
  );
  assert.deepEqual(taken.filter(Boolean), [IDENTITY]);
});

test("a window that is reloaded again before it has connected still has its identity", async () => {
  before.save(IDENTITY, Date.now());
  await reloaded(ENDED).take();
  assert.deepEqual(await reloaded().take(), IDENTITY);
});

test("a window that was disconnected stays disconnected", async () => {
  before.save(IDENTITY, Date.now());
  before.clear();
  assert.equal(before.renew(), false);
  assert.equal(await reloaded().take(), undefined);
  assert.deepEqual(readdirSync(directory), []);
});

test("the last identity counts", async () => {
  before.save(IDENTITY, Date.now());
  before.save({ ...IDENTITY, id: "other" }, Date.now());
  assert.equal((await reloaded().take())?.id, "other");
});

test("the identity is taken when the extension host from before the reload has ended", async () => {
  const host = spawn("sleep", ["600"]);
  new ReloadState(directory, WORKSPACE, host.pid).save(IDENTITY, Date.now());
  const taking = reloaded().take();
  const first = await Promise.race([taking, new Promise((resolve) => setTimeout(resolve, 1000, "waiting"))]);
  assert.equal(first, "waiting");
  host.kill("SIGKILL");
  await once(host, "exit");
  assert.deepEqual(await taking, IDENTITY);
});

test("an extension host that outlives its window is taken over when the hub says that it is of no use", async () => {
  new ReloadState(directory, WORKSPACE, process.ppid).save(IDENTITY, Date.now());
  const asked: string[] = [];
  const identity = await reloaded().take((one) => {
    asked.push(one.id);
    return Promise.resolve(asked.length > 1);
  });
  assert.deepEqual(identity, IDENTITY);
  assert.deepEqual(asked, ["w", "w"]);
});

test("a user who connects while the hub is asked is not overruled", async () => {
  new ReloadState(directory, WORKSPACE, process.ppid).save(IDENTITY, Date.now());
  const after = reloaded();
  const identity = await after.take(() => {
    after.save({ ...IDENTITY, id: "new" }, Date.now());
    return Promise.resolve(true);
  });
  assert.equal(identity, undefined);
});

test("a window that lives beside a new one keeps its identity", async () => {
  const beside = new ReloadState(directory, WORKSPACE, process.ppid);
  beside.save(IDENTITY, Date.now() - 1000);
  const taking = reloaded().take();
  beside.save(IDENTITY, Date.now() + 1000); // a heartbeat after the new window has started
  assert.equal(await taking, undefined);
  assert.equal(readdirSync(directory).length, 1);
});

for (const decide of ["save", "clear"] as const) {
  test(`a user who decides first is not overruled (${decide})`, async () => {
    const beside = new ReloadState(directory, WORKSPACE, process.ppid);
    beside.save(IDENTITY, Date.now());
    const after = reloaded();
    const taking = after.take();
    after[decide]({ ...IDENTITY, id: "new" }, Date.now());
    assert.equal(await taking, undefined);
  });
}

test("a window of another workspace does not take the identity", async () => {
  before.save(IDENTITY, Date.now());
  assert.equal(await new ReloadState(directory, "file:///b").take(), undefined);
  assert.deepEqual(await reloaded().take(), IDENTITY);
});

test("an old note does not count and is removed, unless it is renewed", async () => {
  before.save(IDENTITY, Date.now());
  makeOld();
  before.renew();
  await new ReloadState(directory, "file:///b").take();
  assert.equal(readdirSync(directory).length, 1);
  makeOld();
  assert.equal(await reloaded().take(), undefined);
  assert.deepEqual(readdirSync(directory), []);
});

test("damaged and foreign files are ignored, and removed when they are old", async () => {
  mkdirSync(join(directory, "a directory"), { recursive: true });
  for (const [name, text] of Object.entries({ "1.json": "{", "2.json": "null", "3.json": '{"id": 7}', other: "" })) {
    writeFileSync(join(directory, name), text);
  }
  assert.equal(await reloaded().take(), undefined);
  assert.equal(readdirSync(directory).length, 5);
  makeOld();
  assert.equal(await reloaded().take(), undefined);
  assert.deepEqual(readdirSync(directory), ["a directory"]);
});

test("only the user can read the secret", () => {
  before.save(IDENTITY, Date.now());
  const [name = ""] = readdirSync(directory);
  assert.equal(statSync(directory).mode & 0o777, 0o700);
  assert.equal(statSync(join(directory, name)).mode & 0o777, 0o600);
});

function makeOld(): void {
  for (const name of readdirSync(directory)) {
    utimesSync(join(directory, name), 0, 0);
  }
}
