import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import { summarizeOrder } from "./activity/log";
import type { Problem, Remedy } from "./problem";
import type { FailureCode, Order } from "./protocol";

export const MANAGE_TRUST = "workbench.trust.manage";
const TRUST = { "Manage Workspace Trust": MANAGE_TRUST };
const LOG = { "Show Log": "glovebox.showLog" };

const REMEDIES: Record<Remedy, Record<string, string>> = {
  retry: { Retry: "glovebox.connect" },
  setKey: { "Set Key": "glovebox.setKey" },
  openSettings: { "Open Settings": "glovebox.openSettings" },
  showLog: LOG,
};

/** Show why there is no connection, with buttons for the remedies. */
export async function showProblem(problem: Problem): Promise<void> {
  const buttons = Object.assign({}, ...problem.remedies.map((remedy) => REMEDIES[remedy])) as Record<string, string>;
  await runChosen(
    buttons,
    await vscode.window.showErrorMessage(`Glovebox: ${problem.message}`, ...Object.keys(buttons)),
  );
}

/** Announce that an agent has started to work in this window; in Restricted Mode it can only read. */
export async function announceFirstAction(agent: string): Promise<void> {
  if (vscode.workspace.isTrusted) {
    const buttons = { Pause: "glovebox.pause", Disconnect: "glovebox.disconnect", ...LOG };
    await inform(`${agent} is working in this window.`, buttons);
  }
}

/** Explain what a connection is good for in Restricted Mode, and how to leave it. */
export async function explainRestrictedMode(): Promise<void> {
  const can = "An agent can read the files of this window, but not run commands or change anything";
  await inform(`Glovebox: ${can}, because the workspace is in Restricted Mode.`, TRUST);
}

/** Shows that an action of an agent was refused: each reason once for a connection. */
export class RefusalNotices {
  readonly #shown = new Set<FailureCode>();

  /** Start a new connection. */
  reset(): void {
    this.#shown.clear();
  }

  async show(order: Order, code: FailureCode): Promise<void> {
    const notice = refusalNotice(summarizeOrder(order) ?? order.kind, code);
    if (notice && !this.#shown.has(code)) {
      this.#shown.add(code);
      await inform(`Glovebox: ${notice.text}`, notice.buttons);
    }
  }
}

/** What the user is told of a refusal; undefined for what is of interest only to the agent. */
function refusalNotice(what: string, code: FailureCode): { text: string; buttons: Record<string, string> } | undefined {
  switch (code) {
    case "untrusted":
      return { text: `Restricted Mode has kept an agent from this: ${what}`, buttons: { ...TRUST, ...LOG } };
    case "unsaved_changes":
      return { text: `An agent did not change what you have not saved: ${what}`, buttons: LOG };
    case "outside_workspace":
      return { text: `An agent was kept from a file outside of the workspace: ${what}`, buttons: LOG };
    default:
      return undefined;
  }
}

async function inform(text: string, buttons: Record<string, string>): Promise<void> {
  await runChosen(buttons, await vscode.window.showInformationMessage(text, ...Object.keys(buttons)));
}

async function runChosen(buttons: Record<string, string>, label: string | undefined): Promise<void> {
  const command = label === undefined ? undefined : buttons[label];
  if (command !== undefined) {
    await vscode.commands.executeCommand(command);
  }
}

const ANSWER = "glovebox.answerAgent";

/**
 * Ask whether an agent may work in this window. Only a notification with progress can be withdrawn, and that has no
 * buttons of its own but Cancel: the answers are links in it.
 */
export async function askPermission(question: string, signal: AbortSignal): Promise<boolean> {
  const id = randomUUID();
  const link = (label: string, allowed: boolean): string =>
    `[${label}](command:${ANSWER}?${encodeURIComponent(JSON.stringify([id, allowed]))})`;
  const title = `${question} ${link("Allow", true)} ${link("Deny", false)}`;
  const location = vscode.ProgressLocation.Notification;
  return await vscode.window.withProgress({ location, title, cancellable: true }, async (_, closed) =>
    new Promise<boolean>((resolve) => {
      answers.set(id, resolve);
      closed.onCancellationRequested(() => resolve(false));
      signal.addEventListener("abort", () => resolve(false), { once: true });
    }).finally(() => answers.delete(id)),
  );
}

/** The questions that have not been answered. */
const answers = new Map<string, (allowed: boolean) => void>();

/** Register the command behind the links of questions. */
export function registerAnswers(): vscode.Disposable {
  return vscode.commands.registerCommand(ANSWER, (id: unknown, allowed: unknown) => {
    answers.get(String(id))?.(allowed === true);
  });
}
