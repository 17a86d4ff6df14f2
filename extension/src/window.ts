import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import type { Folder, Registration } from "./protocol";

/** Names this window as long as it is not reloaded. */
const INSTANCE = randomUUID();

/** The window, as it is now. */
export function registration(extensionVersion: string, capabilities: string[]): Registration {
  return {
    instance: INSTANCE,
    name: vscode.workspace.name ?? "",
    folders: folders(),
    vscode_version: vscode.version,
    extension_version: extensionVersion,
    capabilities,
    trusted: vscode.workspace.isTrusted,
    app: vscode.env.appName,
    remote: vscode.env.remoteName ?? "",
    pid: process.pid,
  };
}

/** Hear of whatever is different about the window. */
export function onChange(heard: () => void): vscode.Disposable {
  return vscode.Disposable.from(
    vscode.workspace.onDidChangeWorkspaceFolders(heard),
    vscode.workspace.onDidGrantWorkspaceTrust(heard),
  );
}

function folders(): Folder[] {
  const open = vscode.workspace.workspaceFolders ?? [];
  return open
    .filter((folder) => folder.uri.scheme === "file")
    .map((folder) => ({ name: folder.name, path: folder.uri.fsPath }));
}
