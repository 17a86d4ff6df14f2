// What a hub and a window say to each other. Written by generate.py from src/glovebox/protocol/window.py:
// change that, and run `.venv/bin/python extension/generate.py`.

/** The largest piece of a file that goes in one message. */
export const PIECE = 1048576;

/**
 * `waiting`: it registered and has not connected yet. `unresponsive`: it is connected, but its main thread
 * does not answer. `paused`: its user has paused it. `away`: the connection broke, and may come back.
 * `reloading`: it said that it closes, and may come back.
 */
export type WindowStatus =
  | "waiting"
  | "connected"
  | "unresponsive"
  | "paused"
  | "away"
  | "reloading";

export type Kind =
  | "file"
  | "directory"
  | "other";

/** Why a window refuses or fails. */
export type FailureCode =
  | "not_found"
  | "is_directory"
  | "not_directory"
  | "exists"
  | "not_empty"
  | "outside_workspace"
  | "no_folder"
  | "untrusted"
  | "unsaved_changes"
  | "changed_meanwhile"
  | "not_saved"
  | "busy"
  | "no_session"
  | "bad_pattern"
  | "paused"
  | "disconnected"
  | "denied"
  | "undecided"
  | "no_companion"
  | "unsupported"
  | "failed";

export type Order =
  | Run
  | RunApart
  | Input
  | EndSession
  | Stat
  | Read
  | Write
  | Put
  | Land
  | Drop
  | List
  | Glob
  | Grep
  | Watch
  | MakeDirectory
  | Move
  | Delete
  | Arrive
  | Depart
  | Forward
  | FetchBody;

export type Answer =
  | Done
  | RunEnded
  | PathInfo
  | Content
  | Written
  | Entries
  | Found
  | Lines
  | Forwarded
  | BodyPiece;

export type Told =
  | Printed
  | Waiting
  | Succeeded
  | Failed;

/** A folder of the workspace. */
export interface Folder {
  name: string;
  path: string;
}

/** A window introduces itself. */
export interface Registration {
  /**
   * Made up by the window when it starts. It proves nothing: a window that was connected is recognised by
   * its secret, and without that a second registration replaces only one that was never used.
   */
  instance: string;
  /** What the user calls the workspace. */
  name: string;
  /** None if no folder is open. */
  folders: Folder[];
  vscode_version: string;
  extension_version: string;
  /** The kinds of orders that it carries out. */
  capabilities: string[];
  /** Whether the user trusts the workspace; commands and changes are refused otherwise. */
  trusted?: boolean;
  app?: string;
  remote?: string;
  pid?: number;
}

/** What a window is called from now on, and what proves that it is the one. */
export interface Registered {
  id: string;
  secret: string;
  /** How often the window has to say that its main thread answers. */
  heartbeat_seconds: number;
  /** How long the hub waits for a window whose connection broke. */
  grace_seconds: number;
}

/** The window's main thread has just answered, after so many milliseconds. */
export interface Heartbeat {
  secret: string;
  main_thread_ms: number;
}

/** A window, as the hub lists it. */
export interface Window {
  id: string;
  name: string;
  folders: Folder[];
  vscode_version: string;
  extension_version: string;
  capabilities: string[];
  trusted: boolean;
  app: string;
  remote: string;
  pid: number;
  status: WindowStatus;
  /** Seconds since 1970. */
  registered: number;
  /** When it last proved that it answers. */
  seen: number;
  /** The path below the hub's address under which it is a box. */
  path: string;
  /** The agent that works in it, and the name of its stay; empty if none has announced itself. */
  agent: string;
  stay: string;
}

/** An agent announces that it is going to work in a window. */
export interface Arrival {
  /** Names the stay; made up by the agent. The same again goes on with it. */
  stay: string;
  /** The ids of the windows that fit. */
  windows: string[];
  /** The name that users see, such as "OpenHands". Agents without one share shells. */
  agent?: string;
  /** Ask in every window for permission; the first that allows it is taken. Needed for more than one window. */
  ask?: boolean;
  /** How long users have to answer. */
  seconds?: number;
  /** Variables of its terminals. */
  env?: Record<string, string>;
}

/** An agent may work in a window. */
export interface Arrived {
  window: Window;
  /** Whether its shells are new and have its variables. If not, it shares those of an agent that is there. */
  fresh: boolean;
}

/** An agent has finished. */
export interface Departure {
  stay: string;
}

/** The first words of a window on a connection (event `hello`). */
export interface Hello {
  /** Orders that it is carrying out or has results of that were not acknowledged. */
  orders: string[];
  paused: boolean;
  trusted: boolean;
  folders: Folder[];
}

/** Something about the window is different now (event `changed`). */
export interface Changed {
  paused: boolean;
  trusted: boolean;
  folders: Folder[];
}

/** It is done, and there is nothing else to say. */
export interface Done {
  kind: "done";
}

/** A command has ended. */
export interface RunEnded {
  kind: "run_ended";
  /** None if it is not known. */
  exit_code: number | null;
  /** The directory that the shell is in now; empty if that is not known. */
  cwd: string;
  /** Whether the shell itself ended with it. */
  shell_ended?: boolean;
  /**
   * How it was run: with VS Code's shell integration, by a script in a shell without it, or as a process
   * of its own.
   */
  how?: "integration" | "script" | "process";
}

/** What is at a path. */
export interface PathInfo {
  kind: "path_info";
  exists: boolean;
  type?: Kind;
  size?: number;
  /** Seconds since 1970. */
  modified?: number;
  /** It is open in an editor with changes that are not saved. */
  unsaved?: boolean;
}

/** A piece of a file: what its editor shows if it has unsaved changes, else what is on the disk. */
export interface Content {
  kind: "content";
  data: Uint8Array;
  /** Of the whole file. */
  size: number;
  unsaved?: boolean;
}

/** A file was written. */
export interface Written {
  kind: "written";
  created: boolean;
  /**
   * What the file has now, if that is not what was sent: settings of the user may change a file when it is
   * saved, as a formatter does.
   */
  saved?: Uint8Array | null;
}

/** Something in a directory. */
export interface Entry {
  name: string;
  type: Kind;
  is_link?: boolean;
}

/** What is in a directory, in no particular order. */
export interface Entries {
  kind: "entries";
  entries: Entry[];
}

/** Paths that match, newest first. */
export interface Found {
  kind: "found";
  paths: string[];
  /** Whether the search ended before it had seen everything. */
  incomplete?: boolean;
}

/** A line that matches, with lines around it. */
export interface Line {
  path: string;
  /** Counted from 1. */
  line: number;
  text: string;
  before?: string[];
  after?: string[];
}

/** Lines that match, by path and number. */
export interface Lines {
  kind: "lines";
  lines: Line[];
  incomplete?: boolean;
}

/** The response of the companion box. */
export interface Forwarded {
  kind: "forwarded";
  status: number;
  headers: Record<string, string>;
  /** All of it, or its beginning. */
  body?: Uint8Array;
  /** What the rest is fetched by; empty if there is none. */
  stream?: string;
}

/** A piece of a response's body. */
export interface BodyPiece {
  kind: "body_piece";
  data: Uint8Array;
  /** There is nothing after it. */
  last: boolean;
}

/**
 * Run a command in the terminal of a session, opened if there is none; its output is reported.
 *
 * One at a time in each session: while one runs, another is refused with `busy`.
 */
export interface Run {
  kind: "run";
  session: string;
  command: string;
  /** Where a terminal that has to be opened starts; empty for the first folder. */
  cwd: string;
}

/** Run a command in a process of its own, which leaves no trace in any shell. */
export interface RunApart {
  kind: "run_apart";
  command: string;
  cwd: string;
}

/** Type something for what runs in a session, as it is: `\r` is the Enter key, `\x03` is Ctrl-C. */
export interface Input {
  kind: "input";
  session: string;
  text: string;
}

/** Close the terminal of a session, and end what runs in it. */
export interface EndSession {
  kind: "end_session";
  session: string;
}

/** Look at what is at a path. */
export interface Stat {
  kind: "stat";
  path: string;
}

/** Read a piece of a file. */
export interface Read {
  kind: "read";
  path: string;
  offset: number;
  length: number;
}

/** Have a file hold this; missing directories are made. Editors that show it stay in step. */
export interface Write {
  kind: "write";
  path: string;
  data: Uint8Array;
  /** SHA-256 in hex of what the file must hold before; empty for anything. */
  expected: string;
  /** There must not be a file yet. */
  exclusive: boolean;
}

/** Keep another piece of an upload, outside of the workspace, until it lands or is dropped. */
export interface Put {
  kind: "put";
  upload: string;
  data: Uint8Array;
}

/** Have an upload take its place as a file; missing directories are made. */
export interface Land {
  kind: "land";
  upload: string;
  path: string;
}

/** Forget an upload. */
export interface Drop {
  kind: "drop";
  upload: string;
}

/** What is in a directory. */
export interface List {
  kind: "list";
  path: string;
}

/** Find files whose path below `path` matches a glob of VS Code. */
export interface Glob {
  kind: "glob";
  path: string;
  pattern: string;
  /** Also what begins with a dot, and what git ignores. */
  hidden: boolean;
  ignored: boolean;
  most: number;
}

/** Find lines that match a regular expression in files below `path`, or in that file. */
export interface Grep {
  kind: "grep";
  path: string;
  pattern: string;
  literal: boolean;
  ignore_case: boolean;
  /** A glob that chooses files; empty for all. */
  include: string;
  hidden: boolean;
  ignored: boolean;
  before: number;
  after: number;
  most: number;
}

/**
 * Report changes below a directory, or of a file, until the order is cancelled.
 *
 * Not those that orders make. Each line of its output is a `WatchReport` in JSON.
 */
export interface Watch {
  kind: "watch";
  path: string;
  recursive: boolean;
}

/** Something happened to a path. */
export interface ChangedPath {
  path: string;
  change: "created" | "modified" | "deleted";
}

/** What a watch has seen since the last report. */
export interface WatchReport {
  changes?: ChangedPath[];
  /** Changes were lost. */
  overflow?: boolean;
  /** The first one: every change from now on is seen. */
  ready?: boolean;
}

/** Make a directory and its parents. */
export interface MakeDirectory {
  kind: "make_directory";
  path: string;
}

/** Give a file or directory another path. */
export interface Move {
  kind: "move";
  path: string;
  to: string;
  overwrite: boolean;
}

/** Remove a file, or a directory with all that is in it. */
export interface Delete {
  kind: "delete";
  path: string;
  recursive: boolean;
}

/** An agent begins to work in the window: close the terminals of the one before. The same stay goes on. */
export interface Arrive {
  kind: "arrive";
  /** The name that the user sees, such as "OpenHands". */
  agent: string;
  stay: string;
  /** Ask the user for permission first; a refusal has the code `denied`. */
  ask: boolean;
  /** Variables of the terminals that are opened during the stay. */
  env: Record<string, string>;
}

/** The agent's work has ended: close its terminals, and stop its companion box. Another stay goes on. */
export interface Depart {
  kind: "depart";
  stay: string;
}

/**
 * Send an HTTP request to the companion box, which the window starts on first need.
 *
 * The window refuses what is not in `FORWARDED_PATHS` and `COMPANION_ACTIONS`.
 */
export interface Forward {
  kind: "forward";
  method: string;
  /** With its query. */
  path: string;
  headers: Record<string, string>;
  body: Uint8Array;
}

/** Wait for the next piece of a response's body. Cancelling it ends the request. */
export interface FetchBody {
  kind: "fetch_body";
  stream: string;
  /** End the request instead. */
  close: boolean;
}

/** An order on its way (event `order`); acknowledged when the window has it. */
export interface Ordered {
  id: string;
  order: Order;
  /** The id of the agent's action that it is a part of; empty for none. */
  action: string;
}

/** An order is not waited for any more (event `cancel`). A command in a terminal goes on. */
export interface Cancelled {
  id: string;
}

/** An action of an agent has started or ended (event `action`), for the window to show it. */
export interface ActionReport {
  id: string;
  /** The kind of action: `run`, `edit`, `run_ipython` … */
  kind: string;
  /** The command, the path or the address, in one line. */
  summary: string;
  agent: string;
  state: "started" | "succeeded" | "failed";
  /** Of a command that has ended. */
  exit_code: number | null;
  seconds: number;
  /** Why it failed. */
  message: string;
  /** What an action of the companion box came to, or the end of it; the window sees other output itself. */
  output: string;
}

/** A command has printed something: as the terminal got it, control sequences included. */
export interface Printed {
  kind: "printed";
  id: string;
  number: number;
  text: string;
}

/** The order waits for the user's decision; its time limit does not run meanwhile. */
export interface Waiting {
  kind: "waiting";
  id: string;
  number: number;
  /** What the user is asked, in one line; empty when the decision was made. */
  question: string;
}

/** It worked. This is the last report. */
export interface Succeeded {
  kind: "succeeded";
  id: string;
  number: number;
  answer: Answer;
}

/** It did not work. This is the last report. */
export interface Failed {
  kind: "failed";
  id: string;
  number: number;
  code: FailureCode;
  message: string;
}

/** The window ends the connection (event `leaving`). */
export interface Leaving {
  reason: string;
  /**
   * False if its user has disconnected it. True if it closes: when it is reloaded, it comes back with its
   * secret, and VS Code does not say whether that is so.
   */
  returns?: boolean;
}

/** What answers each kind of order. */
export interface AnswerTo {
  run: RunEnded;
  run_apart: RunEnded;
  input: Done;
  end_session: Done;
  stat: PathInfo;
  read: Content;
  write: Written;
  put: Done;
  land: Written;
  drop: Done;
  list: Entries;
  glob: Found;
  grep: Lines;
  watch: Done;
  make_directory: Done;
  move: Done;
  delete: Done;
  arrive: Done;
  depart: Done;
  forward: Forwarded;
  fetch_body: BodyPiece;
}

/** Every kind of order. */
export const ORDERS: readonly Order["kind"][] = [
  "run",
  "run_apart",
  "input",
  "end_session",
  "stat",
  "read",
  "write",
  "put",
  "land",
  "drop",
  "list",
  "glob",
  "grep",
  "watch",
  "make_directory",
  "move",
  "delete",
  "arrive",
  "depart",
  "forward",
  "fetch_body",
];

/** Every reason there is. */
export const FAILURES: readonly FailureCode[] = [
  "not_found",
  "is_directory",
  "not_directory",
  "exists",
  "not_empty",
  "outside_workspace",
  "no_folder",
  "untrusted",
  "unsaved_changes",
  "changed_meanwhile",
  "not_saved",
  "busy",
  "no_session",
  "bad_pattern",
  "paused",
  "disconnected",
  "denied",
  "undecided",
  "no_companion",
  "unsupported",
  "failed",
];

/** Actions that the companion box carries out, and the path that they are posted to. */
export const COMPANION_ACTIONS: readonly string[] = [
  "run_ipython",
  "browse",
  "browse_interactive",
  "call_tool_mcp",
];
export const ACTIONS_PATH = "/execute_action_stream";

/** What else may be forwarded to the companion box: nothing of its shell, processes and files. */
export const FORWARDED_PATHS: readonly string[] = [
  "GET /kernels",
  "POST /kernels",
  "GET /kernels/{name}",
  "DELETE /kernels/{name}",
  "POST /kernels/{name}/interrupt",
  "POST /kernels/{name}/restart",
  "GET /kernels/{name}/cells/{id}",
  "GET /kernelspecs",
  "GET /browser",
  "GET /browser/screenshot",
  "GET /browser/screencast",
  "POST /update_mcp_server",
  "GET /mcp/servers",
  "PUT /mcp/servers",
  "GET /mcp/servers/{name}",
  "POST /mcp/servers/{name}/restart",
  "GET /mcp/servers/{name}/log",
  "PUT /mcp/profiles/{name}",
  "DELETE /mcp/profiles",
  "GET /sse",
  "POST /messages/",
  "GET /mcp/sse",
  "POST /mcp/messages/",
  "GET /mcp",
  "POST /mcp",
  "DELETE /mcp",
  "GET /metrics",
  "GET /metrics/system",
];
