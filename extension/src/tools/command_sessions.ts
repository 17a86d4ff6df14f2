import { readable } from "../activity/output";
import type { Answer, Order } from "../protocol";
import { errorText } from "../problem";
import { withTimeout } from "../timing";

/** The most characters of output in one answer: of its end. */
const MAX_ANSWER = 30_000;
/** The most characters of output that are kept until they are read. */
const MAX_UNREAD = 200_000;
/** How long to wait for the end of a command, in seconds, if the model does not say. */
export const DEFAULT_SECONDS = 60;
/** The most seconds that one call of a tool waits. */
const MAX_SECONDS = 600;
/** What can be typed as a key rather than as text. */
const KEYS: Readonly<Record<string, string>> = { "C-c": "\x03", "C-d": "\x04", "C-z": "\x1a" };

/** Executes an order in this window, with its checks and the user's approval. */
export type Execute = (order: Order, print: (text: string) => void, signal: AbortSignal) => Promise<Answer>;

/** A command, from when it is started until its end has been read. */
interface RunningCommand {
  unread: string;
  /** How it ended; undefined while it runs. */
  ended?: string;
  end: Promise<void>;
}

/** Runs the commands of a language model's tools in terminals, one at a time in each session. */
export class CommandSessions {
  readonly #commands = new Map<string, RunningCommand>();

  constructor(private readonly execute: Execute) {}

  /** Run a command. Returns its output and how it ended; after `seconds` that it is still running. */
  async run(session: string, command: string, seconds: number, signal: AbortSignal): Promise<string> {
    if (this.#commands.get(session)?.ended === undefined && this.#commands.has(session)) {
      return "Not run: another command is still running in this session. Read on, type into it, or use another session.";
    }
    const started = this.#start(session, command);
    this.#commands.set(session, started);
    return await this.#answer(session, started, seconds, signal);
  }

  /** Type text and Enter, or a key such as C-c, for what runs in a session; an empty text only reads on. */
  async type(session: string, text: string, seconds: number, signal: AbortSignal): Promise<string> {
    const command = this.#commands.get(session);
    if (!command) {
      return "No command runs in this session.";
    }
    if (text !== "" && command.ended === undefined) {
      await this.#input(session, KEYS[text] ?? `${text}\r`, signal);
    }
    return await this.#answer(session, command, seconds, signal);
  }

  #start(session: string, command: string): RunningCommand {
    const started: RunningCommand = { unread: "", end: Promise.resolve() };
    const print = (text: string): void => {
      started.unread = (started.unread + text).slice(-MAX_UNREAD);
    };
    // The command goes on when a call ends, so a call's signal does not cancel it.
    const ordered = this.execute({ kind: "run", session, command, cwd: "" }, print, new AbortController().signal);
    started.end = ordered.then(
      (answer) => void (started.ended = describeEnd(answer)),
      (error: unknown) => void (started.ended = `[not completed: ${errorText(error)}]`),
    );
    return started;
  }

  async #answer(session: string, command: RunningCommand, seconds: number, signal: AbortSignal): Promise<string> {
    const limit = Math.min(Math.max(seconds, 0), MAX_SECONDS);
    await withTimeout(1000 * limit, Promise.race([command.end, aborted(signal)]));
    if (signal.aborted && command.ended === undefined) {
      await this.#input(session, "\x03", new AbortController().signal);
    }
    if (command.ended !== undefined) {
      this.#commands.delete(session);
    }
    const output = shorten(readable(command.unread));
    command.unread = "";
    const state = command.ended ?? `[still running after ${limit} s]`;
    return output === "" || output.endsWith("\n") ? output + state : `${output}\n${state}`;
  }

  async #input(session: string, text: string, signal: AbortSignal): Promise<void> {
    await this.execute({ kind: "input", session, text }, () => undefined, signal);
  }
}

function describeEnd(answer: Answer): string {
  if (answer.kind !== "run_ended") {
    return "[ended]";
  }
  const code = answer.exit_code === null ? "exit code unknown" : `exit code ${answer.exit_code}`;
  return `[${code}${answer.cwd ? `, now in ${answer.cwd}` : ""}${answer.shell_ended ? ", the shell has ended" : ""}]`;
}

function shorten(text: string): string {
  return text.length > MAX_ANSWER ? `[${text.length - MAX_ANSWER} characters left out]\n${text.slice(-MAX_ANSWER)}` : text;
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) {
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  }
}
