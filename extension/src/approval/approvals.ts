import { Refusal } from "../orders/refusal";
import type { Order } from "../protocol";
import { type Facts, grantKey, needsApproval } from "./policy";
import { questionFor } from "./questions";

/** The text of a file before and after an edit that waits for approval. */
export interface ProposedEdit {
  path: string;
  before: string;
  after: string;
}

/** An order that waits for the user's decision. */
export interface ApprovalRequest {
  id: string;
  kind: Order["kind"];
  /** The command, path or address, in one line. */
  summary: string;
  /** All of it. */
  detail: string;
  /** The name of the agent. */
  agent: string;
  /** The id of the action that it is a part of; empty for none. */
  action: string;
  /** What the user is asked, in one line. */
  question: string;
  /** The command, if there is one to always allow. */
  command?: string;
  edit?: ProposedEdit;
}

export type Decision = { kind: "allow" } | { kind: "always"; pattern: string } | { kind: "deny"; words: string };

/** What the window knows and remembers. */
export interface ApprovalContext {
  /** What decides whether the user is asked; rejects if the order would be refused anyway. */
  facts(order: Order): Promise<Omit<Facts, "approvedCommand">>;
  /** The edit that an order would make; undefined if it is none of text. */
  proposedEdit(order: Order): Promise<ProposedEdit | undefined>;
  /** A path as people read it, from the folder of the workspace on. */
  shortPath(path: string): string;
  /** Remember a command that the user always allows. */
  allowAlways(pattern: string): Promise<void>;
}

interface Pending {
  request: ApprovalRequest;
  grant: string | undefined;
  resolve: () => void;
  reject: (refusal: Refusal) => void;
}

/** How many actions are remembered that may go on without another question. */
const MAX_GRANTS = 200;

/** Holds orders back until the user has decided. */
export class Approvals {
  readonly #pending = new Map<string, Pending>();
  readonly #listeners = new Set<() => void>();
  readonly #grants = new Set<string>();
  /** The sessions that run a command that the user has allowed. */
  readonly #approvedSessions = new Set<string>();
  #agent = "";
  #count = 0;

  constructor(private readonly context: ApprovalContext) {}

  /** The requests that wait, the oldest first. */
  get pending(): readonly ApprovalRequest[] {
    return [...this.#pending.values()].map(({ request }) => request);
  }

  /** Calls back when `pending` has changed. */
  readonly onDidChange = (listener: () => void): { dispose(): void } => {
    this.#listeners.add(listener);
    return { dispose: () => this.#listeners.delete(listener) };
  };

  /**
   * Resolves if an order may be carried out; rejects with `denied`, or as the signal says when it is aborted.
   *
   * `waiting` receives the question while the user has not decided, and an empty text then.
   */
  async check(order: Order, action: string, signal: AbortSignal, waiting: (question: string) => void): Promise<void> {
    if (order.kind === "arrive") {
      this.#agent = order.agent;
    }
    const approvedCommand = order.kind === "input" && this.#approvedSessions.has(order.session);
    const facts = { ...(await this.context.facts(order)), approvedCommand };
    const grant = grantKey(order, action);
    if (!needsApproval(order, facts) || (grant !== undefined && this.#grants.has(grant))) {
      return;
    }
    const edit = await this.context.proposedEdit(order);
    await this.#ask(this.#request(order, action, edit), grant, signal, waiting);
    if (order.kind === "run") {
      this.#approvedSessions.add(order.session);
    }
  }

  /** An order has ended: input for its terminal is not a part of it any more. */
  ended(order: Order): void {
    if (order.kind === "run" || order.kind === "end_session") {
      this.#approvedSessions.delete(order.session);
    }
  }

  /** Decide on a request; false if it does not wait any more. */
  async decide(id: string, decision: Decision): Promise<boolean> {
    const pending = this.#pending.get(id);
    if (!pending) {
      return false;
    }
    this.#pending.delete(id);
    if (decision.kind === "always") {
      await this.context.allowAlways(decision.pattern);
    }
    if (decision.kind !== "deny") {
      this.#grant(pending.grant);
    }
    for (const one of [pending, ...this.#takeOthers(pending.grant)]) {
      if (decision.kind === "deny") {
        one.reject(new Refusal("denied", denial(decision.words)));
      } else {
        one.resolve();
      }
    }
    this.#changed();
    return true;
  }

  /** Remove the requests that the same decision is for. */
  #takeOthers(grant: string | undefined): Pending[] {
    const others = [...this.#pending.values()].filter((one) => grant !== undefined && one.grant === grant);
    others.forEach(({ request }) => this.#pending.delete(request.id));
    return others;
  }

  #request(order: Order, action: string, edit: ProposedEdit | undefined): ApprovalRequest {
    const { text, summary, detail } = questionFor(order, (path) => this.context.shortPath(path));
    const created = edit?.before === "" && order.kind === "write" ? text.replace("wants to edit", "wants to create") : text;
    return {
      id: String(++this.#count),
      kind: order.kind,
      summary,
      detail,
      agent: this.#agent,
      action,
      question: `${this.#agent || "The agent"} ${created}`,
      ...("command" in order ? { command: order.command } : {}),
      ...(edit ? { edit } : {}),
    };
  }

  async #ask(
    request: ApprovalRequest,
    grant: string | undefined,
    signal: AbortSignal,
    waiting: (question: string) => void,
  ): Promise<void> {
    const withdraw = (): void => {
      const pending = this.#pending.get(request.id);
      this.#pending.delete(request.id);
      pending?.reject(signal.reason instanceof Refusal ? signal.reason : new Refusal("disconnected", "The order was cancelled."));
      this.#changed();
    };
    signal.addEventListener("abort", withdraw, { once: true });
    waiting(request.question);
    try {
      await new Promise<void>((resolve, reject) => {
        this.#pending.set(request.id, { request, grant, resolve, reject });
        if (signal.aborted) {
          withdraw();
        } else {
          this.#changed();
        }
      });
      waiting("");
    } finally {
      signal.removeEventListener("abort", withdraw);
    }
  }

  #grant(key: string | undefined): void {
    if (key === undefined) {
      return;
    }
    this.#grants.add(key);
    for (const oldest of this.#grants) {
      if (this.#grants.size <= MAX_GRANTS) {
        break;
      }
      this.#grants.delete(oldest);
    }
  }

  #changed(): void {
    this.#listeners.forEach((listener) => listener());
  }
}

/** What the agent is told. */
function denial(words: string): string {
  const said = words.trim();
  return said === "" ? "The user of the window has denied this." : `The user of the window has denied this: ${said}`;
}
