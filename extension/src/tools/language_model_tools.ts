import * as vscode from "vscode";
import { CommandSessions, DEFAULT_SECONDS, type Execute } from "./command_sessions";

/** The session of a model that names none; its terminal is not that of an agent of the hub. */
const SESSION = "chat";

/** The part of VS Code's API for tools that is used here. It is newer than the oldest VS Code that is supported. */
interface ToolApi {
  lm?: { registerTool?: (name: string, tool: Tool) => vscode.Disposable };
  LanguageModelToolResult?: new (content: unknown[]) => object;
  LanguageModelTextPart?: new (text: string) => object;
}

interface Invocation {
  input: Record<string, unknown>;
}

interface Tool {
  prepareInvocation(invocation: Invocation): object;
  invoke(invocation: Invocation, token: vscode.CancellationToken): Promise<object>;
}

/** A tool without VS Code around it. */
interface PlainTool {
  /** What the user is asked before it is invoked. */
  title: string;
  /** What the user decides about, as it is. */
  detail: (input: Record<string, unknown>) => string;
  run: (input: Record<string, unknown>, signal: AbortSignal) => Promise<string>;
}

/** Offer commands in this window's sessions to the agents of VS Code; nothing in a VS Code without such tools. */
export function registerTools(execute: Execute): vscode.Disposable {
  const { lm, LanguageModelToolResult: Result, LanguageModelTextPart: Text } = vscode as unknown as ToolApi;
  if (!lm?.registerTool || !Result || !Text) {
    return vscode.Disposable.from();
  }
  const toResult = (text: string): object => new Result([new Text(text)]);
  const registered = Object.entries(plainTools(new CommandSessions(execute))).map(([name, tool]) =>
    lm.registerTool?.(name, toTool(tool, toResult)),
  );
  return vscode.Disposable.from(...registered.filter((one) => one !== undefined));
}

function plainTools(sessions: CommandSessions): Record<string, PlainTool> {
  return {
    glovebox_run: {
      title: "Run a command in a Glovebox terminal?",
      detail: (input) => text(input.command),
      run: (input, signal) => sessions.run(sessionOf(input), text(input.command), seconds(input), signal),
    },
    glovebox_input: {
      title: "Type into a Glovebox terminal?",
      detail: (input) => text(input.text) || "(only read what has been printed)",
      run: (input, signal) => sessions.type(sessionOf(input), text(input.text), seconds(input, 5), signal),
    },
  };
}

function toTool(tool: PlainTool, toResult: (text: string) => object): Tool {
  return {
    prepareInvocation: ({ input }) => ({
      invocationMessage: `Glovebox: ${tool.detail(input).split("\n", 1)[0] ?? ""}`,
      confirmationMessages: {
        title: tool.title,
        message: new vscode.MarkdownString().appendCodeblock(tool.detail(input), "shellscript"),
      },
    }),
    invoke: async ({ input }, token) => {
      const controller = new AbortController();
      const cancelling = token.onCancellationRequested(() => controller.abort());
      try {
        return toResult(await tool.run(input, controller.signal));
      } finally {
        cancelling.dispose();
      }
    },
  };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function sessionOf(input: Record<string, unknown>): string {
  return text(input.session) || SESSION;
}

function seconds(input: Record<string, unknown>, usual = DEFAULT_SECONDS): number {
  return typeof input.timeout === "number" ? input.timeout : usual;
}
