"""Every error Glovebox raises on purpose, each with a code that never changes.

Codes travel over the wire (header `X-Glovebox-Error`), class names never do. docs/errors.md lists them all.
"""

from __future__ import annotations

from typing import Any, ClassVar


class GloveboxError(Exception):
    """The root: an error that is reported to the caller."""

    code: ClassVar[str] = "error"
    #: The HTTP status at the box's own endpoints; those of the contract have rules of their own.
    status: ClassVar[int] = 500

    def __init_subclass__(cls, *, code: str = "", status: int = 0) -> None:
        super().__init_subclass__()
        cls.code, cls.status = code or cls.code, status or cls.status

    @property
    def message(self) -> str:
        return str(self)


class SettingsError(GloveboxError, code="settings_invalid"):
    """A flag or environment variable has a value that cannot be used."""


class StartupError(GloveboxError, code="startup_failed"):
    """The box could not be prepared, so it must not serve."""


class RequestError(GloveboxError, code="request_invalid", status=422):
    """The request is malformed: body, query or headers."""


class InvalidKey(RequestError, code="invalid_api_key"):
    """The session key is missing or wrong."""


class HostNotAllowed(RequestError, code="host_not_allowed"):
    """The box was called by a host name that a web page could own."""


class OriginNotAllowed(RequestError, code="origin_not_allowed"):
    """The request comes from a web page that may not call the box."""


class NotFound(RequestError, code="not_found"):
    """There is no such endpoint."""


class MethodNotAllowed(RequestError, code="method_not_allowed"):
    """The endpoint does not know that method."""


class UrlTooLong(RequestError, code="url_too_long", status=414):
    """The address of a request is longer than the box reads."""


class HeadersTooLarge(RequestError, code="headers_too_large", status=431):
    """The headers of a request are larger than the box reads."""


class RequestTimeout(RequestError, code="request_timeout", status=408):
    """The head of a request did not arrive in time."""


class TooDeep(RequestError, code="json_too_deep", status=400):
    """JSON is nested more deeply than any message of the box is."""


class NotAToolCall(RequestError, code="not_a_tool_call", status=422):
    """The body holds nothing that a model emits to call a tool."""


class ActionError(GloveboxError, code="action_failed"):
    """An action could not be carried out."""


class UnknownEvent(ActionError, code="unknown_event"):
    """The envelope holds neither an action nor an observation."""


class UnknownAction(ActionError, code="unknown_action"):
    """No action has that name."""


class WrongArguments(ActionError, code="wrong_arguments"):
    """An action's arguments are unknown, missing or of the wrong type."""


class UnsupportedAction(ActionError, code="unsupported_action"):
    """The action is known, but nothing in this box carries it out."""


class KeyReused(ActionError, code="idempotency_key_reused", status=409):
    """An idempotency key came back with a different action."""


class Interrupted(ActionError, code="action_interrupted"):
    """The box was restarted while the action ran; whether it took effect is not known."""


class UnknownTool(ActionError, code="unknown_tool"):
    """No tool has that name; the text names the nearest one."""


class WrongToolArguments(ActionError, code="wrong_tool_arguments"):
    """The tool does not take these arguments; the text names the nearest ones."""


class TerminalError(GloveboxError, code="terminal_failed"):
    """Something about a session or a command could not be done."""


class NoSuchSession(TerminalError, code="no_such_session", status=404):
    """No session has that name."""


class CommandDenied(TerminalError, code="denied", status=403):
    """The user of the VS Code window has not allowed the command; the text has the user's words."""


class SessionExists(TerminalError, code="session_exists", status=409):
    """The name is taken."""


class BadSession(TerminalError, code="bad_session", status=422):
    """A name, size, directory, signal or limit that a session cannot have."""


class NoSuchCommand(TerminalError, code="no_such_command", status=404):
    """No command has that id, or it is so old that it is forgotten."""


class CommandEnded(TerminalError, code="command_ended", status=409):
    """The command has ended, and there is nothing left to signal or to give input to."""


class SessionBusy(TerminalError, code="session_busy", status=409):
    """Another command runs in the session; the text names it."""


class BadInput(TerminalError, code="bad_input", status=422):
    """A command or a key that no terminal can be given."""


class SessionTaken(TerminalError, code="session_taken", status=409):
    """A person has taken the session over."""


class OutputGone(TerminalError, code="output_gone", status=410):
    """The log of a session does not reach back so far."""


class ProcessError(GloveboxError, code="process_failed"):
    """Something about a process could not be done."""


class NoSuchProcess(ProcessError, code="no_such_process", status=404):
    """No process has that id, or it is forgotten."""


class BadProcess(ProcessError, code="bad_process", status=422):
    """A process cannot have such arguments, variables, sizes, limits or signals."""


class ProgramNotFound(ProcessError, code="program_not_found", status=422):
    """There is no such program; the text says where it was searched."""


class ProgramNotExecutable(ProcessError, code="program_not_executable", status=422):
    """The file is there, but cannot be run; the text says why."""


class NoSuchDirectory(ProcessError, code="no_such_directory", status=422):
    """The working directory is missing, is none, or may not be entered."""


class NoSuchUser(ProcessError, code="no_such_user", status=422):
    """There is no such user, or the server is not root and cannot become another user."""


class TooManyProcesses(ProcessError, code="too_many_processes", status=429):
    """As many processes run as the box allows."""


class ProcessEnded(ProcessError, code="process_ended", status=409):
    """The process has ended."""


class StdinClosed(ProcessError, code="stdin_closed", status=409):
    """The standard input of the process was closed, or never open."""


class StdinFull(ProcessError, code="stdin_full", status=409):
    """The process does not read its standard input; the text says how many bytes were taken."""


class WrongOffset(ProcessError, code="wrong_offset", status=409):
    """Bytes before this offset of the standard input are missing; the text says where to go on."""


class NotATerminal(ProcessError, code="not_a_terminal", status=409):
    """The process has pipes and no terminal that could be resized."""


class PluginError(GloveboxError, code="plugin_error"):
    """Something about a plugin could not be done."""


class PluginFailed(PluginError, code="plugin_failed"):
    """A plugin did not start, or has crashed."""


class PluginNeeded(PluginError, code="plugin_needed", status=409):
    """The box cannot do without the plugin, not even for a moment."""


class NoSuchPlugin(PluginError, code="no_such_plugin", status=404):
    """No plugin of that name is loaded."""


class NotebookError(GloveboxError, code="notebook_failed"):
    """Something about a kernel or a cell could not be done."""


class NoSuchKernel(NotebookError, code="no_such_kernel", status=404):
    """No kernel has that name."""


class NoSuchCell(NotebookError, code="no_such_cell", status=404):
    """No cell has that id, or it is so old that it is forgotten."""


class KernelExists(NotebookError, code="kernel_exists", status=409):
    """The name is taken."""


class BadKernel(NotebookError, code="bad_kernel", status=422):
    """A name or kernelspec that a kernel cannot have."""


class BrowserError(GloveboxError, code="browser_failed"):
    """The browser could not be started or asked."""


class BrowserNotStarted(BrowserError, code="browser_not_started", status=409):
    """No page was opened yet, so there is nothing to be seen."""


class McpError(GloveboxError, code="mcp_failed"):
    """Something about MCP servers could not be done."""


class NoSuchMcpServer(McpError, code="no_such_mcp_server", status=404):
    """No MCP server of that name is in the list."""


class NoSuchMcpProfile(McpError, code="no_such_mcp_profile", status=404):
    """No profile of that name is in the configuration."""


class BadMcpConfig(McpError, code="bad_mcp_config", status=422):
    """MCP servers or profiles that break a rule; the text says which."""


class FileError(GloveboxError, code="file_failed"):
    """The system could not do something to a file; the text has its words."""


class NoSuchFile(FileError, FileNotFoundError, code="no_such_file", status=404):
    """Nothing is at the path, or its directory is missing."""


class FileExists(FileError, FileExistsError, code="file_exists", status=409):
    """Something is at the path already."""


class NotADirectory(FileError, NotADirectoryError, code="not_a_directory", status=409):
    """A part of the path should be a directory and is not."""


class IsADirectory(FileError, IsADirectoryError, code="is_a_directory", status=409):
    """A directory is where a file should be."""


class NotAFile(FileError, code="not_a_file", status=409):
    """A pipe, a socket or a device, which has no content to read or replace."""


class NotEmpty(FileError, code="not_empty", status=409):
    """The directory is not empty."""


class PermissionDenied(FileError, PermissionError, code="permission_denied", status=403):
    """The sandbox user may not do that."""


class ReadOnly(FileError, code="read_only", status=403):
    """The path is on a read-only file system."""


class ProtectedPath(FileError, code="protected_path", status=403):
    """The root directory, which is neither removed nor moved."""


class NoSpace(FileError, code="no_space", status=507):
    """The disk or the quota is full."""


class FileBusy(FileError, code="file_busy", status=409):
    """The system uses the path, as a mount point or a running program."""


class BadPath(FileError, code="bad_path", status=422):
    """What cannot be a path: empty, with a NUL, not UTF-8, too long, or links in a circle."""


class FileChanged(FileError, code="file_changed", status=412):
    """The file has another version than `If-Match` or `If-None-Match` requires."""


class RangeNotSatisfiable(FileError, code="range_not_satisfiable", status=416):
    """The file has no bytes in that range."""


class TooManyWatches(FileError, code="too_many_watches", status=429):
    """The box or the system watches as many directories as it can."""


class TransferError(GloveboxError, code="transfer_failed"):
    """An upload or download was refused or broke off."""


class BadArchive(TransferError, code="bad_archive", status=422):
    """The archive is not one, or unpacking it would do harm."""


class TooLarge(TransferError, code="too_large", status=413):
    """The upload is beyond the configured size."""


class WindowError(GloveboxError, code="window_failed", status=503):
    """A VS Code window could not be dealt with."""


class NoSuchWindow(WindowError, code="no_such_window", status=404):
    """No VS Code window has that id, or it is gone."""


class WindowLost(WindowError, code="window_lost"):
    """The VS Code window went away and did not come back in time."""


class WindowUnresponsive(WindowError, code="window_unresponsive"):
    """The VS Code window is connected, but does not answer."""


class WindowPaused(WindowError, code="window_paused"):
    """The user of the VS Code window has paused it."""


class WindowLeft(WindowError, code="window_left"):
    """The user of the VS Code window has disconnected it."""


class BadWindowAnswer(WindowError, code="bad_window_answer"):
    """What the VS Code window answers cannot be understood."""


class WindowRefused(GloveboxError, code="window_refused", status=403):
    """The VS Code window refuses: its user has said no, or does not trust the workspace."""


class NoCompanion(GloveboxError, code="no_companion", status=503):
    """The VS Code window has no companion box; the text says what is missing."""


class ClientError(GloveboxError, code="client_failed"):
    """A box could not be asked."""


class BoxUnreachable(ClientError, code="box_unreachable"):
    """Nothing answers at the address of the box, or not any more."""


class DeadlineExceeded(ClientError, TimeoutError, code="deadline_exceeded"):
    """No answer came in time. Whether the box did what it was asked is not known."""


class NotConnected(ClientError, code="not_connected"):
    """A runtime was used before it was connected, or after it was closed."""


class BadAnswer(ClientError, code="bad_answer"):
    """What answers at the address does not speak as a box does."""


class CommandError(ClientError, code="command_error"):
    """A command did not come to its end, or to a good one."""

    def __init__(self, message: str, *, command: Any = None, output: str = "") -> None:
        super().__init__(message)
        #: The command, to go on with: a `CommandHandle` of `Box`, an `AsyncCommandHandle` of `AsyncBox`.
        self.command = command
        #: What it has printed.
        self.output = output


class CommandTimeout(CommandError, TimeoutError, code="command_timeout"):
    """The time to wait for a command is over; the command goes on."""


class CommandWaits(CommandError, code="command_waits"):
    """A command waits for input, in a pager or in an editor; the text says for what."""

    def __init__(
        self, message: str, *, command: Any = None, output: str = "", prompt: str = "", password: bool = False
    ) -> None:
        super().__init__(message, command=command, output=output)
        #: The question that it asks.
        self.prompt = prompt
        #: Whether it asks for a password.
        self.asks_password = password


class CommandFailed(CommandError, code="command_failed"):
    """A command or a program ended with another exit code than 0; the text has the end of its output."""

    def __init__(self, message: str, *, exit_code: int = -1, output: str = "") -> None:
        super().__init__(message, output=output)
        self.exit_code = exit_code


class ProcessTimeout(CommandFailed, TimeoutError, code="process_timeout"):
    """A program was ended because its time was over; the text has the end of its output."""


class CellFailed(ClientError, code="cell_failed"):
    """A cell of the notebook raised an exception, was interrupted or died; the text has the traceback."""


class PageFailed(ClientError, code="page_failed"):
    """The browser could not do what it was asked on a page; the text says why."""


class PortClosed(ClientError, code="port_closed"):
    """A command ended, or the time was over, before it listened on a port."""


class BackendError(GloveboxError, code="backend_failed"):
    """A box could not be started or dealt with."""


class NoSuchBackend(BackendError, code="no_such_backend"):
    """No backend has that name; the text lists those there are."""


class EngineUnavailable(BackendError, code="engine_unavailable"):
    """The container engine does not answer; the text says what to do."""


class BadSpec(BackendError, code="bad_spec"):
    """A box cannot be like that; the text says why."""


class BadImage(BackendError, code="bad_image"):
    """An image that cannot be pulled or built, or that no box runs in."""


class NoIsolation(BackendError, code="no_isolation"):
    """Nothing here can isolate a box; the text says how to get it, or how to do without."""


class NoBundle(BackendError, code="no_bundle"):
    """There is no runtime to put into the image."""


class NoSuchBox(BackendError, code="no_such_box"):
    """No box has that name."""


class BoxExists(BackendError, code="box_exists"):
    """The name is taken."""


class BoxDied(BackendError, code="box_died"):
    """The box ended before it answered, or while it was used; the text has its last words."""


class NoHub(BackendError, code="no_hub"):
    """No hub answers where one should be."""


class NoWindow(BackendError, code="no_window"):
    """No VS Code window is connected, or none that fits."""


class SeveralWindows(BackendError, code="several_windows"):
    """More than one VS Code window fits."""


class NotSupported(BackendError, code="not_supported"):
    """This kind of box cannot do that."""


def by_code() -> dict[str, type[GloveboxError]]:
    """Every class by its code, to raise here what was raised elsewhere."""
    found: dict[str, type[GloveboxError]] = {}
    waiting: list[type[GloveboxError]] = [GloveboxError]
    while waiting:
        kind = waiting.pop()
        found.setdefault(kind.code, kind)
        waiting += kind.__subclasses__()
    return found
