import { Refusal } from "../orders/refusal";
import { ACTIONS_PATH, COMPANION_ACTIONS, type Forward, FORWARDED_PATHS } from "../protocol";

/** The headers of a request that are forwarded; the key of the companion box is added. */
const HEADERS = /^(accept|content-type|last-event-id|mcp-[a-z-]+)$/i;
/** Methods of MCP that only ask. */
const MCP_QUESTIONS =
  /^(initialize|ping|server\/discover|subscriptions\/listen|notifications\/[\w/]+|(tools|prompts|resources|resources\/templates)\/list)$/;
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
  /** To follow "wants to". */
  verb: string;
  /** The code, the address, the name of the tool. */
  what: string;
  /** All of it: also the arguments. */
  detail: string;
  /** It changes nothing and runs nothing that an agent has chosen. */
  isQuestion: boolean;
}

interface AgentAction {
  action: string;
  args: Record<string, unknown>;
}

/** The request of an order, as it is sent; throws a `Refusal` for what is not on the list. */
export function allowedRequest(order: Forward): CompanionRequest {
  const { method, body } = order;
  const [path, query] = splitQuery(order.path);
  const isAction = method === "POST" && order.path === ACTIONS_PATH;
  const isAllowed = isAction || ALLOWED.some((one) => one.method === method && one.pattern.test(path));
  if (!isAllowed || !/^[\x21-\x7e]*$/.test(query) || query.includes("#")) {
    throw new Refusal("unsupported", `The companion box does not answer ${shown(`${method} ${order.path}`)} here.`);
  }
  if (isAction) {
    agentAction(order);
  } else if (body.length > 0) {
    parseBody(body);
  }
  const headers = Object.fromEntries(Object.entries(order.headers).filter(([name]) => HEADERS.test(name)));
  return { method, path: order.path, headers, body };
}

/** Describe a request, from what is sent. */
export function describeRequest(order: Forward): RequestDescription {
  try {
    return order.path === ACTIONS_PATH ? describeAction(agentAction(order)) : describeOther(order);
  } catch {
    return description("use its companion box:", `${order.method} ${order.path}`); // it will be refused
  }
}

function describeAction({ action, args }: AgentAction): RequestDescription {
  const text = (name: string): string => (typeof args[name] === "string" ? args[name] : "");
  switch (action) {
    case "run_ipython":
      return description("run Python code", text("code"));
    case "browse":
      return description("open the page", text("url"));
    case "browse_interactive":
      return description("use the browser", text("browser_actions"));
    default:
      return description("call the MCP tool", text("name"), { name: args.name, arguments: args.arguments });
  }
}

function describeOther(order: Forward): RequestDescription {
  const path = splitQuery(order.path)[0];
  const posted = order.body.length > 0 ? parseBody(order.body) : undefined;
  if (order.method === "POST" && /^\/mcp$|\/messages\/$/.test(path)) {
    return describeMessage(posted);
  }
  if (path === "/update_mcp_server" || (order.method === "PUT" && path === "/mcp/servers")) {
    return description("set up MCP servers:", JSON.stringify(posted ?? null), posted);
  }
  const said = description("use its companion box:", `${order.method} ${path}`, posted);
  return { ...said, isQuestion: order.method === "GET" };
}

/** A message of an MCP client. */
function describeMessage(message: unknown): RequestDescription {
  const { method = "", params } = isRecord(message) ? message : {};
  if (method === "tools/call") {
    return description("call the MCP tool", isRecord(params) ? String(params.name) : "", params);
  }
  const isReply = isRecord(message) && !("method" in message) && ("result" in message || "error" in message);
  const isQuestion = isReply || (typeof method === "string" && MCP_QUESTIONS.test(method));
  return { ...description("send to MCP servers:", String(method), message), isQuestion };
}

function description(verb: string, what: string, all?: unknown): RequestDescription {
  const detail = all === undefined ? what : JSON.stringify(all, null, 2);
  return { verb, what, detail, isQuestion: false };
}

function agentAction(order: Forward): AgentAction {
  const posted = parseBody(order.body);
  const action = isRecord(posted) ? posted.action : undefined;
  if (!isRecord(action) || !isRecord(action.args) || typeof action.action !== "string") {
    throw new Refusal("unsupported", "That is no action for the companion box.");
  }
  if (!COMPANION_ACTIONS.includes(action.action)) {
    throw new Refusal("unsupported", `The companion box does not carry out ${shown(action.action)}.`);
  }
  return { action: action.action, args: action.args };
}

/** JSON whose keys are all different: with two of the same, the box might take the other one. */
function parseBody(body: Uint8Array): unknown {
  const text = Buffer.from(body).toString();
  try {
    const parsed: unknown = JSON.parse(text);
    const written = text.replaceAll(/"(?:[^"\\]|\\.)*"/g, "").split(":").length - 1;
    if (countKeys(parsed) === written) {
      return parsed;
    }
  } catch {
    // It is refused, too.
  }
  throw new Refusal("unsupported", "The body for the companion box is not JSON, or has the same key twice.");
}

function countKeys(value: unknown): number {
  if (typeof value !== "object" || value === null) {
    return 0;
  }
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce<number>((sum, part) => sum + countKeys(part), own);
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
