import * as os from "node:os";
import * as vscode from "vscode";
import { chosenHub, type Hub, hubFilePath, readHubFile, tidied } from "./hub_file";
import { Problem } from "./problem";

/** Knows which hub to connect to, and its key. */
export class Keys {
  constructor(private readonly secrets: vscode.SecretStorage) {}

  /**
   * The hub, and the keys that may open it.
   *
   * @throws Problem if the settings make no sense.
   */
  async hub(): Promise<Hub> {
    const set = vscode.workspace.getConfiguration("glovebox").get("hubUrl", "").trim();
    const url = set === "" ? "" : tidied(set);
    if (url === undefined) {
      throw new Problem("refused", `The setting glovebox.hubUrl is not the address of a hub: ${set}`, ["openSettings"]);
    }
    const file = await readHubFile(hubFilePath(process.env, os.homedir()));
    const { url: chosen } = chosenHub(url, file, undefined);
    return chosenHub(url, file, await this.secrets.get(nameOf(chosen)));
  }

  /** Ask the user for the key of the hub; true if there is one now. */
  async ask(): Promise<boolean> {
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
    await this.secrets.store(nameOf(url), key.trim());
    return true;
  }

  /** Forget the key that the user gave for the hub. */
  async forget(): Promise<void> {
    const { url } = await this.hub();
    await this.secrets.delete(nameOf(url));
    void vscode.window.showInformationMessage(`Glovebox: the key of the hub at ${url} is forgotten.`);
  }
}

function nameOf(url: string): string {
  return `glovebox.key ${url}`;
}
