import { errorText, Problem } from "../problem";
import type { Heartbeat, Registered, Registration } from "../protocol";

/** How long a hub may take to answer. */
const LIMIT_MS = 10_000;

/** The id of a window at a hub, and the secret that proves it. */
export interface Identity {
  id: string;
  secret: string;
}

/** A hub's HTTP API for windows. */
export class HubApi {
  constructor(
    readonly url: string,
    readonly key: string,
  ) {}

  /** Register the window; with its previous identity, under the same id. */
  async register(registration: Registration, previous?: Identity): Promise<Registered> {
    const headers = previous ? { "X-Window-Id": previous.id, "X-Window-Secret": previous.secret } : {};
    const response = await this.#request("POST", "/api/vscode/register", registration, headers);
    const answer: unknown = await response.json().catch(() => undefined);
    if (!isRegistered(answer)) {
      throw this.#noHubProblem();
    }
    return answer;
  }

  /** Report that the window's main thread answers. */
  async heartbeat(id: string, heartbeat: Heartbeat): Promise<void> {
    try {
      await this.#request("POST", `/api/vscode/heartbeat/${id}`, heartbeat);
    } catch (error) {
      if (error instanceof Problem && error.kind === "no_hub") {
        throw new Problem("unknown_window", "The hub does not know this window any more.");
      }
      throw error;
    }
  }

  /** Remove the window from the hub. */
  async unregister({ id, secret }: Identity): Promise<void> {
    await this.#request("DELETE", `/api/vscode/unregister/${id}`, undefined, { "X-Window-Secret": secret });
  }

  async #request(method: string, path: string, body?: object, headers?: Record<string, string>): Promise<Response> {
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
      throw this.#absentProblem(error);
    }
    if (!response.ok) {
      throw await this.#refusedProblem(response);
    }
    return response;
  }

  #absentProblem(error: unknown): Problem {
    return new Problem(
      "absent",
      `No hub answers at ${this.url} (${errorText(error)}). Start one with the command: glovebox hub`,
      ["retry", "openSettings", "showLog"],
    );
  }

  #noHubProblem(): Problem {
    return new Problem(
      "no_hub",
      `Something answers at ${this.url}, but it is no Glovebox hub that this extension can talk to: ` +
        "another program, or a hub that is too old.",
      ["retry", "openSettings", "showLog"],
    );
  }

  async #refusedProblem(response: Response): Promise<Problem> {
    const detail = detailOf(await response.text().catch(() => ""));
    if (response.status === 401 || response.status === 403) {
      const problem = this.key ? "The hub does not accept the key" : "The hub wants a key";
      return new Problem("wrong_key", `${problem} (${this.url}). It prints where its key is when it starts.`, [
        "setKey",
        "retry",
        "showLog",
      ]);
    }
    if (response.status === 404 || response.status === 405) {
      return this.#noHubProblem();
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
    // Not from a hub: the body itself is shown.
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
