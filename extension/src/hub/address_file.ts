import { readFile } from "node:fs/promises";
import * as path from "node:path";

export const DEFAULT_HUB_URL = "http://127.0.0.1:8790";

/** The address of a hub, and the keys to try, the likeliest first. */
export interface Hub {
  url: string;
  keys: string[];
}

/** The content of the file that the hub of this machine writes for its user's programs. */
export interface HubFile {
  url: string;
  key: string;
}

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The path of the file with the address and the key of the hub of this machine. */
export function hubFilePath(environment: Environment, home: string): string {
  const state = environment.XDG_STATE_HOME ?? "";
  return path.join(state === "" ? path.join(home, ".local", "state") : state, "glovebox", "hub", "address.json");
}

/** Read that file; undefined if there is none, or if it is not valid. */
export async function readHubFile(file: string): Promise<HubFile | undefined> {
  let content: unknown;
  try {
    content = JSON.parse(await readFile(file, "utf8"));
  } catch {
    return undefined;
  }
  if (typeof content !== "object" || content === null || !("url" in content) || !("key" in content)) {
    return undefined;
  }
  const { url, key } = content;
  const address = typeof url === "string" ? normalizeUrl(url) : undefined;
  return address !== undefined && typeof key === "string" ? { url: address, key } : undefined;
}

/** An address in normal form; undefined if it is not an HTTP address. */
export function normalizeUrl(url: string): string | undefined {
  let parsed: URL;
  try {
    parsed = new URL(url.trim());
  } catch {
    return undefined;
  }
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:") {
    return undefined;
  }
  return parsed.origin + parsed.pathname.replace(/\/+$/, "");
}

/**
 * Choose the hub to connect to: that of the settings, else that of the file, else the default address.
 *
 * `setUrl` is in normal form or empty. The key of the file is used only for the hub that wrote the file.
 */
export function chooseHub(
  setUrl: string,
  file: HubFile | undefined,
  storedKey: string | undefined,
): Hub {
  const url = setUrl || (file?.url ?? DEFAULT_HUB_URL);
  const keys = [storedKey, file?.url === url ? file.key : undefined];
  return { url, keys: [...new Set(keys.filter((key) => key !== undefined && key !== ""))] as string[] };
}
