import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { chooseHub, DEFAULT_HUB_URL, hubFilePath, normalizeUrl, readHubFile } from "../../src/hub/address_file";

const FILE = { url: "http://127.0.0.1:9000", key: "of the file" };

test("the path of the file is that of the hub", () => {
  assert.equal(hubFilePath({}, "/home/me"), "/home/me/.local/state/glovebox/hub/address.json");
  assert.equal(hubFilePath({ XDG_STATE_HOME: "" }, "/h"), "/h/.local/state/glovebox/hub/address.json");
  assert.equal(hubFilePath({ XDG_STATE_HOME: "/state" }, "/h"), "/state/glovebox/hub/address.json");
});

test("a file is read, and an invalid one is ignored", async () => {
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

test("addresses are normalized", () => {
  assert.equal(normalizeUrl(" http://Hub.example:80/ "), "http://hub.example");
  assert.equal(normalizeUrl("https://hub.example/base//"), "https://hub.example/base");
  assert.equal(normalizeUrl("hub.example:8790"), undefined);
  assert.equal(normalizeUrl("javascript:alert(1)"), undefined);
});

test("the settings come first, then the file, then the default address", () => {
  assert.equal(chooseHub("http://set:1", FILE, undefined).url, "http://set:1");
  assert.equal(chooseHub("", FILE, undefined).url, FILE.url);
  assert.equal(chooseHub("", undefined, undefined).url, DEFAULT_HUB_URL);
});

test("the key from the user comes first; that of the file is used only for the hub that wrote it", () => {
  assert.deepEqual(chooseHub("", FILE, "given").keys, ["given", FILE.key]);
  assert.deepEqual(chooseHub(FILE.url, FILE, undefined).keys, [FILE.key]);
  assert.deepEqual(chooseHub("http://elsewhere", FILE, undefined).keys, []);
  assert.deepEqual(chooseHub("http://elsewhere", FILE, "given").keys, ["given"]);
});
