import assert from "node:assert/strict";
import { test } from "node:test";
import { type Facts, grantKey, type Mode, MODES, needsApproval } from "../../src/approval/policy";
import type { Order } from "../../src/protocol";

function facts(mode: Mode, more: Partial<Facts> = {}): Facts {
  return { mode, allowed: [], isInside: () => true, paths: [], approvedCommand: false, ...more };
}

const run: Order = { kind: "run", session: "main", command: "make", cwd: "" };
const look: Order = { kind: "run", session: "main", command: "ls", cwd: "" };
const apart: Order = { kind: "run_apart", command: "make", cwd: "" };
const read: Order = { kind: "read", path: "/w/a", offset: 0, length: 1 };
const write: Order = { kind: "write", path: "/w/a", data: new Uint8Array(), expected: "", exclusive: false };
const land: Order = { kind: "land", upload: "u", path: "/w/a" };
const put: Order = { kind: "put", upload: "u", data: new Uint8Array() };
const move: Order = { kind: "move", path: "/w/a", to: "/w/b", overwrite: false };
const remove: Order = { kind: "delete", path: "/w/a", recursive: false };
const makeDirectory: Order = { kind: "make_directory", path: "/w/a" };
const input: Order = { kind: "input", session: "main", text: "y\r" };
const cell: Order = { kind: "forward", method: "POST", path: "/execute_action", headers: {}, body: new Uint8Array() };
const status: Order = { ...cell, method: "GET", path: "/alive" };


function message(content: unknown): Order {
  return { ...cell, path: "/mcp", body: Buffer.from(JSON.stringify(content)) } as Order;
}

/** The modes in which the user is asked. */
const ASKED: [string, Order, Mode[]][] = [
  ["a command", run, ["everything", "edits", "commands"]],
  ["a command apart", apart, ["everything", "edits", "commands"]],
  ["a harmless command", look, ["everything"]],
  ["reading", read, ["everything"]],
  ["an edit", write, ["everything", "edits"]],
  ["an upload", land, ["everything", "edits"]],
  ["a piece of an upload", put, []],
  ["a move", move, ["everything", "edits"]],
  ["a move over another file", { ...move, overwrite: true }, ["everything", "edits", "commands"]],
  ["a deletion", remove, ["everything", "edits", "commands"]],
  ["a new directory", makeDirectory, ["everything"]],
  ["input for what the user has not allowed", input, ["everything", "edits", "commands"]],
  ["Ctrl-C", { ...input, text: "\x03" }, []],
  ["a request that changes something in the companion box", cell, ["everything", "edits", "commands"]],
  ["a request that looks at the companion box", status, ["everything"]],
  ["a call of an MCP tool", message({ jsonrpc: "2.0", id: 1, method: "tools/call" }), ["everything", "edits", "commands"]],
  ["a list of MCP tools", message({ jsonrpc: "2.0", id: 1, method: "tools/list" }), ["everything"]],
  ["several MCP messages at once", message([{ method: "ping" }]), ["everything", "edits", "commands"]],
  ["the arrival of an agent, which has a question of its own", { kind: "arrive", agent: "A", stay: "s", ask: true, env: {} }, []],
  ["the end of a session", { kind: "end_session", session: "main" }, []],
];

for (const [what, order, modes] of ASKED) {
  test(`${what} is asked for in the modes: ${modes.join(", ") || "none"}`, () => {
    assert.deepEqual(MODES.filter((mode) => needsApproval(order, facts(mode, { paths: ["a"] }))), modes);
  });
}

test("input for a command that the user has allowed belongs to it, unless everything is asked for", () => {
  assert.deepEqual(MODES.filter((mode) => needsApproval(input, facts(mode, { approvedCommand: true }))), ["everything"]);
});

test("a change of what decides over programs and permissions is asked for", () => {
  const protectedPaths = [
    ".vscode/settings.json",
    "sub/.vscode/tasks.json",
    ".VSCode/settings.json",
    "project.code-workspace",
    ".git/config",
    ".git",
    "sub/.git/hooks/pre-commit",
    "bare/HEAD",
    ".husky/pre-commit",
    ".venv/bin/python",
    "node_modules/.bin/tsc",
    ".envrc",
    ".bashrc",
    ".zshenv",
    ".profile",
    ".ssh/authorized_keys",
    ".config/Code/User/settings.json",
    ".devcontainer/devcontainer.json",
  ];
  const changes: Order[] = [write, land, move, makeDirectory];
  for (const path of protectedPaths) {
    for (const order of changes) {
      assert.equal(needsApproval(order, facts("commands", { paths: ["plain", path] })), true, `${order.kind} ${path}`);
    }
    assert.equal(needsApproval(write, facts("allow", { paths: [path] })), false);
  }
  for (const path of ["src/hooks/use.ts", "head.tsx", ".github/workflows/ci.yml", ".gitignore", "a.vscode.txt", "components/head/index.ts"]) {
    assert.equal(needsApproval(write, facts("commands", { paths: [path] })), false, path);
  }
});

test("in the strictest mode a command that the user always allows is not asked for, a harmless one is", () => {
  assert.equal(needsApproval(run, facts("everything", { allowed: ["make *"] })), false);
  assert.equal(needsApproval(look, facts("everything", { allowed: ["make *"] })), true);
});

test("reading is asked for once for each action, uploads too", () => {
  assert.equal(grantKey(read, "1"), grantKey({ kind: "stat", path: "/w/b" }, "1"));
  assert.notEqual(grantKey(read, "1"), grantKey(read, "2"));
  assert.equal(grantKey(read, ""), grantKey({ ...read, offset: 9 }, ""));
  assert.notEqual(grantKey(read, ""), grantKey({ kind: "stat", path: "/w/b" }, ""));
  assert.equal(grantKey(land, "1"), grantKey({ ...land, path: "/w/b" }, "1"));
  assert.equal(grantKey(land, ""), undefined);
  assert.equal(grantKey(write, "1"), undefined);
  assert.equal(grantKey(run, "1"), undefined);
});
