import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { Reloading } from "../src/kept";

const KEPT = { id: "w", secret: "s", url: "http://127.0.0.1:1" };
/** A process that has ended, as that of a window before it was reloaded. */
const ENDED = spawnSync("true").pid;

/** The state of a workspace, which is written down only when it is told to. */
class State {
  private written = new Map<string, unknown>();
  private readonly values = new Map<string, unknown>();

  keys = (): string[] => [...this.values.keys()];

  /** Whatever is asked for. */
  get(key: string): never {
    return this.values.get(key) as never;
  }

  update(key: string, value: unknown): Promise<void> {
    this.values.set(key, value);
    return Promise.resolve();
  }

  write(): void {
    this.written = new Map(this.values);
  }

  /** What a window that is reloaded now finds. */
  reloaded(): State {
    const next = new State();
    this.written.forEach((value, key) => void next.update(key, value));
    return next;
  }
}

let directory = "";
let state: State;
let window: Reloading;

beforeEach(() => {
  directory = join(mkdtempSync(join(tmpdir(), "glovebox-kept-")), "connected");
  state = new State();
  window = new Reloading(state, directory, ENDED);
});

afterEach(() => rmSync(join(directory, ".."), { recursive: true }));

test("a window that was connected is the same again, once", async () => {
  await window.keep(KEPT);
  state.write();
  assert.deepEqual(await new Reloading(state.reloaded(), directory).take(), KEPT);
  assert.equal(await new Reloading(state.reloaded(), directory).take(), undefined);
});

test("a window whose user has disconnected stays so, also if the state is not written down yet", async () => {
  await window.keep(KEPT);
  state.write();
  void window.keep(undefined);
  assert.equal(await new Reloading(state.reloaded(), directory).take(), undefined);
});

test("of two identities only the last is wanted", async () => {
  await window.keep(KEPT);
  state.write();
  await window.keep({ ...KEPT, id: "other" });
  assert.equal(await new Reloading(state.reloaded(), directory).take(), undefined);
  state.write();
  assert.equal((await new Reloading(state.reloaded(), directory).take())?.id, "other");
});

test("nothing is left of a window that never came back", async () => {
  await window.keep(KEPT);
  const [name = ""] = readdirSync(directory);
  utimesSync(join(directory, name), 0, 0);
  assert.equal(await new Reloading(new State(), directory).take(), undefined);
  assert.deepEqual(readdirSync(directory), []);
});
