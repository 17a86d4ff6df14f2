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
export async function announceFirstAction(): Promise<void> {
  const offered = { Pause: "glovebox.pause", Disconnect: "glovebox.disconnect", "Show Log": "glovebox.showLog" };
  const chosen = await vscode.window.showInformationMessage(
    "An agent is working in this window.",
    ...(Object.keys(offered) as (keyof typeof offered)[]),
  );
  if (chosen) {
    await vscode.commands.executeCommand(offered[chosen]);
  }
}
