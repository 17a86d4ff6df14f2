import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { compilePattern, grepFiles, matchingLines } from "../../src/orders/fallback_grep";
import { listWithoutRipgrep } from "../../src/orders/file_listing";
import { clipLine, findRipgrep, MatchCollector } from "../../src/orders/ripgrep";

let base = "";
const signal = new AbortController().signal;

before(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "glovebox-search-")));
  for (const [name, text] of Object.entries({
    "a.txt": "one\nTwo\nthree\n",
    "src/b.txt": "two\r\n",
    ".hid/c.txt": "two\n",
    "ignored/d.txt": "two\n",
    "e.bin": "two\0",
    ".gitignore": "ignored/\n",
  })) {
    mkdirSync(join(base, name, ".."), { recursive: true });
    writeFileSync(join(base, name), text);
  }
  execFileSync("git", ["init", "--quiet", base]);
});

after(() => rmSync(base, { recursive: true }));

async function names(hidden: boolean, ignored: boolean): Promise<string[]> {
  return (await listWithoutRipgrep(base, { hidden, ignored }, signal)).paths.sort();
}

test("without ripgrep files are listed with or without hidden and ignored files", async () => {
  assert.deepEqual(await names(false, false), ["a.txt", "e.bin", "src/b.txt"]);
  assert.deepEqual(await names(false, true), ["a.txt", "e.bin", "ignored/d.txt", "src/b.txt"]);
  assert.deepEqual(await names(true, false), [".gitignore", ".hid/c.txt", "a.txt", "e.bin", "src/b.txt"]);
  assert.deepEqual(await names(true, true), [
    ".gitignore",
    ".hid/c.txt",
    "a.txt",
    "e.bin",
    "ignored/d.txt",
    "src/b.txt",
  ]);
});

test("without ripgrep lines are found, and binary files are skipped", async () => {
  const order = {
    ...{ kind: "grep" as const, path: base, pattern: "two", literal: false, ignore_case: true, include: "" },
    ...{ hidden: false, ignored: false, before: 1, after: 1, most: 10 },
  };
  const paths = await names(false, false);
  assert.deepEqual(await grepFiles(order, base, paths, signal), {
    lines: [
      { path: "a.txt", line: 2, text: "Two", before: ["one"], after: ["three"] },
      { path: "src/b.txt", line: 1, text: "two", before: [], after: [] },
    ],
    incomplete: false,
  });
  const cut = await grepFiles({ ...order, most: 1 }, base, paths, signal);
  assert.deepEqual([cut.lines.length, cut.incomplete], [1, true]);
});

test("a pattern is an expression or literal, and a wrong one is refused", () => {
  const search = (pattern: string, literal: boolean): number =>
    matchingLines({ before: 0, after: 0 }, "f", "a.b\naxb\n", compilePattern({ pattern, literal, ignore_case: false })).length;
  assert.equal(search("a.b", false), 2);
  assert.equal(search("a.b", true), 1);
  assert.throws(() => search("(", false), { code: "bad_pattern" });
});

test("the output of ripgrep is parsed to lines with their context", () => {
  const matches = new MatchCollector(1, 1, (path) => path !== "skipped");
  const record = (type: string, path: string, line: number, text: string): string =>
    JSON.stringify({ type, data: { path: { text: path }, lines: { text }, line_number: line, submatches: [] } });
  matches.add(record("context", "f", 1, "before\n"));
  matches.add(record("match", "f", 2, "hit\r\n"));
  matches.add(record("match", "f", 3, "hit again\n"));
  matches.add(record("match", "skipped", 1, "hit"));
  matches.add(JSON.stringify({ type: "end", data: { path: { text: "f" } } }));
  matches.add(
    JSON.stringify({ type: "match", data: { path: { bytes: "Zw==" }, lines: { bytes: "Y+k=" }, line_number: 1 } }),
  );
  matches.finish();
  assert.deepEqual(matches.lines, [
    { path: "f", line: 2, text: "hit", before: ["before"], after: ["hit again"] },
    { path: "f", line: 3, text: "hit again", before: ["hit"], after: [] },
    { path: "g", line: 1, text: "c\ufffd", before: [], after: [] },
  ]);
});

test("a long line is clipped around its match", () => {
  const line = `${"a".repeat(5000)}HIT${"b".repeat(5000)}`;
  const part = clipLine(line, 5000);
  assert.match(part, /^\[…\]a+HITb+\[…\]$/);
  assert.ok(part.length < 1100);
  assert.match(clipLine(line, 0), /^a+\[…\]$/);
  assert.equal(clipLine("short", 3), "short");
});

test("the ripgrep of VS Code is preferred to that of the system", async () => {
  const own = join(base, "node_modules/@vscode/ripgrep-universal/bin", `${process.platform}-${process.arch}`, "rg");
  mkdirSync(join(own, ".."), { recursive: true });
  mkdirSync(join(base, "bin"));
  writeFileSync(join(base, "bin/rg"), "", { mode: 0o755 });
  assert.equal(await findRipgrep(base, join(base, "bin")), join(base, "bin/rg"));
  writeFileSync(own, "", { mode: 0o755 });
  assert.equal(await findRipgrep(base, join(base, "bin")), own);
  assert.equal(await findRipgrep(join(base, "src"), ""), undefined);
});
