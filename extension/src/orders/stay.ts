import type { Arrive, Depart } from "../protocol";
import { throwIfCancelled } from "./concurrency";
import { Refusal } from "./refusal";

/** Asks the user whether an agent may work in this window; the question is withdrawn when `signal` aborts. */
export type AskPermission = (question: string, signal: AbortSignal) => Promise<boolean>;

/** The name of an agent that has not announced itself. */
const ANONYMOUS = "An agent";

/** Variables that change what shells and common programs execute: an agent must set them by a command, which can be approved. */
const EXECUTING = new RegExp(
  "^(PATH|IFS|ENV|HOME|SHELL|SHELLOPTS|CDPATH|FPATH|ZDOTDIR|PROMPT_COMMAND|PS[0-4]|VISUAL|JAVA_TOOL_OPTIONS" +
    "|PYTHON(STARTUP|PATH|HOME|INSPECT|BREAKPOINT|WARNINGS)|GIT_(?!AUTHOR_|COMMITTER_).*|NPM_CONFIG_.*" +
    "|(BASH|LD_|DYLD_|NODE_|PERL|RUBY|LESS|XDG_|VSCODE_|RIPGREP_).*|.*(PAGER|EDITOR|BROWSER|ASKPASS))$",
  "i",
);

/** The agent that works in this window, from its arrival to its departure. */
export class Stay {
  #current: Arrive | undefined;
  readonly #listeners: (() => void)[] = [];

  constructor(private readonly ask: AskPermission) {}

  get agent(): string {
    return this.#current === undefined ? ANONYMOUS : plainName(this.#current.agent);
  }

  /** The variables of the agent's terminals. */
  get environment(): Record<string, string> {
    return this.#current?.env ?? {};
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Begin a stay, if the user allows it; returns false if it has begun before. */
  async arrive(order: Arrive, signal: AbortSignal): Promise<boolean> {
    if (order.stay === this.#current?.stay) {
      return false;
    }
    const executing = Object.keys(order.env).filter((name) => EXECUTING.test(name));
    if (executing.length > 0) {
      const names = executing.join(", ");
      throw new Refusal("denied", `An agent cannot bring these variables into the window, but set them in a command: ${names}.`);
    }
    if (order.ask && !(await this.ask(this.#question(order), signal))) {
      throw new Refusal("denied", `The user of the window does not let ${order.agent} work there.`);
    }
    throwIfCancelled(signal);
    this.#set(order);
    return true;
  }

  /** End a stay; returns false if it is not the present one. */
  depart(order: Depart): boolean {
    if (order.stay !== this.#current?.stay) {
      return false;
    }
    this.#set(undefined);
    return true;
  }

  #question({ agent }: Arrive): string {
    const earlier = this.agent === ANONYMOUS ? "" : ` ${this.agent}, which works here now, is ended then.`;
    return `${plainName(agent)} wants to work in this window.${earlier}`;
  }

  #set(order: Arrive | undefined): void {
    this.#current = order;
    for (const listener of this.#listeners) {
      listener();
    }
  }
}

/** A name without what VS Code's notifications would take for a link. */
function plainName(name: string): string {
  return name.replace(/[[\]()]/g, " ").trim() || ANONYMOUS;
}
