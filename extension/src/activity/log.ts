import { describeRequest } from "../companion/requests";
import type { Answer, Order } from "../protocol";
import type { Activity } from "./model";

/** The most characters of a summary or reason in a line of the log. */
const MAX_LOGGED = 500;
/** The most characters of a command or pattern in a summary. */
const MAX_SUMMARY = 120;

/** A log for people; VS Code's log channels are such. */
export interface Log {
  debug(line: string): void;
  info(line: string): void;
  warn(line: string): void;
  error(line: string): void;
}

/** Is notified of the orders that an agent's actions are made of, to show them to the user. */
export interface ActivityObserver {
  /** `action` is the id of the action; empty for none. */
  orderStarted(order: Order, action: string): void;
  printed(action: string, text: string): void;
  orderEnded(order: Order, action: string, answer: Answer): void;
  orderRefused(order: Order, action: string, reason: string): void;
}

/** Shows an agent's actions: in the view, and each order in a line of the log. */
export class ActivityLog implements ActivityObserver {
  #announced = false;

  /** `announce` is called for the first action of a connection. */
  constructor(
    private readonly log: Log,
    private readonly activity: Pick<Activity, "orderStarted" | "printed" | "orderEnded">,
    private readonly announce: () => void,
  ) {}

  /** Start a new connection, whose first action is announced again. */
  reset(): void {
    this.#announced = false;
  }

  orderStarted(order: Order, action: string): void {
    this.activity.orderStarted(order, action);
    const summary = summarizeOrder(order);
    if (summary === undefined) {
      return;
    }
    this.log.info(`${order.kind}: ${joinLines(summary)}`);
    if (!this.#announced) {
      this.#announced = true;
      this.announce();
    }
  }

  printed(action: string, text: string): void {
    this.activity.printed(action, text);
  }

  orderEnded(_order: Order, action: string, answer: Answer): void {
    this.activity.orderEnded(action, answer);
  }

  orderRefused(order: Order, action: string, reason: string): void {
    this.activity.orderEnded(action);
    const summary = summarizeOrder(order) ?? "";
    this.log.warn(`${order.kind} refused: ${joinLines(summary)} (${joinLines(reason)})`);
  }
}

/** An order in one line; undefined for orders that are not worth a line, such as the further pieces of a file. */
export function summarizeOrder(order: Order): string | undefined {
  switch (order.kind) {
    case "run":
    case "run_apart":
      return firstLine(order.command);
    case "input":
      return firstLine(JSON.stringify(order.text));
    case "end_session":
      return order.session;
    case "arrive":
    case "depart":
    case "put":
    case "drop":
    case "fetch_body":
      return undefined;
    case "forward": {
      const { verb, what, isQuestion } = describeRequest(order);
      return isQuestion ? undefined : firstLine(`${verb} ${what}`);
    }
    case "read":
      return order.offset === 0 ? order.path : undefined;
    case "glob":
    case "grep":
      return `${firstLine(order.pattern)} in ${order.path}`;
    case "move":
      return `${order.path} to ${order.to}`;
    default:
      return order.path;
  }
}

function firstLine(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length < text.trim().length || line.length > MAX_SUMMARY ? `${line.slice(0, MAX_SUMMARY)} …` : line;
}

function joinLines(text: string): string {
  const line = text.trim().replace(/\s*\n\s*/g, " ⏎ ");
  return line.length > MAX_LOGGED ? `${line.slice(0, MAX_LOGGED)} …` : line;
}
