import { Problem, said } from "./problem";
import type { Heartbeat, Registered, Registration } from "./protocol";

/** How long a hub has for an answer. */
const LIMIT_MS = 10_000;

/** What proves that a window is one that the hub knows. */
export interface Identity {
  id: string;
  secret: string;
}

/** The part of a hub that is plain HTTP. */
export class HubApi {
  constructor(
    readonly url: string,
    readonly key: string,
  ) {}

  /** Introduce the window; with an identity, as the one that it was before. */
  async register(registration: Registration, before?: Identity): Promise<Registered> {
    const headers = before ? { "X-Window-Id": before.id, "X-Window-Secret": before.secret } : {};
    const response = await this.#ask("POST", "/api/vscode/register", registration, headers);
    const answer: unknown = await response.json().catch(() => undefined);
    if (!isRegistered(answer)) {
      throw this.#noHub();
    }
    return answer;
  }

  /** Say that the window's main thread answers. */
  async heartbeat(id: string, heartbeat: Heartbeat): Promise<void> {
    try {
      await this.#ask("POST", `/api/vscode/heartbeat/${id}`, heartbeat);
    } catch (error) {
      if (error instanceof Problem && error.kind === "no_hub") {
        throw new Problem("unknown_window", "The hub does not know this window any more.");
      }
      throw error;
    }
  }

  /** Have the hub forget the window. */
  async unregister({ id, secret }: Identity): Promise<void> {
    await this.#ask("DELETE", `/api/vscode/unregister/${id}`, undefined, { "X-Window-Secret": secret });
  }

  async #ask(method: string, path: string, body?: object, headers?: Record<string, string>): Promise<Response> {
    let response: Response;
    try {
      response = await fetch(this.url + path, {
        method,
        headers: { ...headers, "X-Session-API-Key": this.key, "Content-Type": "application/json" },
        signal: AbortSignal.timeout(LIMIT_MS),
        redirect: "error",
        ...(body && { body: JSON.stringify(body) }),
      });
    } catch (error) {
      throw this.#absent(error);
    }
    if (!response.ok) {
      throw await this.#refused(response);
    }
    return response;
  }

  #absent(error: unknown): Problem {
    return new Problem(
      "absent",
      `No hub answers at ${this.url} (${said(error)}). Start one with the command: glovebox hub`,
      ["retry", "openSettings", "showLog"],
    );
  }

  #noHub(): Problem {
    return new Problem(
      "no_hub",
      `Something answers at ${this.url}, but it is no Glovebox hub that this extension can talk to: ` +
        "another program, or a hub that is too old.",
      ["retry", "openSettings", "showLog"],
    );
  }

  async #refused(response: Response): Promise<Problem> {
    const detail = detailOf(await response.text().catch(() => ""));
    if (response.status === 401 || response.status === 403) {
      const words = this.key ? "The hub does not accept the key" : "The hub wants a key";
      return new Problem("wrong_key", `${words} (${this.url}). It prints where its key is when it starts.`, [
        "setKey",
        "retry",
        "showLog",
      ]);
    }
    if (response.status === 404 || response.status === 405) {
      return this.#noHub();
    }
    return new Problem("refused", `The hub refuses (${response.status}): ${detail || response.statusText}`);
  }
}

function detailOf(body: string): string {
  try {
    const parsed: unknown = JSON.parse(body);
    if (typeof parsed === "object" && parsed !== null && "detail" in parsed) {
      return typeof parsed.detail === "string" ? parsed.detail : JSON.stringify(parsed.detail);
    }
  } catch {
    // Not the words of a hub; they are shown as they are.
  }
  return body.slice(0, 200);
}

function isRegistered(answer: unknown): answer is Registered {
  if (typeof answer !== "object" || answer === null) {
    return false;
  }
  const { id, secret, heartbeat_seconds, grace_seconds } = answer as Partial<Record<keyof Registered, unknown>>;
  return (
    typeof id === "string" &&
    typeof secret === "string" &&
    typeof heartbeat_seconds === "number" &&
    typeof grace_seconds === "number"
  );
}
