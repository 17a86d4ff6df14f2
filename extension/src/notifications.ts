import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import type { Problem, Remedy } from "./problem";

const REMEDIES: Record<Remedy, { label: string; command: string }> = {
  retry: { label: "Retry", command: "glovebox.connect" },
  setKey: { label: "Set Key", command: "glovebox.setKey" },
  openSettings: { label: "Open Settings", command: "glovebox.openSettings" },
  showLog: { label: "Show Log", command: "glovebox.showLog" },
};

/** Show why there is no connection, with buttons for the remedies. */
export async function showProblem(problem: Problem): Promise<void> {
  const offered = problem.remedies.map((remedy) => REMEDIES[remedy]);
  const label = await vscode.window.showErrorMessage(`Glovebox: ${problem.message}`, ...offered.map((one) => one.label));
  const chosen = offered.find((one) => one.label === label);
  if (chosen) {
    await vscode.commands.executeCommand(chosen.command);
  }
}

/** Announce that an agent has started to work in this window. */
export async function announceFirstAction(agent: string): Promise<void> {
  const offered = { Pause: "glovebox.pause", Disconnect: "glovebox.disconnect", "Show Log": "glovebox.showLog" };
  const chosen = await vscode.window.showInformationMessage(
    `${agent} is working in this window.`,
    ...(Object.keys(offered) as (keyof typeof offered)[]),
  );
  if (chosen) {
    await vscode.commands.executeCommand(offered[chosen]);
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
