import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Containment, isWithin } from "../../src/orders/containment";
import { Refusal } from "../../src/orders/refusal";

let base = "";
let containment: Containment;
const at = (...names: string[]): string => join(base, ...names);

before(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "glovebox-containment-")));
  for (const name of ["one/sub", "one-other", "two", "outside/deep"]) {
    mkdirSync(at(name), { recursive: true });
  }
  writeFileSync(at("one/file"), "");
  writeFileSync(at("outside/secret"), "");
  symlinkSync(at("outside"), at("one/out"));
  symlinkSync(at("outside/not-there"), at("one/nowhere"));
  symlinkSync("deeper/../new", at("one/tricky"));
  symlinkSync(at("outside/deep"), at("one/deeper"));
  symlinkSync("sub", at("one/in"));
  symlinkSync("loop", at("one/loop"));
  symlinkSync(at("one"), at("door"));
  containment = new Containment(() => [at("one"), at("two")]);
});

after(() => rmSync(base, { recursive: true }));

async function refused(path: string, code: string, containing = containment): Promise<void> {
  await assert.rejects(containing.inside(path), (error) => error instanceof Refusal && error.code === code);
}

test("a path in any of the folders has a place, whether it exists or not", async () => {
  assert.deepEqual(await containment.inside(at("one/file")), { path: at("one/file"), real: at("one/file") });
  assert.equal((await containment.inside(at("two/new/er"))).real, at("two/new/er"));
  assert.equal((await containment.inside(at("one"))).real, at("one"));
  assert.equal((await containment.inside(`${at("one/sub")}//../sub/`)).path, at("one/sub"));
});

test("links are followed, and lead to a place if they stay inside", async () => {
  assert.equal((await containment.inside(at("one/in/new"))).real, at("one/sub/new"));
});

test("what is outside is refused, and the folders are named", async () => {
  for (const path of [at("outside/secret"), at("one-other"), at("one/../outside/secret"), base, "/", "one/file", ""]) {
    await refused(path, "outside_workspace");
  }
  await refused(`${at("one/file")}\0`, "outside_workspace");
  await assert.rejects(containment.inside("/etc"), new RegExp(`${at("one")}, ${at("two")}`));
});

test("links that lead outside are refused, also those that lead nowhere yet", async () => {
  for (const path of ["one/out", "one/out/secret", "one/out/new", "one/nowhere", "one/nowhere/below", "one/tricky"]) {
    await refused(at(path), "outside_workspace");
  }
  await refused(at("one/loop"), "failed");
});

test("an entry that is a link is in its directory, wherever it leads", async () => {
  assert.equal((await containment.entry(at("one/out"))).real, at("one/out"));
  await assert.rejects(containment.entry(at("one/out/secret")), { code: "outside_workspace" });
  await assert.rejects(containment.entry("/"), { code: "outside_workspace" });
});

test("a folder that is opened through a link holds what is in it", async () => {
  const through = new Containment(() => [at("door")]);
  assert.equal((await through.inside(at("door/file"))).real, at("one/file"));
  assert.equal((await through.inside(at("one/file"))).real, at("one/file"));
});

test("without a folder everything is refused", async () => {
  const nothing = new Containment(() => []);
  await refused(at("one/file"), "no_folder", nothing);
  assert.throws(() => nothing.home(), { code: "no_folder" });
});

test("folders, and what holds them, are known", async () => {
  assert.equal(await containment.holdsFolder(await containment.entry(at("one"))), true);
  assert.equal(await containment.holdsFolder(await containment.entry(at("one/sub"))), false);
});

test("names that only begin alike are not within", () => {
  assert.equal(isWithin("/a", "/a/..b"), true);
  assert.equal(isWithin("/a", "/ab"), false);
  assert.equal(isWithin("/a/b", "/a"), false);
  assert.equal(isWithin("/", "/a"), true);
});
