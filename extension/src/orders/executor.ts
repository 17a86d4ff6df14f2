import * as vscode from "vscode";

import type { ActivityObserver } from "../activity/log";
import type { Approvals } from "../approval/approvals";
import type { ChangeRecorder } from "../changes/recorder";
import type { Forwarder } from "../companion/forward";
import type { OrderExecutor, Report } from "../hub/dispatcher";
import type { Answer, Done, Order } from "../protocol";
import { BackgroundProcesses } from "./background_processes";
import { BackgroundTerminal } from "./background_terminal";
import { KeyedLock, throwIfCancelled, unlessCancelled } from "./concurrency";
import { Containment } from "./containment";
import { Documents } from "./documents";
import { FileWatches } from "./file_watches";
import { Files } from "./files";
import { PrivateDirectory } from "./private_directory";
import { Refusal, toRefusal } from "./refusal";
import { Search } from "./search";
import { chooseShell } from "./shells";
import { type AskPermission, Stay } from "./stay";
import { startDirectory, Terminals } from "./terminals";
import { Uploads } from "./uploads";

type Kind = Order["kind"];

const COMMANDS: readonly Kind[] = ["run", "run_apart", "input", "end_session"];
const READING: readonly Kind[] = ["stat", "read", "list", "glob", "grep", "watch"];
const CHANGES: readonly Kind[] = ["write", "put", "land", "drop", "make_directory", "move", "delete"];
const STAY: readonly Kind[] = ["arrive", "depart"];
const COMPANION: readonly Kind[] = ["forward", "fetch_body"];
/** What is allowed in a workspace that the user does not trust. */
const UNTRUSTED = new Set<Kind>([...READING, ...STAY, "drop", "end_session"]);
/** How long a cancelled order may take to end, so that its result is known. */
const GRACE = 1000;

/** Executes orders in this window. */
export class WindowOrderExecutor implements OrderExecutor, vscode.Disposable {
  /** The kinds of orders that this window can execute. */
  readonly capabilities: string[];
  private readonly containment = new Containment(folders);
  private readonly scratch = new PrivateDirectory();
  readonly stay: Stay;
  private readonly terminals: Terminals;
  private readonly backgroundTerminal = new BackgroundTerminal(() => this.background.stop());
  private readonly background: BackgroundProcesses = new BackgroundProcesses((text) => {
    this.backgroundTerminal.write(text);
  });
  private readonly documents: Documents;
  private readonly files: Files;
  private readonly uploads: Uploads;
  private readonly search = new Search(this.containment);
  private readonly watches = new FileWatches(this.containment);
  private pending = new AbortController();
  private stopping = new AbortController();
  private paused = false;

  constructor(
    private readonly observer: ActivityObserver,
    changes: ChangeRecorder,
    private readonly approval: Pick<Approvals, "check" | "ended">,
    private readonly companion: Forwarder,
    ask: AskPermission,
  ) {
    this.stay = new Stay(ask);
    this.terminals = new Terminals(this.containment, this.scratch, this.stay);
    const lock = new KeyedLock();
    this.documents = new Documents(this.containment, lock, changes);
    this.files = new Files(this.containment, lock, changes);
    this.uploads = new Uploads(this.containment, lock, this.scratch, changes);
    // The shells of Windows do not understand agents' commands; those of WSL do, and run on Linux.
    const commands = process.platform === "win32" ? [] : COMMANDS;
    this.capabilities = [...commands, ...READING, ...CHANGES, ...COMPANION, ...STAY];
  }

  /** Execute an order; rejects with a `Refusal`. */
  async execute(order: Order, action: string, print: Report, signal: AbortSignal, wait: Report): Promise<Answer> {
    const printAndShow = (text: string): void => {
      this.observer.printed(action, text);
      print(text);
    };
    try {
      this.checkAllowed(order);
      this.observer.orderStarted(order, action);
      const cancelled = AbortSignal.any([signal, this.pending.signal]);
      const stopped = AbortSignal.any([cancelled, this.stopping.signal]);
      await this.approval.check(order, action, stopped, wait);
      throwIfCancelled(stopped);
      const end = order.kind === "run" || order.kind === "run_apart" ? cancelled : stopped;
      const answer = await unlessCancelled(this.watches.asOwn(order, () => this.dispatch(order, printAndShow, end)), end, GRACE);
      this.observer.orderEnded(order, action, answer);
      return answer;
    } catch (error) {
      const refusal = toRefusal(error, "path" in order ? order.path : order.kind);
      this.observer.orderRefused(order, action, refusal.message);
      throw refusal;
    } finally {
      this.approval.ended(order);
    }
  }

  /** Cancel running orders and refuse new ones until `resume`. Commands in terminals go on. */
  pause(): void {
    this.paused = true;
    this.cancelAll(new Refusal("paused", "The user of the window has paused the agent."));
  }

  resume(): void {
    this.paused = false;
  }

  /** Interrupt running commands, which then end by themselves, and cancel all other running orders. */
  stop(): void {
    const stopping = this.stopping;
    this.stopping = new AbortController();
    stopping.abort(new Refusal("denied", "The user of the window has stopped this action."));
    this.background.stop();
    this.terminals.interrupt();
  }

  dispose(): void {
    this.cancelAll(new Refusal("disconnected", "The window has ended the connection."));
    this.background.stop();
    this.companion.stop();
    this.backgroundTerminal.dispose();
    this.terminals.dispose();
    this.scratch.dispose();
  }

  /** Close the terminals of an agent whose stay has ended. */
  private changeStay(ended: boolean): Done {
    if (ended) {
      this.background.stop();
      this.terminals.closeAll();
      this.companion.stop();
    }
    return { kind: "done" };
  }

  private cancelAll(why: Refusal): void {
    const pending = this.pending;
    this.pending = new AbortController();
    pending.abort(why);
  }

  private checkAllowed(order: Order): void {
    if (this.paused) {
      throw new Refusal("paused", "The user of the window has paused the agent.");
    }
    if (!this.capabilities.includes(order.kind)) {
      throw new Refusal("unsupported", `This window cannot execute ${order.kind}.`);
    }
    if (!vscode.workspace.isTrusted && !UNTRUSTED.has(order.kind)) {
      throw new Refusal(
        "untrusted",
        "The user of the window does not trust this workspace: files can be read, but nothing can be run or changed.",
      );
    }
  }

  private async dispatch(order: Order, print: (text: string) => void, signal: AbortSignal): Promise<Answer> {
    switch (order.kind) {
      case "run":
        return this.terminals.run(order, print, signal);
      case "run_apart": {
        const cwd = await startDirectory(order.cwd, this.containment);
        const place = { shell: chooseShell(vscode.env.shell), cwd, environment: this.stay.environment };
        return this.background.run(order.command, place, print, signal);
      }
      case "input":
        return this.terminals.input(order);
      case "end_session":
        return this.terminals.end(order);
      case "stat":
        return this.files.stat(order);
      case "read":
        return this.documents.read(order);
      case "write":
        return this.documents.write(order, signal);
      case "put":
        return this.uploads.put(order);
      case "land":
        return this.uploads.land(order, signal);
      case "drop":
        return this.uploads.drop(order);
      case "list":
        return this.files.list(order);
      case "glob":
        return this.search.glob(order, signal);
      case "grep":
        return this.search.grep(order, signal);
      case "watch":
        return this.watches.watch(order, print, signal);
      case "make_directory":
        return this.files.makeDirectory(order);
      case "move":
        return this.files.move(order, signal);
      case "delete":
        return this.files.delete(order, signal);
      case "forward":
        return this.companion.forward(order, signal);
      case "fetch_body":
        return this.companion.fetch(order, signal);
      case "arrive":
        return this.changeStay(await this.stay.arrive(order, signal));
      case "depart":
        return this.changeStay(this.stay.depart(order));
    }
  }
}

/** The paths of the folders of the workspace. */
export function folders(): string[] {
  const all = vscode.workspace.workspaceFolders ?? [];
  return all.filter(({ uri }) => uri.scheme === "file").map(({ uri }) => uri.fsPath);
}
