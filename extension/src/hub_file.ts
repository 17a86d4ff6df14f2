import { readFile } from "node:fs/promises";
import * as path from "node:path";

/** Where a hub is when nothing says otherwise. */
export const USUAL_HUB = "http://127.0.0.1:8790";

/** A hub, and the keys that may open it, the likeliest first. */
export interface Hub {
  url: string;
  keys: string[];
}

/** What the hub of this machine has left for its user's programs. */
export interface HubFile {
  url: string;
  key: string;
}

/** The environment, as far as it says where state is kept. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Where the hub of this machine leaves its address and its key. */
export function hubFilePath(environment: Environment, home: string): string {
  const state = environment.XDG_STATE_HOME ?? "";
  return path.join(state === "" ? path.join(home, ".local", "state") : state, "glovebox", "hub", "address.json");
}

/** What is in that file; nothing if there is none, or if it makes no sense. */
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
  const address = typeof url === "string" ? tidied(url) : undefined;
  return address !== undefined && typeof key === "string" ? { url: address, key } : undefined;
}

/** An address without what does not matter; nothing if it is not the address of a web server. */
export function tidied(url: string): string | undefined {
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
 * The hub to connect to: the one of the settings, else the one of this machine's file, else the usual address.
 *
 * `setUrl` is tidied or empty. A key of the file opens only the hub that wrote it.
 */
export function chosenHub(
  setUrl: string,
  file: HubFile | undefined,
  storedKey: string | undefined,
): Hub {
  const url = setUrl || (file?.url ?? USUAL_HUB);
  const keys = [storedKey, file?.url === url ? file.key : undefined];
  return { url, keys: [...new Set(keys.filter((key) => key !== undefined && key !== ""))] as string[] };
}
