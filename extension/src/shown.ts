import type * as vscode from "vscode";

/** What the user sees of an agent's work. */
export interface Shown {
  /** An action begins: its kind, and what it is about in one line. */
  action(kind: string, what: string): void;
  /** A file has other text now. */
  edited(uri: vscode.Uri, before: string, after: string): void;
  /** An action was not carried out. */
  refused(kind: string, what: string, why: string): void;
}
