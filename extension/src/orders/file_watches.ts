import { stat } from "node:fs/promises";
import { basename, dirname, normalize } from "node:path";
import * as vscode from "vscode";

import type { ChangedPath, Order, Watch, WatchReport } from "../protocol";
import { unlessCancelled } from "./concurrency";
import { type Containment, isWithin } from "./containment";
import { ChangeCollector } from "./file_changes";

/** Changes are gathered for so many milliseconds after the first. */
const GATHER_MS = 100;
/** How many changes by the agent are remembered. */
const MAX_OWN = 1000;

/** Reports changes of files by the user and by other programs, while somebody wants to know them. */
export class FileWatches {
  private open = 0;
  /** The state of paths after the agent has changed them; undefined while it does. */
  private readonly own = new Map<string, string | undefined>();

  constructor(private readonly containment: Containment) {}

  /** Print reports until the order is cancelled; the first one says that every change from now on is seen. */
  async watch(order: Watch, print: (text: string) => void, signal: AbortSignal): Promise<never> {
    const place = await this.containment.resolve(order.path);
    const isDirectory = (await stat(place.path)).isDirectory();
    const [base, glob] = isDirectory ? [place.path, order.recursive ? "**" : "*"] : [dirname(place.path), basename(place.path)];
    const collector = new ChangeCollector();
    let timer: NodeJS.Timeout | undefined;
    const report = (one: Partial<WatchReport>): void => print(`${JSON.stringify(one)}\n`);
    const flush = async (): Promise<void> => {
      timer = undefined;
      const changes = collector.take();
      const others = changes === undefined ? [] : await this.withoutOwn(changes, collector);
      if (others.length > 0 || changes === undefined) {
        report({ changes: others, overflow: changes === undefined });
      }
      gather();
    };
    const gather = (): void => {
      if (!collector.isEmpty && !signal.aborted) {
        timer ??= setTimeout(() => void flush(), GATHER_MS);
      }
    };
    const add = (uri: vscode.Uri, change: ChangedPath["change"]): void => {
      const isWanted = isDirectory ? isWithin(place.path, uri.fsPath) : uri.fsPath === place.path;
      if (isWanted && (order.recursive || !isDirectory || dirname(uri.fsPath) === place.path)) {
        collector.add(uri.fsPath, change);
        gather();
      }
    };
    const watcher = vscode.workspace.createFileSystemWatcher(new vscode.RelativePattern(vscode.Uri.file(base), glob));
    const subscriptions = [
      watcher,
      watcher.onDidCreate((uri) => add(uri, "created")),
      watcher.onDidChange((uri) => add(uri, "modified")),
      watcher.onDidDelete((uri) => add(uri, "deleted")),
      vscode.workspace.onDidSaveTextDocument(({ uri }) => {
        if (uri.scheme === "file") {
          add(uri, "modified");
        }
      }),
    ];
    this.open += 1;
    try {
      report({ ready: true });
      return await unlessCancelled(new Promise<never>(() => undefined), signal);
    } finally {
      this.open -= 1;
      clearTimeout(timer);
      for (const one of subscriptions) {
        one.dispose();
      }
    }
  }

  /** Do what an order of the agent wants, whose changes are not reported to it. */
  async asOwn<T>(order: Order, work: () => Promise<T>): Promise<T> {
    const paths = this.open === 0 ? [] : changedPaths(order);
    paths.forEach((path) => this.own.set(path, undefined));
    try {
      return await work();
    } finally {
      for (const path of paths) {
        this.own.set(path, await stateOf(path));
      }
      for (const path of [...this.own.keys()].slice(0, Math.max(0, this.own.size - MAX_OWN))) {
        this.own.delete(path);
      }
    }
  }

  /** Changes that are not the agent's own. What it is changing just now is looked at again later. */
  private async withoutOwn(changes: ChangedPath[], later: ChangeCollector): Promise<ChangedPath[]> {
    const others: ChangedPath[] = [];
    for (const one of changes) {
      if (!this.own.has(one.path)) {
        others.push(one);
      } else if (this.own.get(one.path) === undefined) {
        later.add(one.path, one.change);
      } else if (this.own.get(one.path) !== (await stateOf(one.path))) {
        this.own.delete(one.path);
        others.push(one);
      }
    }
    return others;
  }
}

function changedPaths(order: Order): string[] {
  switch (order.kind) {
    case "write":
    case "land":
    case "delete":
    case "make_directory":
      return [normalize(order.path)];
    case "move":
      return [normalize(order.path), normalize(order.to)];
    default:
      return [];
  }
}

/** What tells one state of a path from another. */
async function stateOf(path: string): Promise<string> {
  try {
    const { ino, mtimeMs, size } = await stat(path);
    return `${ino} ${mtimeMs} ${size}`;
  } catch {
    return "gone";
  }
}
