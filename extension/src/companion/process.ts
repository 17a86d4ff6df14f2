import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { delimiter } from "node:path";

import { Refusal } from "../orders/refusal";
import { environment } from "../orders/shells";

/** How long the box may take until it answers. */
const START_MS = 120_000;
/** How long it may take to stop. */
const STOP_MS = 10_000;
/** How long to wait for the rest of its output when it has ended. */
const OUTPUT_MS = 500;
/** The most characters of its output that are kept, to say why it ended. */
const MAX_OUTPUT = 4000;
const ANNOUNCED = /^Glovebox serves .* on http:\/\/127\.0\.0\.1:(\d+) \(ready in \d+ ms\)$/m;
const INSTALL =
  "Install it on the machine of the window (pip install 'glovebox-runtime[box]'), or say where it is in the setting glovebox.command.";

/** Where the companion box is started. */
export interface CompanionPlace {
  /** The program `glovebox`: a path, or a name that is looked for on PATH. */
  command: string;
  /** The folders of the workspace. The box works in the first and sees all, at their own paths. */
  folders: readonly string[];
}

/** A box that answers on this machine. */
export interface CompanionAddress {
  port: number;
  key: string;
}

/** The process of the companion box: started when it is needed, and again after it has ended. */
export class CompanionProcess {
  #child: ChildProcessWithoutNullStreams | undefined;
  #starting: Promise<CompanionAddress> | undefined;

  constructor(
    private readonly place: () => CompanionPlace,
    private readonly log: (line: string) => void,
  ) {}

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Where the box answers; rejects with a `Refusal` that says why it cannot be started. */
  async address(): Promise<CompanionAddress> {
    this.#starting ??= this.#start();
    return await this.#starting;
  }

  /** Stop the box. It also ends by itself when this process does, as its standard input is closed then. */
  stop(): void {
    const child = this.#child;
    this.#child = this.#starting = undefined;
    if (child) {
      child.stdin.end();
      child.kill("SIGTERM");
      setTimeout(() => child.kill("SIGKILL"), STOP_MS).unref();
    }
  }

  async #start(): Promise<CompanionAddress> {
    const { command, folders } = this.place();
    const [first, ...others] = folders;
    if (process.platform === "win32") {
      throw this.#failed("A companion box runs on Linux and macOS, not on Windows itself. Open the folder in WSL.");
    }
    if (first === undefined) {
      throw this.#failed("A companion box works in a folder, and none is open in this window.", "no_folder");
    }
    const key = randomBytes(32).toString("hex");
    const flags = ["--host", "127.0.0.1", "--no-log-json", "--isolation", "auto", "--stop-with-stdin", "--session-api-key-file", "-"];
    const seen = others.flatMap((folder) => ["--folder", folder]);
    const child = spawn(
      command,
      ["serve", "0", ...flags, "--working-dir", first, ...seen, "--plugins", "jupyter", "agent_skills"],
      { cwd: "/", env: environment(process.env), detached: true, stdio: "pipe" },
    );
    this.#child = child;
    child.stdin.on("error", () => undefined); // it has ended, which is noticed below
    child.stdin.write(`${key}\n`);
    this.log(`Starting a companion box with ${command}.`);
    return { port: await this.#waitForPort(child, command), key };
  }

  async #waitForPort(child: ChildProcessWithoutNullStreams, command: string): Promise<number> {
    let output = "";
    return await new Promise<number>((resolve, reject) => {
      const fail = (words: string): void => {
        clearTimeout(timer);
        if (this.#child === child) {
          this.stop();
        }
        reject(new Refusal("no_companion", words));
      };
      const timer = setTimeout(() => fail(`The companion box did not start within ${START_MS / 1000} s.`), START_MS);
      const listen = (data: Buffer): void => {
        output = (output + data.toString()).slice(-MAX_OUTPUT);
        const found = ANNOUNCED.exec(output);
        if (found) {
          clearTimeout(timer);
          resolve(Number(found[1]));
        }
      };
      child.stdout.on("data", listen);
      child.stderr.on("data", listen);
      child.once("error", (error) => fail(describeError(error, command)));
      child.once("exit", (code, signal) => {
        this.log(`The companion box has ended (${signal ?? `status ${code}`}).`);
        const end = (): void => fail(describeExit(code, output, command));
        child.once("close", end); // its last words are there by then, unless another process has its output
        setTimeout(end, OUTPUT_MS).unref();
      });
    });
  }

  #failed(words: string, code: "no_companion" | "no_folder" = "no_companion"): Refusal {
    this.#starting = undefined;
    return new Refusal(code, words);
  }
}

function describeError(error: NodeJS.ErrnoException, command: string): string {
  if (error.code !== "ENOENT" && error.code !== "EACCES") {
    return `${command} cannot be run: ${error.message}`;
  }
  const where = command.includes("/") ? "" : ` on PATH (${(process.env.PATH ?? "").split(delimiter).join(", ")})`;
  const what = error.code === "ENOENT" ? `There is no ${command}${where}` : `${command} may not be executed`;
  return `${what}: cells, web pages and MCP tools in a VS Code window need a companion box, which glovebox starts. ${INSTALL}`;
}

function describeExit(code: number | null, output: string, command: string): string {
  if (code === 2 && /--stop-with-stdin|unrecognized|no flag/.test(output)) {
    return `${command} is too old to start a companion box. Update it: pip install -U 'glovebox-runtime[box]'.`;
  }
  const words = output.trim().split("\n").slice(-10).join("\n");
  return `The companion box (${command} serve) ended before it answered. Its last words:\n${words || "(none)"}\n${INSTALL}`;
}
