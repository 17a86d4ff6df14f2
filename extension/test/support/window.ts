import type { Log } from "../../src/activity/log";
import { Connection, type ConnectionState, type HostWindow } from "../../src/hub/connection";
import type { Hub } from "../../src/hub/address_file";
import { OrderDispatcher, type OrderExecutor, type Report } from "../../src/hub/dispatcher";
import type { Answer, Order, Registration } from "../../src/protocol";
import type { HubIdentity } from "../../src/hub/reload_state";

const silent: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** Executes nothing: an order runs until the test finishes it. */
export class FakeExecutor implements OrderExecutor {
  readonly orders: Order[] = [];
  /** The ids of the actions that the orders belong to. */
  readonly actions: string[] = [];
  readonly aborted: Order[] = [];
  paused = false;
  #print: (text: string) => void = () => undefined;
  #finish: (answer: Answer) => void = () => undefined;

  async execute(order: Order, action: string, print: Report, signal: AbortSignal): Promise<Answer> {
    this.orders.push(order);
    this.actions.push(action);
    signal.addEventListener("abort", () => this.aborted.push(order));
    this.#print = print;
    return await new Promise((resolve, reject) => {
      this.#finish = resolve;
      signal.addEventListener("abort", () => reject(new Error("aborted")));
    });
  }

  print(text: string): void {
    this.#print(text);
  }

  finish(answer: Answer = { kind: "done" }): void {
    this.#finish(answer);
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }
}

/** A window without VS Code. */
export class FakeWindow implements HostWindow {
  readonly log = silent;
  readonly states: ConnectionState[] = [];
  readonly executor = new FakeExecutor();
  readonly dispatcher = new OrderDispatcher(this.executor, silent);
  readonly connection = new Connection(this, this.dispatcher);
  identity: HubIdentity | undefined;
  /** Whether the main thread answers. */
  answers = true;
  readonly #unanswered: (() => void)[] = [];
  /** How often the main thread was called. */
  calls = 0;
  folders = [{ name: "a", path: "/a" }];

  constructor(readonly hubConfig: Hub) {}

  async hub(): Promise<Hub> {
    return await Promise.resolve(this.hubConfig);
  }

  registration(): Registration {
    return {
      instance: "i",
      name: "test",
      folders: this.folders,
      vscode_version: "1",
      extension_version: "1",
      capabilities: [],
    };
  }

  async syncWithMainThread(): Promise<unknown> {
    this.calls += 1;
    await new Promise<void>((resolve) => (this.answers ? resolve() : this.#unanswered.push(resolve)));
    return undefined;
  }

  /** Have the main thread answer all calls. */
  answerLate(): void {
    this.#unanswered.splice(0).forEach((resolve) => resolve());
  }

  saveIdentity(identity: HubIdentity): void {
    this.identity = identity;
  }

  clearIdentity(): void {
    this.identity = undefined;
  }

  showState(state: ConnectionState): void {
    this.states.push(state);
  }

  get state(): string {
    return this.connection.state.name;
  }
}

/** Wait for a condition. */
export async function until(what: string, condition: () => boolean, limitMs = 10_000): Promise<void> {
  for (const end = Date.now() + limitMs; !condition(); ) {
    if (Date.now() > end) {
      throw new Error(`Waited ${limitMs} ms for: ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
