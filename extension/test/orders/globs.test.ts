import assert from "node:assert/strict";
import { test } from "node:test";

import { excluder, includeMatcher, matcher, namesHidden } from "../../src/orders/globs";

function matching(pattern: string, hidden = false): string[] {
  const paths = ["a.py", "b.ts", ".h.py", "src/a.py", "src/deep/b.py", "src/.hid/c.py", "a,b", "src/x[1].py", "+(.py"];
  return paths.filter(matcher(pattern, hidden));
}

test("stars match within a name, two of them any directories", () => {
  assert.deepEqual(matching("*.py"), ["a.py", "+(.py"]);
  assert.deepEqual(matching("*/*.py"), ["src/a.py", "src/x[1].py"]);
  assert.deepEqual(matching("**/b.py"), ["src/deep/b.py"]);
  assert.deepEqual(matching("**/a.py"), ["a.py", "src/a.py"]);
  assert.deepEqual(matching("src/**"), ["src/a.py", "src/deep/b.py", "src/x[1].py"]);
  assert.equal(matching("**").length, 7);
});

test("names that start with a dot are matched if the pattern or the caller includes them", () => {
  assert.deepEqual(matching("*.py", true), ["a.py", ".h.py", "+(.py"]);
  assert.deepEqual(matching(".*.py"), [".h.py"]);
  assert.deepEqual(matching("src/.hid/*"), ["src/.hid/c.py"]);
  assert.deepEqual(matching("src/**/c.py", true), ["src/.hid/c.py"]);
  assert.equal(namesHidden(".github/**"), true);
  assert.equal(namesHidden("a/{.b,c}"), true);
  assert.equal(namesHidden("a.b/*.c"), false);
  assert.equal(namesHidden("./a"), false);
});

test("braces are alternatives, brackets are sets, everything else is itself", () => {
  assert.deepEqual(matching("*.{py,ts}"), ["a.py", "b.ts", "+(.py"]);
  assert.deepEqual(matching("a{.py,,b}"), ["a.py"]);
  assert.deepEqual(matching("a{*,x}"), ["a.py", "a,b"]);
  assert.deepEqual(matching("[ab].*"), ["a.py", "b.ts"]);
  assert.deepEqual(matching("[!a].*"), ["b.ts"]);
  assert.deepEqual(matching("a,?"), ["a,b"]);
  assert.deepEqual(matching("src/x[[]1].py"), ["src/x[1].py"]);
  assert.deepEqual(matching("+(.py"), ["+(.py"]);
});

test("a glob that is not closed is refused", () => {
  for (const pattern of ["[a", "{a,b", "a["]) {
    assert.throws(() => matcher(pattern, false), { code: "bad_pattern" });
  }
});

test("an include glob matches file names unless it has a slash", () => {
  assert.equal(includeMatcher("*.py")("src/deep/b.py"), true);
  assert.equal(includeMatcher("src/*.py")("src/a.py"), true);
  assert.equal(includeMatcher("src/*.py")("other/src/a.py"), false);
  assert.equal(includeMatcher("/src/*.py")("src/a.py"), true);
});

test("what is excluded by a setting is excluded with all that is in it", () => {
  const isExcluded = excluder(["**/node_modules", "out/", "docs/*.md", "a[b"], "");
  const paths = ["node_modules/x.js", "a/node_modules/b/c.js", "out/deep/x", "docs/a.md", "src/out/x", "docs/b/a.md", "x.js"];
  assert.deepEqual(paths.filter(isExcluded), paths.slice(0, 4));
});

test("settings are relative to the folder, and a directory that is searched itself is not excluded", () => {
  const isExcluded = excluder(["**/vendor", "lib/vendor/old"], "lib/vendor");
  assert.deepEqual(["a.js", "old/b.js", "x/vendor/c.js"].filter(isExcluded), ["old/b.js", "x/vendor/c.js"]);
});
