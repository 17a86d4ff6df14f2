import { readFile } from "node:fs/promises";
import { relative } from "node:path";
import * as vscode from "vscode";

import { type Containment, isWithin, type Place, resolveLinks } from "../orders/containment";
import { isMissing } from "../orders/refusal";
import { decodeText } from "../orders/text_changes";
import type { Order } from "../protocol";
import type { ApprovalContext, ProposedEdit } from "./approvals";
import { type Facts, type Mode, MODES } from "./policy";

/** Larger texts are not compared. */
const MAX_COMPARED = 2 * 1024 * 1024;
const MODE_KEY = "approval.mode";
const ALLOWED_KEY = "approval.allowedCommands";

/**
 * The user's choices for a workspace, and its paths.
 *
 * Choices are stored by VS Code, and the settings have the scope `machine`: no file of the workspace can change them.
 */
export class WorkspaceContext implements ApprovalContext {
  constructor(
    private readonly state: vscode.Memento,
    private readonly containment: Containment,
    private readonly folders: () => string[],
  ) {}

  /** What the user has chosen for this workspace; undefined for what the setting says. */
  get chosenMode(): Mode | undefined {
    return toMode(this.state.get(MODE_KEY));
  }

  async chooseMode(mode: Mode | undefined): Promise<void> {
    await this.state.update(MODE_KEY, mode);
  }

  /** The mode of the setting. */
  get defaultMode(): Mode {
    return toMode(configuration().get("approval")) ?? "commands";
  }

  /** The commands that the user always allows in this workspace. */
  get allowedCommands(): string[] {
    return toTexts(this.state.get(ALLOWED_KEY));
  }

  async allowAlways(pattern: string): Promise<void> {
    await this.state.update(ALLOWED_KEY, [...new Set([...this.allowedCommands, pattern])]);
  }

  async forbid(patterns: readonly string[]): Promise<void> {
    await this.state.update(ALLOWED_KEY, this.allowedCommands.filter((one) => !patterns.includes(one)));
  }

  async facts(order: Order): Promise<Omit<Facts, "approvedCommand">> {
    const mode = this.chosenMode ?? this.defaultMode;
    return {
      mode,
      allowed: [...toTexts(configuration().get("allowedCommands")), ...this.allowedCommands],
      isInside: (path) => this.folders().some((folder) => isWithin(folder, path)),
      paths: mode === "allow" ? [] : await this.#changedPaths(order),
    };
  }

  async proposedEdit(order: Order): Promise<ProposedEdit | undefined> {
    if (order.kind !== "write" || order.data.length > MAX_COMPARED) {
      return undefined;
    }
    const { path } = await this.containment.resolve(order.path);
    const before = await readFile(path).catch((error: unknown) => {
      if (isMissing(error)) {
        return new Uint8Array();
      }
      throw error;
    });
    const [was, is] = [decodeText(before), decodeText(new Uint8Array(order.data))];
    const isText = was !== undefined && is !== undefined && before.length <= MAX_COMPARED;
    return isText ? { path, before: was, after: is } : undefined;
  }

  shortPath(path: string): string {
    return vscode.workspace.asRelativePath(path);
  }

  async #changedPaths(order: Order): Promise<string[]> {
    switch (order.kind) {
      case "write":
      case "land":
      case "make_directory":
        return this.#names([await this.containment.resolve(order.path)]);
      case "delete":
        return this.#names([await this.containment.resolveEntry(order.path)]);
      case "move":
        return this.#names([
          await this.containment.resolveEntry(order.path),
          await this.containment.resolveEntry(order.to),
        ]);
      default:
        return [];
    }
  }

  /** The paths below the folders of the workspace. */
  async #names(places: Place[]): Promise<string[]> {
    const folders = this.folders();
    const known = [...folders, ...(await Promise.all(folders.map((folder) => resolveLinks(folder))))];
    return places
      .flatMap(({ path, real }) => [path, real])
      .flatMap((path) => {
        const inside = known.filter((folder) => isWithin(folder, path)).map((folder) => relative(folder, path));
        return inside.length > 0 ? inside : [path];
      });
  }
}

function configuration(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration("glovebox");
}

function toMode(value: unknown): Mode | undefined {
  return MODES.find((mode) => mode === value);
}

function toTexts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}
