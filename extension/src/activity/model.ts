import { Listeners } from "../listeners";
import type { ActionReport, Answer, Order } from "../protocol";
import { summarizeOrder } from "./log";
import { ActionOutput, answerText } from "./output";

/** How many actions are kept. */
export const MAX_ACTIONS = 200;
/** How many files are kept of an action. */
const MAX_FILES = 50;

export type ActionState = "waiting" | "running" | "succeeded" | "failed";

/** An action of an agent, with what is known of it so far. */
export interface AgentAction {
  readonly id: string;
  kind: string;
  /** The command, the path or the address, in one line. */
  summary: string;
  state: ActionState;
  /** Of an action that has ended. */
  seconds: number;
  /** Of a command that has ended. */
  exitCode: number | null;
  /** Why it failed. */
  message: string;
  readonly output: ActionOutput;
  /** The files that it has read or changed, as absolute paths. */
  readonly files: Set<string>;
}

interface Tracked extends AgentAction {
  /** How many of its orders are running; a command may run on after the action has ended. */
  orders: number;
  /** How the hub says that it has ended. */
  end?: "succeeded" | "failed";
}

/** The actions of an agent in this window, as they happen. */
export class Activity {
  readonly #actions = new Map<string, Tracked>();
  readonly #listeners = new Listeners();
  #waiting: ReadonlySet<string> = new Set();
  #agent = "";

  /** Calls back after changes. */
  readonly onDidChange = this.#listeners.add;

  /** The name of the agent that acted last; empty if it has none. */
  get agent(): string {
    return this.#agent;
  }

  /** The newest first. */
  get actions(): readonly AgentAction[] {
    return [...this.#actions.values()].reverse();
  }

  get isWorking(): boolean {
    return [...this.#actions.values()].some(({ state }) => state === "running" || state === "waiting");
  }

  find(id: string): AgentAction | undefined {
    return this.#actions.get(id);
  }

  /** Take a report of the hub; one that comes twice, or late, changes nothing. */
  report(report: ActionReport): void {
    this.#agent = report.agent || this.#agent;
    const action = this.#track(report.id, report.kind, report.summary);
    if (action.end === undefined && report.state !== "started") {
      action.end = report.state;
      action.seconds = report.seconds;
      action.exitCode = report.exit_code ?? action.exitCode;
      action.message = report.message;
      action.output.add(report.output);
    }
    action.kind = report.kind;
    action.summary = report.summary;
    this.#update(action);
  }

  orderStarted(order: Order, id: string): void {
    if (id === "") {
      return;
    }
    const action = this.#track(id, order.kind, summarizeOrder(order) ?? "");
    action.orders += 1;
    for (const path of pathsOf(order)) {
      if (action.files.size < MAX_FILES) {
        action.files.add(path);
      }
    }
    this.#update(action);
  }

  printed(id: string, text: string): void {
    const action = this.#actions.get(id);
    if (action) {
      action.output.add(text);
      this.#listeners.notify();
    }
  }

  orderEnded(id: string, answer?: Answer): void {
    const action = this.#actions.get(id);
    if (!action) {
      return;
    }
    action.orders = Math.max(0, action.orders - 1);
    if (answer?.kind === "run_ended") {
      action.exitCode ??= answer.exit_code;
    } else if (answer) {
      action.output.add(answerText(answer));
    }
    this.#update(action);
  }

  /** The ids of the actions that wait for the user's approval. */
  set waiting(ids: ReadonlySet<string>) {
    this.#waiting = ids;
    this.#actions.forEach((action) => this.#update(action));
  }

  /** The connection has ended: no more is heard of the actions that run. */
  abandon(): void {
    for (const action of this.#actions.values()) {
      if (action.end === undefined) {
        action.end = "failed";
        action.message = "The connection ended before the action did.";
      }
      action.orders = 0;
      this.#update(action);
    }
  }

  #track(id: string, kind: string, summary: string): Tracked {
    const known = this.#actions.get(id);
    if (known) {
      return known;
    }
    const action: Tracked = {
      id,
      kind,
      summary,
      state: "running",
      seconds: 0,
      exitCode: null,
      message: "",
      output: new ActionOutput(),
      files: new Set(),
      orders: 0,
    };
    this.#actions.set(id, action);
    for (const oldest of this.#actions.keys()) {
      if (this.#actions.size <= MAX_ACTIONS) {
        break;
      }
      this.#actions.delete(oldest);
    }
    return action;
  }

  #update(action: Tracked): void {
    if (this.#waiting.has(action.id)) {
      action.state = "waiting";
    } else if (action.end === undefined || action.orders > 0) {
      action.state = "running";
    } else {
      action.state = action.exitCode ? "failed" : action.end;
    }
    this.#listeners.notify();
  }
}

function pathsOf(order: Order): string[] {
  switch (order.kind) {
    case "read":
    case "write":
    case "land":
    case "delete":
    case "stat":
      return [order.path];
    case "move":
      return [order.to];
    default:
      return [];
  }
}

/** The outcome of an action in a few words: its exit code and duration, or what it does. */
export function outcome(action: AgentAction): string {
  switch (action.state) {
    case "waiting":
      return "waits for your approval";
    case "running":
      return "running";
    default: {
      const exit = action.exitCode === null ? "" : `exit ${action.exitCode}`;
      const words = [exit || (action.state === "failed" ? "failed" : ""), duration(action.seconds)];
      return words.filter(Boolean).join(" · ");
    }
  }
}

function duration(seconds: number): string {
  if (seconds < 1) {
    return `${Math.round(seconds * 1000)} ms`;
  }
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

/** An action as a text document: what was done, its output, and how it ended. */
export function actionText(action: AgentAction): string {
  const head = action.kind === "run" || action.kind === "command" ? `$ ${action.summary}` : `${action.kind}: ${action.summary}`;
  const tail = [action.message, `[${outcome(action)}]`].filter(Boolean).join("\n");
  return [head, "", action.output.toString().trimEnd(), "", tail, ""].join("\n");
}
