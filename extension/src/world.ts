import type { Hub } from "./hub_file";
import type { Log } from "./log";
import type { Problem } from "./problem";
import type { Registration } from "./protocol";
import type { Identity } from "./registering";

/** How the connection is. */
export type State =
  | { name: "disconnected" }
  | { name: "connecting"; why: string }
  | { name: "connected" | "paused"; url: string; id: string }
  | { name: "error"; problem: Problem };

/** What the hub once called this window, and which hub that was. */
export interface Kept extends Identity {
  url: string;
}

/** What a connection needs of the window. */
export interface World {
  readonly log: Log;
  /** The hub to connect to, as it is now. */
  hub(): Promise<Hub>;
  /** The window, as it is now. */
  registration(): Registration;
  /** Have the window's main thread do something. */
  prove(): Promise<unknown>;
  /** This is what the window is called, and the user wants it connected; nothing: not any more. */
  keep(kept: Kept | undefined): void;
  /** The state is another one. */
  changed(state: State): void;
}
