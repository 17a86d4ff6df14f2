import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { chosenHub, hubFilePath, readHubFile, tidied, USUAL_HUB } from "../src/hub_file";

const FILE = { url: "http://127.0.0.1:9000", key: "of the file" };

test("the file is where the hub leaves it", () => {
  assert.equal(hubFilePath({}, "/home/me"), "/home/me/.local/state/glovebox/hub/address.json");
  assert.equal(hubFilePath({ XDG_STATE_HOME: "" }, "/h"), "/h/.local/state/glovebox/hub/address.json");
  assert.equal(hubFilePath({ XDG_STATE_HOME: "/state" }, "/h"), "/state/glovebox/hub/address.json");
});

test("a file is read, and one that makes no sense is none", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "glovebox-hub-file-"));
  try {
    const file = path.join(folder, "address.json");
    assert.equal(await readHubFile(file), undefined);
    writeFileSync(file, JSON.stringify({ url: "http://127.0.0.1:9000/", key: "k", pid: 1 }));
    assert.deepEqual(await readHubFile(file), { url: "http://127.0.0.1:9000", key: "k" });
    for (const broken of ["", "{", "[]", "null", '{"url": 1, "key": "k"}', '{"url": "file:///x", "key": "k"}']) {
      writeFileSync(file, broken);
      assert.equal(await readHubFile(file), undefined, broken);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("addresses are tidied", () => {
  assert.equal(tidied(" http://Hub.example:80/ "), "http://hub.example");
  assert.equal(tidied("https://hub.example/base//"), "https://hub.example/base");
  assert.equal(tidied("hub.example:8790"), undefined);
  assert.equal(tidied("javascript:alert(1)"), undefined);
});

test("the settings come first, then the file, then the usual address", () => {
  assert.equal(chosenHub("http://set:1", FILE, undefined).url, "http://set:1");
  assert.equal(chosenHub("", FILE, undefined).url, FILE.url);
  assert.equal(chosenHub("", undefined, undefined).url, USUAL_HUB);
});

test("the key that the user gave comes first; that of the file opens only the hub that wrote it", () => {
  assert.deepEqual(chosenHub("", FILE, "given").keys, ["given", FILE.key]);
  assert.deepEqual(chosenHub(FILE.url, FILE, undefined).keys, [FILE.key]);
  assert.deepEqual(chosenHub("http://elsewhere", FILE, undefined).keys, []);
  assert.deepEqual(chosenHub("http://elsewhere", FILE, "given").keys, ["given"]);
});
