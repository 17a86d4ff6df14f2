import assert from "node:assert/strict";
import { test } from "node:test";

import { ChangeCollector, MAX_CHANGES } from "../../src/orders/file_changes";

test("each path is reported once, with what became of it", () => {
  const collector = new ChangeCollector();
  collector.add("/a", "created");
  collector.add("/a", "modified");
  collector.add("/b", "created");
  collector.add("/b", "deleted");
  collector.add("/c", "deleted");
  collector.add("/c", "created");
  collector.add("/d", "modified");
  collector.add("/d", "deleted");
  assert.deepEqual(collector.take(), [
    { path: "/a", change: "created" },
    { path: "/c", change: "modified" },
    { path: "/d", change: "deleted" },
  ]);
  assert.ok(collector.isEmpty);
  assert.deepEqual(collector.take(), []);
});

test("too many changes are an overflow, and what comes later is reported again", () => {
  const collector = new ChangeCollector();
  for (let number = 0; number <= MAX_CHANGES; number += 1) {
    collector.add(`/${number}`, "created");
  }
  assert.equal(collector.take(), undefined);
  collector.add("/a", "modified");
  assert.deepEqual(collector.take(), [{ path: "/a", change: "modified" }]);
});
