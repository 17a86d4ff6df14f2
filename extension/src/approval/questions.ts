import { describeRequest } from "../companion/requests";
import type { Order } from "../protocol";

/** The most characters of a question. */
const MAX_QUESTION = 300;

/** What the user decides about. */
export interface Question {
  /** What the agent wants to do, to follow its name: "wants to run `make`". */
  text: string;
  /** The command, path or address, in one line. */
  summary: string;
  /** All of it. */
  detail: string;
}

/** The question for an order; `shorten` shortens a path for people. */
export function questionFor(order: Order, shorten: (path: string) => string): Question {
  const { verb, what, detail } = describe(withShortPaths(order, shorten));
  const summary = oneLine(what);
  return { text: `wants to ${verb}${summary === "" ? "" : ` ${summary}`}`, summary, detail: detail ?? what };
}

function withShortPaths(order: Order, shorten: (path: string) => string): Order {
  const to = "to" in order ? { to: shorten(order.to) } : {};
  return "path" in order && order.kind !== "forward" ? { ...order, path: shorten(order.path), ...to } : order;
}

interface Description {
  verb: string;
  what: string;
  detail?: string;
}

function describe(order: Order): Description {
  switch (order.kind) {
    case "run":
      return { verb: "run", what: order.command };
    case "run_apart":
      return { verb: "run in the background", what: order.command };
    case "input":
      return { verb: "type into its terminal", what: JSON.stringify(order.text) };
    case "write":
      return { verb: "edit", what: order.path };
    case "land":
      return { verb: "upload", what: order.path };
    case "move":
      return { verb: "move", what: `${order.path} to ${order.to}${order.overwrite ? ", over what is there" : ""}` };
    case "delete":
      return { verb: "delete", what: `${order.path}${order.recursive ? " and everything in it" : ""}` };
    case "make_directory":
      return { verb: "make the directory", what: order.path };
    case "stat":
    case "list":
    case "read":
      return { verb: order.kind === "read" ? "read" : "look at", what: order.path };
    case "glob":
    case "grep":
      return { verb: "search", what: `${order.path} for ${order.pattern}` };
    case "forward":
      return describeRequest(order);
    default:
      return { verb: order.kind.replaceAll("_", " "), what: "" };
  }
}

/** A text in one line, without characters that would hide or turn around a part of it. */
export function oneLine(text: string): string {
  const line = text.trim().replaceAll(/\s*[\r\n]+\s*/g, " ⏎ ").replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "\ufffd");
  return line.length > MAX_QUESTION ? `${line.slice(0, MAX_QUESTION)} …` : line;
}
