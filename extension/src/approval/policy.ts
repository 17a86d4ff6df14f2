import { describeRequest } from "../companion/requests";
import type { Order } from "../protocol";
import { type IsInside, isHarmless } from "./harmless";
import { parseCommandLine, type SimpleCommand } from "./shell_syntax";

/** What the user is asked for, from the most to the least. */
export const MODES = ["everything", "edits", "commands", "allow"] as const;
export type Mode = (typeof MODES)[number];

/** What has to be known besides an order to decide whether the user is asked. */
export interface Facts {
  mode: Mode;
  /** Commands that the user always allows: exactly these, or with ` *` at the end all that begin so. */
  allowed: readonly string[];
  isInside: IsInside;
  /** The paths that the order changes, below the folders of the workspace, as given and with links followed. */
  paths: readonly string[];
  /** The user has allowed the command that runs in the terminal of the order. */
  approvedCommand: boolean;
}

const READING = new Set<Order["kind"]>(["stat", "read", "list", "glob", "grep"]);
/** Pieces of an upload, which is asked for when it lands; what frees something; an arrival, which has a question of its own. */
const NEVER = new Set<Order["kind"]>(["put", "drop", "end_session", "fetch_body", "arrive", "depart"]);
/** Keys that end or leave a program: Ctrl-C, Ctrl-D, Ctrl-Z, Ctrl-\, and `q` in a pager. */
// eslint-disable-next-line no-control-regex
const KEYS = /^(?:[\x03\x04\x1a\x1c]|q\r?|\r)$/;
/** Names whose files decide what programs and shells do, or what is allowed here: a change of them is never harmless. */
const PROTECTED =
  /^(\.vscode(-.*)?|.*\.code-workspace|\.git|\.gitconfig|\.githooks|\.husky|\.devcontainer(\.json)?|\.venv|venv|\.bin|\.envrc|\.direnv|\.ssh|\.config|\.local|\.netrc|\.inputrc|\.(bash|zsh|ksh|mksh|z?profile|zlogin|zlogout).*)$/i;
/** A file that makes a directory a git repository, with a configuration that names programs to run. */
const REPOSITORY = /^head$/i;

/** Whether the user has to be asked before an order is carried out. */
export function needsApproval(order: Order, facts: Facts): boolean {
  if (facts.mode === "allow" || NEVER.has(order.kind)) {
    return false;
  }
  if (facts.mode === "everything") {
    const isAllowed = "command" in order && isAllowedLine(order.command, facts.allowed);
    return !isAllowed && !(order.kind === "input" && KEYS.test(order.text));
  }
  switch (order.kind) {
    case "run":
    case "run_apart":
      return !isAllowedLine(order.command, facts.allowed, (command) => isHarmless(command, facts.isInside));
    case "input":
      return !facts.approvedCommand && !KEYS.test(order.text);
    case "forward":
      return !describeRequest(order).isQuestion;
    case "write":
    case "land":
      return facts.mode === "edits" || changesProtected(facts);
    case "make_directory":
      return changesProtected(facts);
    case "move":
      return facts.mode === "edits" || order.overwrite || changesProtected(facts);
    case "delete":
      return true;
    default:
      return false;
  }
}

/** A key for questions that are asked once for all orders of an action; undefined for those that are asked each time. */
export function grantKey(order: Order, action: string): string | undefined {
  if (READING.has(order.kind)) {
    return `read ${action || ("path" in order ? order.path : "")}`;
  }
  return order.kind === "land" && action !== "" ? `land ${action}` : undefined;
}

/** Whether a command line is one that the user always allows, or each of its parts is, or else is `accepted`. */
export function isAllowedLine(
  line: string,
  allowed: readonly string[],
  accepted: (command: SimpleCommand) => boolean = () => false,
): boolean {
  if (allowed.includes(line.trim())) {
    return true;
  }
  return parseCommandLine(line)?.every((command) => accepted(command) || matches(command, allowed)) ?? false;
}

/** The patterns that the user may choose from to always allow a command: itself, then what it begins with. */
export function allowablePatterns(line: string): string[] {
  const exact = line.trim();
  const commands = parseCommandLine(exact);
  const words = commands?.length === 1 ? plainWords(commands[0]) : undefined;
  if (!words || INTERPRETERS.test(words[0] ?? "")) {
    return [exact];
  }
  const beginnings = [2, 1].filter((count) => words.length >= count && !words[count - 1]?.startsWith("-"));
  return [exact, ...beginnings.map((count) => `${words.slice(0, count).join(" ")} *`)];
}

/** Programs that run what their arguments say: to allow all of it is to allow everything. */
const INTERPRETERS =
  /^(.*\/)?(ba|z|da|k|fi)?sh$|^(.*\/)?(python|perl|ruby|node|deno|bun|php|lua|awk|gawk|mawk|tclsh)[\d.]*$|^(.*\/)?(sudo|doas|su|env|xargs|eval|exec|command|builtin|source|\.|nohup|nice|timeout|time|watch|ssh|find|parallel|setsid|script|trap|busybox)$/;

function matches(command: SimpleCommand, allowed: readonly string[]): boolean {
  const words = plainWords(command);
  if (!words || command.inputs.length > 0) {
    return false;
  }
  return allowed.some((pattern) => {
    const wanted = pattern.trim().split(/\s+/);
    const open = wanted.at(-1) === "*";
    const beginning = open ? wanted.slice(0, -1) : wanted;
    const fits = beginning.length > 0 && beginning.every((word, at) => words[at] === word);
    return fits && (open || words.length === beginning.length);
  });
}

/** The words of a command; undefined if the shell puts something else in their place, or something before them. */
function plainWords(command: SimpleCommand | undefined): string[] | undefined {
  const words = command?.words ?? [];
  const first = words[0];
  if (!first || first.glob || /^\w+(\[.*\])?\+?=/.test(first.text) || words.some(({ variables }) => variables.length > 0)) {
    return undefined;
  }
  return words.map(({ text }) => text);
}

function changesProtected({ paths }: Facts): boolean {
  return paths.some((path) => {
    const names = path.split(/[\\/]/);
    return names.some((name) => PROTECTED.test(name)) || REPOSITORY.test(names.at(-1) ?? "");
  });
}
