import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import type { Connection, ConnectionState, HostWindow } from "./hub/connection";
import type { HubCredentials } from "./hub/credentials";
import type { Hub } from "./hub/address_file";
import { windowStatus } from "./hub/api";
import { showProblem } from "./notifications";
import { syncWithMainThread } from "./orders/open_documents";
import { errorText } from "./problem";
import type { Folder, Registration, WindowStatus } from "./protocol";
import type { HubIdentity, ReloadState } from "./hub/reload_state";

/** Identifies this window until it is reloaded. */
const INSTANCE = randomUUID();
/** The states in which a window that is reloaded takes over from an extension host that has not ended. */
const ABANDONED: readonly (WindowStatus | "gone")[] = ["unresponsive", "reloading", "gone"];

/** The VS Code window that this extension runs in. */
export class VsCodeWindow implements HostWindow {
  #id = "";

  constructor(
    private readonly context: vscode.ExtensionContext,
    readonly log: vscode.LogOutputChannel,
    private readonly credentials: HubCredentials,
    private readonly executor: { readonly capabilities: string[] },
    private readonly reloadState: ReloadState,
    private readonly indicator: { state: ConnectionState },
    /** Called when the notices of a connection are to be shown anew. */
    private readonly resetNotices: () => void,
  ) {}

  async hub(): Promise<Hub> {
    return await this.credentials.hub();
  }

  registration(): Registration {
    const { version } = this.context.extension.packageJSON as { version: string };
    return {
      instance: INSTANCE,
      name: vscode.workspace.name ?? "",
      folders: folders(),
      vscode_version: vscode.version,
      extension_version: version,
      capabilities: this.executor.capabilities,
      trusted: vscode.workspace.isTrusted,
      app: vscode.env.appName,
      remote: vscode.env.remoteName ?? "",
      pid: process.pid,
    };
  }

  /** Calls back when a property of the window that the hub knows has changed. */
  onChange(callback: () => void): vscode.Disposable {
    return vscode.Disposable.from(
      vscode.workspace.onDidChangeWorkspaceFolders(callback),
      vscode.workspace.onDidGrantWorkspaceTrust(() => {
        this.resetNotices();
        callback();
      }),
    );
  }

  async syncWithMainThread(): Promise<unknown> {
    return await syncWithMainThread();
  }

  saveIdentity(identity: HubIdentity, alive: number): void {
    if (identity.id !== this.#id) {
      this.resetNotices();
    }
    this.#id = identity.id;
    if (this.#reconnects()) {
      this.#try("The identity of this window was not saved", () => {
        this.reloadState.save(identity, alive);
      });
    }
  }

  clearIdentity(): void {
    this.#id = "";
    this.#try("The saved identity of this window was not removed", () => {
      this.reloadState.clear();
    });
  }

  showState(state: ConnectionState): void {
    this.indicator.state = state;
    void vscode.commands.executeCommand("setContext", "glovebox.paused", state.name === "paused");
    if (state.name === "connected") {
      this.log.info(`Connected to the hub at ${state.url} as ${state.id}.`);
    } else if (state.name === "error") {
      this.log.error(state.problem.message);
      void showProblem(state.problem);
    } else if (state.name !== "connecting") {
      this.log.info(`The window is ${state.name}.`);
    }
  }

  /** The identity from before a reload, if the window is to be connected again. */
  async takeIdentity(): Promise<HubIdentity | undefined> {
    try {
      return this.#reconnects() ? await this.reloadState.take((identity) => this.#isAbandoned(identity)) : undefined;
    } catch (error) {
      this.log.warn(`The identity from before the reload was not read: ${errorText(error)}`);
      return undefined;
    }
  }

  /** End the connection as the window closes; if it may come back, the hub waits for a while. */
  async close(connection: Connection): Promise<void> {
    if (this.#reconnects() && this.#try("The identity of this window was not saved", () => this.reloadState.renew())) {
      await connection.suspend();
    } else {
      await connection.disconnect();
    }
  }

  /** Whether the hub says that the extension host from before the reload is of no use any more, although it lives. */
  async #isAbandoned({ id, url }: HubIdentity): Promise<boolean> {
    const hub = await this.hub();
    const status = hub.url === url ? await windowStatus(hub, id).catch(() => undefined) : undefined;
    if (status !== undefined && ABANDONED.includes(status)) {
      this.log.warn(`The extension host from before the reload lives on; the window is ${status} and is taken over.`);
      return true;
    }
    return false;
  }

  #try<T>(failure: string, work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.log.warn(`${failure}: ${errorText(error)}`);
      return undefined;
    }
  }

  #reconnects(): boolean {
    return vscode.workspace.getConfiguration("glovebox").get("reconnectAfterReload", true);
  }
}

function folders(): Folder[] {
  const open = vscode.workspace.workspaceFolders ?? [];
  return open
    .filter((folder) => folder.uri.scheme === "file")
    .map((folder) => ({ name: folder.name, path: folder.uri.fsPath }));
}
