import type { Hub } from "./hub_file";
import type { Log } from "./log";
import type { Problem } from "./problem";
import type { Registration } from "./protocol";
import type { HubIdentity } from "./reload_state";

/** How the connection is. */
export type State =
  | { name: "disconnected" }
  | { name: "connecting"; why: string }
  | { name: "connected" | "paused"; url: string; id: string }
  | { name: "error"; problem: Problem };

/** What a connection needs of the window. */
export interface World {
  readonly log: Log;
  /** The hub to connect to, as it is now. */
  hub(): Promise<Hub>;
  /** The window, as it is now. */
  registration(): Registration;
  /** Have the window's main thread do something. */
  prove(): Promise<unknown>;
  /** Save the identity for a reload of the window; `alive` is when its main thread is known to have been alive. */
  saveIdentity(identity: HubIdentity, alive: number): void;
  /** Remove the saved identity: the window is not to be connected any more. */
  clearIdentity(): void;
  /** The state is another one. */
  changed(state: State): void;
}
