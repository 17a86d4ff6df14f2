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

async function refused(path: string, code: string, confinement = containment): Promise<void> {
  await assert.rejects(confinement.resolve(path), (error) => error instanceof Refusal && error.code === code);
}

test("a path in any folder is resolved, whether it exists or not", async () => {
  assert.deepEqual(await containment.resolve(at("one/file")), { path: at("one/file"), real: at("one/file") });
  assert.equal((await containment.resolve(at("two/new/er"))).real, at("two/new/er"));
  assert.equal((await containment.resolve(at("one"))).real, at("one"));
  assert.equal((await containment.resolve(`${at("one/sub")}//../sub/`)).path, at("one/sub"));
});

test("links that stay inside are followed", async () => {
  assert.equal((await containment.resolve(at("one/in/new"))).real, at("one/sub/new"));
});

test("paths outside are refused with the names of the folders", async () => {
  for (const path of [at("outside/secret"), at("one-other"), at("one/../outside/secret"), base, "/", "one/file", ""]) {
    await refused(path, "outside_workspace");
  }
  await refused(`${at("one/file")}\0`, "outside_workspace");
  await assert.rejects(containment.resolve("/etc"), new RegExp(`${at("one")}, ${at("two")}`));
});

test("links that lead outside are refused, also those whose target does not exist", async () => {
  for (const path of ["one/out", "one/out/secret", "one/out/new", "one/nowhere", "one/nowhere/below", "one/tricky"]) {
    await refused(at(path), "outside_workspace");
  }
  await refused(at("one/loop"), "failed");
});

test("an entry that is a link is in its directory, wherever the link leads", async () => {
  assert.equal((await containment.resolveEntry(at("one/out"))).real, at("one/out"));
  await assert.rejects(containment.resolveEntry(at("one/out/secret")), { code: "outside_workspace" });
  await assert.rejects(containment.resolveEntry("/"), { code: "outside_workspace" });
});

test("a folder that is opened through a link contains its files", async () => {
  const through = new Containment(() => [at("door")]);
  assert.equal((await through.resolve(at("door/file"))).real, at("one/file"));
  assert.equal((await through.resolve(at("one/file"))).real, at("one/file"));
});

test("without a folder everything is refused", async () => {
  const nothing = new Containment(() => []);
  await refused(at("one/file"), "no_folder", nothing);
  assert.throws(() => nothing.home(), { code: "no_folder" });
});

test("folders of the workspace are recognized", async () => {
  assert.equal(await containment.containsFolder(await containment.resolveEntry(at("one"))), true);
  assert.equal(await containment.containsFolder(await containment.resolveEntry(at("one/sub"))), false);
});

test("a name with the same prefix is not inside", () => {
  assert.equal(isWithin("/a", "/a/..b"), true);
  assert.equal(isWithin("/a", "/ab"), false);
  assert.equal(isWithin("/a/b", "/a"), false);
  assert.equal(isWithin("/", "/a"), true);
});
