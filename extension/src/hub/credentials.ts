import * as os from "node:os";
import * as vscode from "vscode";
import { chooseHub, type Hub, hubFilePath, readHubFile, normalizeUrl } from "./address_file";
import { Problem } from "../problem";

/** The hub to connect to, and its key in VS Code's secret storage. */
export class HubCredentials {
  constructor(private readonly secrets: vscode.SecretStorage) {}

  /**
   * The hub, and the keys to try.
   *
   * @throws Problem if the settings are not valid.
   */
  async hub(): Promise<Hub> {
    const set = vscode.workspace.getConfiguration("glovebox").get("hubUrl", "").trim();
    const url = set === "" ? "" : normalizeUrl(set);
    if (url === undefined) {
      throw new Problem("refused", `The setting glovebox.hubUrl is not the address of a hub: ${set}`, ["openSettings"]);
    }
    const file = await readHubFile(hubFilePath(process.env, os.homedir()));
    const { url: chosen } = chooseHub(url, file, undefined);
    return chooseHub(url, file, await this.secrets.get(secretName(chosen)));
  }

  /** Prompt the user for the key of the hub. Returns whether one was given. */
  async promptForKey(): Promise<boolean> {
    const { url } = await this.hub();
    const key = await vscode.window.showInputBox({
      title: "Glovebox: Set Hub Key",
      prompt: `The key of the hub at ${url}. It prints where its key is when it starts.`,
      password: true,
      ignoreFocusOut: true,
    });
    if (!key?.trim()) {
      return false;
    }
    await this.secrets.store(secretName(url), key.trim());
    return true;
  }

  /** Delete the stored key of the hub. */
  async forgetKey(): Promise<void> {
    const { url } = await this.hub();
    await this.secrets.delete(secretName(url));
    void vscode.window.showInformationMessage(`Glovebox: the key of the hub at ${url} is forgotten.`);
  }
}

function secretName(url: string): string {
  return `glovebox.key ${url}`;
}
