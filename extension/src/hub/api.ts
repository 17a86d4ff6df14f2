import type { Log } from "../activity/log";
import { errorText, Problem } from "../problem";
import type { Heartbeat, Registered, Registration, Window, WindowStatus } from "../protocol";
import { withTimeout } from "../timing";
import type { Hub } from "./address_file";

/** How long a hub may take to answer. */
const LIMIT_MS = 10_000;
/** How long the main thread may take to answer. */
const MAIN_THREAD_MS = 5000;

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

  /** The status of a window, as the hub lists it. */
  async status(id: string): Promise<WindowStatus | "gone"> {
    const response = await this.#request("GET", `/api/vscode/discover?id=${encodeURIComponent(id)}`);
    const [window] = (await response.json()) as Partial<Window>[];
    return window?.status ?? "gone";
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

/** The status of a window, as the hub lists it; with the first key that the hub accepts. */
export async function windowStatus(hub: Hub, id: string): Promise<WindowStatus | "gone"> {
  return await withKey(hub, (api) => api.status(id));
}

/** The result of a call with the first key that the hub accepts. */
export async function withKey<T>(hub: Hub, call: (api: HubApi) => Promise<T>): Promise<T> {
  let refused: unknown;
  for (const key of hub.keys.length ? hub.keys : [""]) {
    try {
      return await call(new HubApi(hub.url, key));
    } catch (error) {
      if (!(error instanceof Problem && error.kind === "wrong_key")) {
        throw error;
      }
      refused = error;
    }
  }
  throw refused;
}

/**
 * Sends heartbeats to a hub while the window's main thread answers.
 *
 * The extension host can outlive its window, connected and useless. So each heartbeat is sent only after the main
 * thread has answered (`checkMainThread`).
 */
export class HeartbeatSender {
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;
  #silent = false;

  constructor(
    private readonly api: HubApi,
    private readonly registered: Registered,
    private readonly checkMainThread: () => Promise<unknown>,
    private readonly onRefused: (problem: Problem) => void,
    private readonly log: Log,
  ) {}

  /** Start, with the first heartbeat now. */
  start(): void {
    void this.#sendNext();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  async #sendNext(): Promise<void> {
    const period = this.registered.heartbeat_seconds * 1000;
    const began = performance.now();
    const answered = await answers(this.checkMainThread, Math.min(period, MAIN_THREAD_MS));
    if (this.#stopped) {
      return;
    }
    const took = performance.now() - began;
    this.#logChange(answered);
    if (answered) {
      await this.#send(took);
    }
    if (!this.#isStopped()) {
      this.#timer = setTimeout(() => void this.#sendNext(), Math.max(0, period - (performance.now() - began)));
    }
  }

  #isStopped(): boolean {
    return this.#stopped;
  }

  #logChange(answered: boolean): void {
    if (answered === this.#silent) {
      this.#silent = !answered;
      this.log.warn(answered ? "The window answers again." : "The window does not answer; no heartbeats are sent.");
    }
  }

  async #send(took: number): Promise<void> {
    try {
      await this.api.heartbeat(this.registered.id, { secret: this.registered.secret, main_thread_ms: took });
    } catch (error) {
      this.log.debug(`A heartbeat failed: ${errorText(error)}`);
      if (error instanceof Problem && !error.isTransient && !this.#stopped) {
        this.onRefused(error);
      }
    }
  }
}

/** Whether a call of the main thread succeeds in time. */
export async function answers(call: () => Promise<unknown>, ms = MAIN_THREAD_MS): Promise<boolean> {
  try {
    return (await withTimeout(ms, call().then(() => true))) ?? false;
  } catch {
    return false;
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
