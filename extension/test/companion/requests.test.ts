import assert from "node:assert/strict";
import { test } from "node:test";

import { allowedRequest, describeRequest } from "../../src/companion/requests";
import { Refusal } from "../../src/orders/refusal";
import { FORWARDED_PATHS, type Forward } from "../../src/protocol";

function order(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Forward {
  const text = typeof body === "string" ? body : body === undefined ? "" : JSON.stringify(body);
  return { kind: "forward", method, path, headers, body: Buffer.from(text) };
}

function action(name: unknown, args: Record<string, unknown> = {}): Forward {
  return order("POST", "/execute_action_stream", { action: { action: name, args }, details: true });
}

function isRefused(asked: Forward): boolean {
  try {
    allowedRequest(asked);
    return false;
  } catch (error) {
    assert.ok(error instanceof Refusal);
    assert.equal(error.code, "unsupported");
    return true;
  }
}

test("every path of the list is allowed, with a query", () => {
  for (const line of FORWARDED_PATHS) {
    const [method = "", path = ""] = line.split(" ");
    const asked = order(method, `${path.replaceAll(/\{\w+\}/g, "a-b.1")}?x=1`);
    assert.equal(allowedRequest(asked).path, asked.path);
  }
});

test("a path that is not on the list is refused, however it is written", () => {
  const others = [
    order("POST", "/commands"),
    order("POST", "/execute_action", { action: { action: "run", args: { command: "id" } } }),
    order("POST", "/mcp/box"),
    order("GET", "/sessions"),
    order("DELETE", "/kernels"),
    order("GET", "/kernels/../sessions"),
    order("GET", "/kernels/.."),
    order("GET", "/kernels/%2e%2e"),
    order("GET", "/kernels/a%2fb"),
    order("GET", "/kernels/a/../../sessions"),
    order("GET", "//kernels"),
    order("GET", "/kernels/"),
    order("GET", "/kernels#/x"),
    order("GET", "/kernels?a b"),
    order("GET", "/kernels?a\r\nX-Evil: 1"),
    order("GET", "/kernels\r\nX-Evil: 1"),
    order("GET", "http://elsewhere/kernels"),
    order("GET\r\n", "/kernels"),
    order("get", "/kernels"),
    order("POST", "/execute_action_stream?x", { action: { action: "run_ipython", args: {} } }),
  ];
  for (const asked of others) {
    assert.ok(isRefused(asked), `${asked.method} ${asked.path}`);
  }
});

test("only actions of the companion box are carried out", () => {
  for (const name of ["run_ipython", "browse", "browse_interactive", "call_tool_mcp"]) {
    assert.ok(!isRefused(action(name)));
  }
  for (const name of ["run", "read", "write", "edit", "command", ["run_ipython"], undefined, ""]) {
    assert.ok(isRefused(action(name)), String(name));
  }
  const path = "/execute_action_stream";
  assert.ok(isRefused(order("POST", path, "no JSON")));
  assert.ok(isRefused(order("POST", path, [])));
  assert.ok(isRefused(order("POST", path, { action: "run_ipython", args: {} })));
});

test("JSON with the same key twice is refused, and quotes and colons in texts are not keys", () => {
  const twice = '{"action": {"action": "run_ipython", "args": {"code": "1"}, "action": "run"}}';
  assert.ok(isRefused(order("POST", "/execute_action_stream", twice)));
  assert.ok(isRefused(order("POST", "/mcp", '{"method": "tools/call", "method": "ping"}')));
  const odd = 'a: "b": \\ \\" {"c": 1} \n';
  assert.ok(!isRefused(action("run_ipython", { code: odd, [odd]: [odd, { [odd]: null }] })));
});

test("only known headers are forwarded", () => {
  const { headers } = allowedRequest(
    order("GET", "/mcp", undefined, { accept: "*/*", "MCP-Session-Id": "1", cookie: "c", authorization: "a", host: "h" }),
  );
  assert.deepEqual(headers, { accept: "*/*", "MCP-Session-Id": "1" });
});

test("a person reads what will be run", () => {
  const code = "import os\nos.remove('a')";
  assert.deepEqual(describeRequest(action("run_ipython", { code })), {
    verb: "run Python code",
    what: code,
    detail: code,
    isQuestion: false,
  });
  assert.equal(describeRequest(action("browse", { url: "http://a/b" })).what, "http://a/b");
  const tool = describeRequest(action("call_tool_mcp", { name: "send", arguments: { to: "ada" } }));
  assert.deepEqual([tool.verb, tool.what], ["call the MCP tool", "send"]);
  assert.match(tool.detail, /"to": "ada"/);
  const setup = describeRequest(order("POST", "/update_mcp_server", [{ name: "x", command: "rm" }]));
  assert.equal(setup.isQuestion, false);
  assert.match(setup.detail, /"command": "rm"/);
});

test("messages of MCP clients that call a tool are no questions, and what only asks is", () => {
  const sent = (body: unknown, path = "/mcp"): boolean => describeRequest(order("POST", path, body)).isQuestion;
  assert.ok(sent({ method: "initialize", params: {} }));
  assert.ok(sent({ method: "tools/list" }, "/mcp/messages/?session_id=1"));
  assert.ok(sent({ method: "notifications/initialized" }));
  assert.ok(!sent({ method: "tools/call", params: { name: "a" } }));
  assert.ok(!sent([{ method: "ping" }, { method: "tools/call" }]));
  assert.ok(!sent({ method: "elsewhere/do" }));
  assert.ok(!sent("no JSON"));
  // The method of a message means nothing at other paths.
  assert.ok(!sent({ method: "ping", name: "k" }, "/kernels"));
  assert.ok(!describeRequest(order("PUT", "/mcp/servers", { method: "ping", mcpServers: {} })).isQuestion);
  assert.ok(describeRequest(order("GET", "/kernels")).isQuestion);
});
