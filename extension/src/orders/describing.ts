import type { Order } from "../protocol";

const LONGEST = 120;

/** What an order is about, in one line; undefined if that would only be noise. */
export function described(order: Order): string | undefined {
  switch (order.kind) {
    case "run":
    case "run_apart":
      return oneLine(order.command);
    case "input":
      return oneLine(JSON.stringify(order.text));
    case "end_session":
      return order.session;
    case "put":
    case "drop":
      return undefined;
    case "read":
      return order.offset === 0 ? order.path : undefined;
    case "glob":
    case "grep":
      return `${oneLine(order.pattern)} in ${order.path}`;
    case "move":
      return `${order.path} to ${order.to}`;
    default:
      return order.path;
  }
}

function oneLine(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length < text.trim().length || line.length > LONGEST ? `${line.slice(0, LONGEST)} …` : line;
}
