import { Refusal } from "../orders/refusal";
import { ACTIONS_PATH, COMPANION_ACTIONS, type Forward, FORWARDED_PATHS } from "../protocol";

/** The headers of a request that are forwarded; the key of the companion box is added. */
const HEADERS = new Set(["accept", "content-type", "last-event-id", "mcp-session-id", "mcp-protocol-version"]);
/** The most characters of a request that a person is shown. */
const MAX_DETAIL = 20_000;
/** Methods of MCP that only ask, besides notifications. */
const MCP_QUESTIONS = /^(initialize|ping|server\/discover|[a-z/]+\/(list|listen|get|read|templates\/list))$/;
const ALLOWED = FORWARDED_PATHS.map((line) => {
  const [method = "", path = ""] = line.split(" ");
  // A name is neither `.` nor `..`, and has nothing that is decoded to something else.
  const pattern = path.replaceAll(/\{\w+\}/g, "(?!\\.{1,2}(?:/|$))[\\w.~-]+");
  return { method, pattern: new RegExp(`^${pattern}$`) };
});

/** A request that may be sent to the companion box. */
export interface CompanionRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: Uint8Array;
}

/** What a request is for, for the person who decides about it. */
export interface RequestDescription {
  /** In one line. */
  title: string;
  /** All of it: the code of a cell, the arguments of a tool. */
  detail: string;
  /** It changes nothing and runs nothing that an agent has chosen. */
  isQuestion: boolean;
}

interface AgentAction {
  action: string;
  args: Record<string, unknown>;
  timeout?: unknown;
}

/** The request of an order, as it is sent; throws a `Refusal` for what is not on the list. */
export function allowedRequest(order: Forward): CompanionRequest {
  const { method } = order;
  const [path, query] = splitQuery(order.path);
  const headers = Object.fromEntries(Object.entries(order.headers).filter(([name]) => HEADERS.has(name.toLowerCase())));
  if (method === "POST" && order.path === ACTIONS_PATH) {
    // Written anew: what was checked is what is sent.
    const body = Buffer.from(JSON.stringify({ action: agentAction(order), details: true }));
    return { method, path, headers, body };
  }
  const isAllowed = ALLOWED.some((one) => one.method === method && one.pattern.test(path));
  if (!isAllowed || !/^[\x21-\x7e]*$/.test(query) || query.includes("#")) {
    throw new Refusal("unsupported", `The companion box does not answer ${shown(`${method} ${order.path}`)} here.`);
  }
  return { method, path: order.path, headers, body: order.body };
}

/** Describe a request, from what is sent. */
export function describeRequest(order: Forward): RequestDescription {
  try {
    return order.path === ACTIONS_PATH ? describeAction(agentAction(order)) : describeOther(order);
  } catch {
    return { title: shown(`${order.method} ${order.path}`), detail: "", isQuestion: false }; // it will be refused
  }
}

function describeAction({ action, args }: AgentAction): RequestDescription {
  const text = (name: string): string => (typeof args[name] === "string" ? args[name] : "");
  switch (action) {
    case "run_ipython":
      return description("Run Python", text("code"));
    case "browse":
      return description("Open", text("url"));
    case "browse_interactive":
      return description("In the browser", text("browser_actions"));
    default:
      return description(`MCP tool ${text("name")}`, JSON.stringify(args.arguments ?? {}, null, 2));
  }
}

function describeOther(order: Forward): RequestDescription {
  const text = Buffer.from(order.body).toString();
  const path = splitQuery(order.path)[0];
  if (order.method === "POST" && /^\/mcp$|\/messages\/$/.test(path)) {
    return describeMessage(JSON.parse(text));
  }
  if (path === "/update_mcp_server" || (order.method === "PUT" && path === "/mcp/servers")) {
    return description("Set up MCP servers", JSON.stringify(JSON.parse(text), null, 2));
  }
  return { ...description(`${order.method} ${path}`, text), isQuestion: order.method === "GET" };
}

/** A message of an MCP client. */
function describeMessage(message: unknown): RequestDescription {
  const { method = "", params = {} } = isRecord(message) ? message : {};
  if (method !== "tools/call" || !isRecord(params)) {
    const isQuestion = typeof method === "string" && (method.startsWith("notifications/") || MCP_QUESTIONS.test(method));
    return { ...description(`MCP ${String(method)}`, JSON.stringify(message, null, 2)), isQuestion };
  }
  const { name, arguments: given = {} } = params;
  return description(`MCP tool ${String(name)}`, JSON.stringify(given, null, 2));
}

function description(what: string, detail: string): RequestDescription {
  const first = detail.trim().split("\n", 1)[0] ?? "";
  return { title: shown(first ? `${what}: ${first}` : what), detail: detail.slice(0, MAX_DETAIL), isQuestion: false };
}

function agentAction(order: Forward): AgentAction {
  const posted: unknown = JSON.parse(Buffer.from(order.body).toString());
  const action = isRecord(posted) ? posted.action : undefined;
  if (!isRecord(action) || !isRecord(action.args) || !COMPANION_ACTIONS.includes(String(action.action))) {
    const name = isRecord(action) ? String(action.action) : "that";
    throw new Refusal("unsupported", `The companion box does not carry out ${shown(name)}.`);
  }
  return { action: String(action.action), args: action.args, timeout: action.timeout };
}

function splitQuery(path: string): [string, string] {
  const at = path.indexOf("?");
  return at < 0 ? [path, ""] : [path.slice(0, at), path.slice(at + 1)];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function shown(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length > 200 ? `${line.slice(0, 200)} …` : line;
}
