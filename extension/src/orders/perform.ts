import * as vscode from "vscode";

import type { Answer, Order } from "../protocol";
import type { Shown } from "../shown";
import { Apart } from "./apart";
import { Containment } from "./containment";
import { described } from "./describing";
import { Documents } from "./documents";
import { Files } from "./files";
import { Mirror } from "./mirror";
import { Moving } from "./moving";
import { PrivateDirectory } from "./private_directory";
import { Refusal, refusalOf } from "./refusal";
import { Search } from "./search";
import { chosenShell } from "./shells";
import { startingDirectory } from "./starting_directory";
import { Terminals } from "./terminals";
import { Turns } from "./turns";
import { Uploads } from "./uploads";
import { unlessGivenUp } from "./waiting";

export { Refusal } from "./refusal";

/** Where what is printed goes. */
export interface Telling {
  printed(text: string): void;
}

type Kind = Order["kind"];

const COMMANDS: readonly Kind[] = ["run", "run_apart", "input", "end_session"];
const READING: readonly Kind[] = ["stat", "read", "list", "glob", "grep"];
const CHANGES: readonly Kind[] = ["write", "put", "land", "drop", "make_directory", "move", "delete"];
/** What a workspace that its user does not trust allows. */
const HARMLESS = new Set<Kind>([...READING, "drop", "end_session"]);
/** How long something that has begun may go on when it is given up, so that its end is known. */
const GRACE = 1000;

/** Carries out orders in this window. */
export class Performer implements vscode.Disposable {
  /** The kinds of orders that are carried out here. */
  readonly capabilities: string[];
  private readonly containment = new Containment(folders);
  private readonly turns = new Turns();
  private readonly files = new PrivateDirectory();
  private readonly terminals = new Terminals(this.containment, this.files);
  private readonly mirror = new Mirror(() => this.apart.stop());
  private readonly apart: Apart = new Apart((text) => this.mirror.write(text));
  private readonly documents: Documents;
  private readonly looking = new Files(this.containment);
  private readonly uploads = new Uploads(this.containment, this.turns, this.files);
  private readonly moving = new Moving(this.containment, this.turns);
  private readonly search = new Search(this.containment);
  private pending = new AbortController();
  private paused = false;

  constructor(private readonly shown: Shown) {
    this.documents = new Documents(this.containment, this.turns, shown);
    // The shells of Windows do not read what agents write; those of WSL do, and run on Linux.
    this.capabilities = [...(process.platform === "win32" ? [] : COMMANDS), ...READING, ...CHANGES];
  }

  /** Carries out an order; refuses with a `Refusal`. */
  async perform(order: Order, told: Telling, signal: AbortSignal): Promise<Answer> {
    const what = described(order);
    try {
      this.allow(order);
      if (what !== undefined) {
        this.shown.action(order.kind, what);
      }
      const either = AbortSignal.any([signal, this.pending.signal]);
      return await unlessGivenUp(this.done(order, told, either), either, GRACE);
    } catch (error) {
      const refusal = refusalOf(error, "path" in order ? order.path : order.kind);
      this.shown.refused(order.kind, what ?? "", refusal.message);
      throw refusal;
    }
  }

  /** Refuses everything from now on, and what has not ended. Commands in terminals go on. */
  pause(): void {
    this.paused = true;
    this.giveUp(new Refusal("paused", "The user of the window has paused the agent."));
  }

  resume(): void {
    this.paused = false;
  }

  dispose(): void {
    this.giveUp(new Refusal("disconnected", "The window has ended the connection."));
    this.apart.stop();
    this.mirror.dispose();
    this.terminals.dispose();
    this.files.dispose();
  }

  private giveUp(why: Refusal): void {
    const pending = this.pending;
    this.pending = new AbortController();
    pending.abort(why);
  }

  private allow(order: Order): void {
    if (this.paused) {
      throw new Refusal("paused", "The user of the window has paused the agent.");
    }
    if (!this.capabilities.includes(order.kind)) {
      throw new Refusal("unsupported", `This window cannot carry out ${order.kind}.`);
    }
    if (!vscode.workspace.isTrusted && !HARMLESS.has(order.kind)) {
      throw new Refusal(
        "untrusted",
        "The user of the window does not trust this workspace: files can be read, but nothing can be run or changed.",
      );
    }
  }

  private async done(order: Order, told: Telling, signal: AbortSignal): Promise<Answer> {
    const tell = (text: string): void => told.printed(text);
    switch (order.kind) {
      case "run":
        return this.terminals.run(order, tell, signal);
      case "run_apart": {
        const cwd = await startingDirectory(order.cwd, this.containment);
        return this.apart.run(order.command, { shell: chosenShell(vscode.env.shell), cwd }, tell, signal);
      }
      case "input":
        return this.terminals.input(order);
      case "end_session":
        return this.terminals.end(order);
      case "stat":
        return this.looking.stat(order);
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
        return this.looking.list(order);
      case "glob":
        return this.search.glob(order, signal);
      case "grep":
        return this.search.grep(order, signal);
      case "make_directory":
        return this.looking.makeDirectory(order);
      case "move":
        return this.moving.move(order, signal);
      case "delete":
        return this.moving.delete(order, signal);
    }
  }
}

function folders(): string[] {
  const all = vscode.workspace.workspaceFolders ?? [];
  return all.filter(({ uri }) => uri.scheme === "file").map(({ uri }) => uri.fsPath);
}
