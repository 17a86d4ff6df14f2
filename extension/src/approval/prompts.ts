import * as vscode from "vscode";

import type { Log } from "../activity/log";
import { errorText } from "../problem";
import type { ApprovalRequest, Approvals, Decision } from "./approvals";
import { allowablePatterns, type Mode } from "./policy";
import { ProposedDocuments } from "./proposed_documents";
import type { WorkspaceContext } from "./workspace_context";

/** Asks the user: a notification for one request at a time, an item in the status bar while any waits, and commands. */
export class ApprovalPrompts implements vscode.Disposable {
  readonly #documents = new ProposedDocuments();
  readonly #item = vscode.window.createStatusBarItem("glovebox.approval", vscode.StatusBarAlignment.Left, 99);
  readonly #subscriptions: vscode.Disposable[] = [];
  /** The request that the notification is about. */
  #shown: ApprovalRequest | undefined;

  constructor(
    private readonly approvals: Approvals,
    private readonly context: WorkspaceContext,
    private readonly log: Log,
  ) {
    this.#item.name = "Glovebox Approval";
    this.#item.command = "glovebox.reviewRequest";
    this.#item.backgroundColor = new vscode.ThemeColor("statusBarItem.warningBackground");
    const commands: Record<string, (argument?: unknown) => unknown> = {
      approve: (argument) => this.#decide(this.#find(argument), "Allow"),
      approveAlways: (argument) => this.#decide(this.#find(argument), "Always Allow…"),
      deny: (argument) => this.#decide(this.#find(argument), "Deny…"),
      showRequest: (argument) => this.#decide(this.#find(argument), "Show"),
      reviewRequest: (argument) => this.#review(this.#find(argument)),
      setApprovalMode: () => chooseMode(this.context),
      forgetAllowedCommands: () => forgetCommands(this.context),
    };
    for (const [name, run] of Object.entries(commands)) {
      this.#subscriptions.push(vscode.commands.registerCommand(`glovebox.${name}`, run));
    }
    this.#subscriptions.push(approvals.onDidChange(() => this.#update()));
  }

  dispose(): void {
    vscode.Disposable.from(...this.#subscriptions).dispose();
    this.#documents.dispose();
    this.#item.dispose();
  }

  #update(): void {
    const { pending } = this.approvals;
    const [first] = pending;
    void vscode.commands.executeCommand("setContext", "glovebox.pendingRequests", pending.length);
    if (first) {
      this.#item.text = `$(bell-dot) The agent waits for you${pending.length > 1 ? ` (${pending.length})` : ""}`;
      this.#item.tooltip = first.question;
      this.#item.accessibilityInformation = { label: `${first.question}. Press to decide.` };
      this.#item.show();
    } else {
      this.#item.hide();
    }
    if (this.#shown?.id !== first?.id) {
      void this.#showNext(this.#shown, first);
    }
  }

  async #showNext(previous: ApprovalRequest | undefined, next: ApprovalRequest | undefined): Promise<void> {
    this.#shown = next;
    try {
      if (previous) {
        await this.#documents.close(previous.id);
        // A notification of what was decided elsewhere cannot be closed, but hidden.
        await vscode.commands.executeCommand("notifications.hideToasts");
      }
      if (next?.edit && this.#shown === next) {
        await this.#documents.show(next, false);
      }
      while (next && this.#shown === next && (await this.#notify(next))) {
        // Shown again after a choice that was no decision.
      }
    } catch (error) {
      this.log.warn(`A request could not be shown: ${errorText(error)}`);
    }
  }

  /** Show the notification; whether it is to be shown again. */
  async #notify(request: ApprovalRequest): Promise<boolean> {
    const chosen = await vscode.window.showWarningMessage(request.question, ...choices(request));
    if (chosen === undefined) {
      return false; // the status bar and the view have it still
    }
    return !(await this.#decide(request, chosen));
  }

  async #review(request: ApprovalRequest | undefined): Promise<void> {
    if (!request) {
      return;
    }
    const chosen = await vscode.window.showQuickPick(choices(request), { title: "Glovebox", placeHolder: request.question });
    if (chosen !== undefined) {
      await this.#decide(request, chosen as Choice);
    }
  }

  /** Have the user decide; whether that happened, now or before. */
  async #decide(request: ApprovalRequest | undefined, choice: Choice): Promise<boolean> {
    if (!request) {
      return true;
    }
    if (choice === "Show") {
      await this.#documents.show(request, true);
      return false;
    }
    const decision = await DECISIONS[choice](request);
    if (!decision) {
      return false;
    }
    if (!(await this.approvals.decide(request.id, decision))) {
      void vscode.window.showInformationMessage("Glovebox: that request does not wait any more.");
    }
    return true;
  }

  /** The request that a command is about: the one with the id, or of the item, that it was given; else the oldest. */
  #find(argument: unknown): ApprovalRequest | undefined {
    const { pending } = this.approvals;
    const given = typeof argument === "object" && argument !== null && "id" in argument ? argument.id : argument;
    if (given === undefined && pending.length === 0) {
      void vscode.window.showInformationMessage("Glovebox: no request waits for you.");
    }
    return given === undefined ? pending[0] : pending.find(({ id }) => id === given);
  }
}

type Choice = "Allow" | "Always Allow…" | "Deny…" | "Show";

function choices(request: ApprovalRequest): Choice[] {
  const always: Choice[] = request.command === undefined ? [] : ["Always Allow…"];
  const isHidden = request.edit !== undefined || request.detail !== request.summary;
  return ["Allow", ...always, "Deny…", ...(isHidden ? (["Show"] as const) : [])];
}

const DECISIONS: Record<Exclude<Choice, "Show">, (request: ApprovalRequest) => Promise<Decision | undefined>> = {
  Allow: () => Promise.resolve({ kind: "allow" }),
  "Always Allow…": async ({ command, question }) => {
    if (command === undefined) {
      return { kind: "allow" };
    }
    const patterns = allowablePatterns(command);
    const items = patterns.map((pattern) => ({
      label: pattern.split("\n", 1)[0] ?? "",
      description: pattern.endsWith(" *") ? "Every command that begins so" : "Exactly this command",
      pattern,
    }));
    const chosen = await vscode.window.showQuickPick(items, {
      title: "Always allow in this workspace",
      placeHolder: question,
      ignoreFocusOut: true,
    });
    return chosen && { kind: "always", pattern: chosen.pattern };
  },
  "Deny…": async ({ question }) => {
    const words = await vscode.window.showInputBox({
      title: "Deny",
      prompt: `${question}. What should the agent know, or do instead? It may be empty.`,
      ignoreFocusOut: true,
    });
    return words === undefined ? undefined : { kind: "deny", words };
  },
};

const MODE_LABELS: Record<Mode, string> = {
  everything: "Ask for everything",
  edits: "Ask for edits, and for commands that are not on the list",
  commands: "Ask for deletions, and for commands that are not on the list",
  allow: "Allow everything",
};

/** Have the user choose the mode for this workspace. */
async function chooseMode(context: WorkspaceContext): Promise<void> {
  const present = context.chosenMode;
  const modes = (Object.keys(MODE_LABELS) as Mode[]).map((mode) => ({
    label: MODE_LABELS[mode],
    description: mode === present ? "now" : "",
    mode: mode,
  }));
  const setting = {
    label: `As the setting says: ${MODE_LABELS[context.defaultMode]}`,
    description: present === undefined ? "now" : "",
    mode: undefined,
  };
  const chosen = await vscode.window.showQuickPick([...modes, setting], { title: "What to ask for in this workspace" });
  if (chosen) {
    await context.chooseMode(chosen.mode);
  }
}

/** Have the user choose commands that are not always allowed any more. */
async function forgetCommands(context: WorkspaceContext): Promise<void> {
  const chosen = await vscode.window.showQuickPick(context.allowedCommands, {
    title: "Ask for these again",
    placeHolder: "Commands that are always allowed in this workspace",
    canPickMany: true,
  });
  if (chosen) {
    await context.forbid(chosen);
  }
}
