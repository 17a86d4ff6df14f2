import { Connection } from "../../src/connection";
import { Desk, type Performing } from "../../src/desk";
import type { Hub } from "../../src/hub_file";
import type { Log } from "../../src/log";
import type { Answer, Order, Registration } from "../../src/protocol";
import type { HubIdentity } from "../../src/reload_state";
import type { State, World } from "../../src/world";

const silent: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** Carries out nothing: an order waits until the test says what comes of it. */
export class Hand implements Performing {
  readonly orders: Order[] = [];
  readonly aborted: Order[] = [];
  paused = false;
  #printed: (text: string) => void = () => undefined;
  #done: (answer: Answer) => void = () => undefined;

  async perform(order: Order, told: { printed(text: string): void }, signal: AbortSignal): Promise<Answer> {
    this.orders.push(order);
    signal.addEventListener("abort", () => this.aborted.push(order));
    this.#printed = (text) => told.printed(text);
    return await new Promise((resolve, reject) => {
      this.#done = resolve;
      signal.addEventListener("abort", () => reject(new Error("aborted")));
    });
  }

  print(text: string): void {
    this.#printed(text);
  }

  finish(answer: Answer = { kind: "done" }): void {
    this.#done(answer);
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }
}

/** A window without VS Code. */
export class SmallWindow implements World {
  readonly log = silent;
  readonly states: State[] = [];
  readonly hand = new Hand();
  readonly desk = new Desk(this.hand, silent);
  readonly connection = new Connection(this, this.desk);
  identity: HubIdentity | undefined;
  /** Whether the main thread answers. */
  answers = true;
  readonly #unanswered: (() => void)[] = [];
  /** How often it was asked. */
  asked = 0;
  folders = [{ name: "a", path: "/a" }];

  constructor(readonly where: Hub) {}

  async hub(): Promise<Hub> {
    return await Promise.resolve(this.where);
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

  async prove(): Promise<unknown> {
    this.asked += 1;
    await new Promise<void>((resolve) => (this.answers ? resolve() : this.#unanswered.push(resolve)));
    return undefined;
  }

  /** Have the main thread answer whatever it was asked. */
  answerLate(): void {
    this.#unanswered.splice(0).forEach((resolve) => resolve());
  }

  saveIdentity(identity: HubIdentity): void {
    this.identity = identity;
  }

  clearIdentity(): void {
    this.identity = undefined;
  }

  changed(state: State): void {
    this.states.push(state);
  }

  get state(): string {
    return this.connection.state.name;
  }
}

/** Wait for something to be so. */
export async function until(what: string, condition: () => boolean, limitMs = 10_000): Promise<void> {
  for (const end = Date.now() + limitMs; !condition(); ) {
    if (Date.now() > end) {
      throw new Error(`Not so within ${limitMs} ms: ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
