import assert from "node:assert/strict";
import { test } from "node:test";
import { ABSENT, ChangeList, type FileChange, kindOf, MAX_BYTES, MAX_CHANGES, type Snapshot, snapshotText, step, stops, undoObstacle } from "../../src/changes/model";
import { sha256 } from "../../src/orders/text_changes";

function file(text: string): Snapshot {
  const data = Buffer.from(text);
  return { hash: sha256(data), data };
}

function found(list: ChangeList, path: string): FileChange {
  const change = list.find(path);
  assert.ok(change);
  return change;
}

function shown(list: ChangeList): string[] {
  return list.all.map((change) => `${kindOf(change)} ${change.from ? `${change.from} ` : ""}${change.path}`);
}

test("the first text of a file is kept through many edits", () => {
  const list = new ChangeList();
  list.write("/a", file("one"), file("two"));
  list.write("/a", file("two"), file("three"));
  const change = found(list, "/a");
  assert.equal(snapshotText(change.before), "one");
  assert.equal(change.after, file("three").hash);
  assert.equal(undoObstacle(change), undefined);
  assert.deepEqual(shown(list), ["modified /a"]);
});

test("a file that is as it was is no change", () => {
  const list = new ChangeList();
  list.write("/a", file("one"), file("two"));
  list.write("/a", file("two"), file("one"));
  list.write("/b", ABSENT, file("new"));
  list.write("/b", file("new"), ABSENT);
  assert.deepEqual(shown(list), []);
});

test("a change by somebody else in between cannot be undone", () => {
  const list = new ChangeList();
  list.write("/a", file("one"), file("two"));
  list.write("/a", file("two, and the user's"), file("three"));
  assert.match(undoObstacle(found(list, "/a")) ?? "", /also changed by you/);
});

test("created and deleted files are listed", () => {
  const list = new ChangeList();
  list.write("/new", ABSENT, file(""));
  list.write("/old", { ...file("x"), mode: 0o755 }, ABSENT);
  assert.deepEqual(shown(list), ["created /new", "deleted /old"]);
  assert.equal(list.find("/old")?.before.mode, 0o755);
});

test("a moved file is one change, also when it is edited before or after", () => {
  const list = new ChangeList();
  list.write("/a", file("one"), file("two"));
  list.move("/a", "/b", file("two"), ABSENT);
  list.write("/b", file("two"), file("three"));
  assert.deepEqual(shown(list), ["moved /a /b"]);
  assert.equal(snapshotText(found(list, "/b").before), "one");
  list.move("/b", "/c", file("three"), ABSENT);
  assert.deepEqual(shown(list), ["moved /a /c"]);
  list.move("/c", "/a", file("three"), ABSENT);
  assert.deepEqual(shown(list), ["modified /a"]);
});

test("a moved file that is deleted is missing at its first path", () => {
  const list = new ChangeList();
  list.move("/a", "/b", file("one"), ABSENT);
  list.write("/b", file("one"), ABSENT);
  assert.deepEqual(shown(list), ["deleted /a"]);
  assert.equal(snapshotText(found(list, "/a").before), "one");
});

test("a new file at the old path of a moved one makes two changes", () => {
  const list = new ChangeList();
  list.move("/a", "/b", file("one"), ABSENT);
  list.write("/a", ABSENT, file("other"));
  assert.deepEqual(shown(list), ["modified /a", "created /b"]);
  assert.equal(snapshotText(found(list, "/a").before), "one");
  assert.equal(undoObstacle(found(list, "/a")), undefined);
});

test("a file that replaces another is a deleted and a changed one", () => {
  const list = new ChangeList();
  list.move("/a", "/b", file("one"), file("two"));
  assert.deepEqual(shown(list), ["deleted /a", "modified /b"]);
  assert.equal(snapshotText(found(list, "/b").before), "two");
});

test("a file that is moved to where the agent has deleted one does not hide that", () => {
  const list = new ChangeList();
  list.write("/b", file("two"), ABSENT);
  list.write("/a", file("one"), file("1"));
  list.move("/a", "/b", file("1"), ABSENT);
  assert.deepEqual(shown(list), ["deleted /a", "modified /b"]);
  assert.deepEqual(list.all.map(({ before }) => snapshotText(before)), ["one", "two"]);
});

test("a created file that is moved is created at its new path", () => {
  const list = new ChangeList();
  list.write("/a", ABSENT, file("one"));
  list.move("/a", "/b", file("one"), ABSENT);
  assert.deepEqual(shown(list), ["created /b"]);
});

test("what is kept is bounded", () => {
  const list = new ChangeList();
  const large = { hash: "large", data: new Uint8Array(MAX_BYTES) };
  list.write("/large", large, file("small"));
  list.write("/next", file("one"), file("two"));
  assert.match(undoObstacle(found(list, "/next")) ?? "", /too large/);
  for (let number = 0; number < MAX_CHANGES; number += 1) {
    list.write(`/${number}`, ABSENT, file("x"));
  }
  assert.equal(list.all.length, MAX_CHANGES);
  assert.equal(list.unlisted, 2);
});

test("edits of the user remove marks, and changes can be stepped through over files", () => {
  const list = new ChangeList();
  list.write("/a", file("1\n2\n3\n4\n5\n"), file("1\nX\n3\nY\n5\n"));
  list.write("/b", file("1\n"), file("Z\n"));
  const all = stops(list.all);
  assert.deepEqual(all, [{ path: "/a", line: 1 }, { path: "/a", line: 3 }, { path: "/b", line: 0 }]);
  assert.deepEqual(step(all, undefined, 1), all[0]);
  assert.deepEqual(step(all, { path: "/a", line: 1 }, 1), all[1]);
  assert.deepEqual(step(all, { path: "/a", line: 3 }, 1), all[2]);
  assert.deepEqual(step(all, { path: "/b", line: 0 }, 1), all[0]);
  assert.deepEqual(step(all, { path: "/b", line: 0 }, -1), all[1]);
  assert.equal(step([], undefined, 1), undefined);
  list.edit("/a", 1, 1, 1);
  assert.deepEqual(stops(list.all).map(({ line }) => line), [3, 0]);
});
