"""Every error Glovebox raises on purpose, each with a code that never changes.

    GloveboxError
    ├── SettingsError          settings_invalid        a flag or variable that cannot be used
    ├── StartupError           startup_failed          the box could not be prepared
    ├── RequestError           request_invalid         the request itself is malformed
    │   ├── InvalidKey         invalid_api_key         the session key is missing or wrong
    │   ├── HostNotAllowed     host_not_allowed        called by a name a web page could own
    │   ├── OriginNotAllowed   origin_not_allowed      called by a web page that may not
    │   ├── NotFound           not_found               no such endpoint
    │   ├── MethodNotAllowed   method_not_allowed      the endpoint does not know that method
    │   ├── UrlTooLong         url_too_long            an address that is longer than is read
    │   ├── HeadersTooLarge    headers_too_large       headers that are larger than is read
    │   ├── RequestTimeout     request_timeout         the head of a request did not arrive in time
    │   ├── TooDeep            json_too_deep           JSON that is nested too deeply
    │   └── NotAToolCall       not_a_tool_call         nothing that a model emits to call a tool
    ├── ActionError            action_failed           an action could not be carried out
    │   ├── UnknownEvent       unknown_event           neither an action nor anything known
    │   ├── UnknownAction      unknown_action          no action of that name
    │   ├── WrongArguments     wrong_arguments         unknown, missing or mistyped arguments
    │   ├── UnsupportedAction  unsupported_action      known, but nothing here carries it out
    │   ├── KeyReused          idempotency_key_reused  the key belongs to another action
    │   ├── Interrupted        action_interrupted      the box was restarted while it ran
    │   ├── UnknownTool        unknown_tool            no tool of that name
    │   └── WrongToolArguments wrong_tool_arguments    arguments that the tool does not take
    ├── TerminalError          terminal_failed         a session or command could not be dealt with
    │   ├── NoSuchSession      no_such_session         no session has that name
    │   ├── SessionExists      session_exists          the name is taken
    │   ├── BadSession         bad_session             a name, size, signal or limit that cannot be
    │   ├── NoSuchCommand      no_such_command         no command has that id, or it is forgotten
    │   ├── CommandEnded       command_ended           there is nothing left to signal
    │   ├── SessionTaken       session_taken           a person has taken the session over
    │   └── OutputGone         output_gone             the log does not reach back so far
    ├── PluginError            plugin_error            something about a plugin could not be done
    │   ├── PluginFailed       plugin_failed           a plugin did not start, or has crashed
    │   ├── PluginNeeded       plugin_needed           the box cannot do without it
    │   └── NoSuchPlugin       no_such_plugin          no plugin of that name is loaded
    ├── NotebookError          notebook_failed         a kernel or a cell could not be dealt with
    │   ├── NoSuchKernel       no_such_kernel          no kernel has that name
    │   ├── NoSuchCell         no_such_cell            no cell has that id, or it is forgotten
    │   ├── KernelExists       kernel_exists           the name is taken
    │   └── BadKernel          bad_kernel              a name or kernelspec that cannot be
    ├── BrowserError           browser_failed          the browser could not be started or asked
    │   └── BrowserNotStarted  browser_not_started     there is nothing to be seen yet
    ├── McpError               mcp_failed              something about MCP servers could not be done
    │   ├── NoSuchMcpServer    no_such_mcp_server      no MCP server of that name is in the list
    │   ├── NoSuchMcpProfile   no_such_mcp_profile     no profile of that name is in the configuration
    │   └── BadMcpConfig       bad_mcp_config          MCP servers or profiles that cannot be
    ├── TransferError          transfer_failed         an upload or download that was refused
    │   ├── BadArchive         bad_archive             not a zip, or one that must not be unpacked
    │   └── TooLarge           too_large               beyond the configured size
    ├── WindowError            window_failed           a VS Code window could not be dealt with
    │   ├── NoSuchWindow       no_such_window          no window has that id, or it is gone
    │   ├── WindowLost         window_lost             it went away, and did not come back in time
    │   ├── WindowUnresponsive window_unresponsive     it is connected, but does not answer
    │   ├── WindowPaused       window_paused           its user has paused it
    │   ├── WindowLeft         window_left             its user has disconnected it
    │   └── BadWindowAnswer    bad_window_answer       what it answers cannot be understood
    ├── ClientError            client_failed           a box could not be asked
    │   ├── BoxUnreachable     box_unreachable         nothing answers at its address, or not any more
    │   ├── DeadlineExceeded   deadline_exceeded       no answer came in time
    │   ├── NotConnected       not_connected           used before connect or after close
    │   └── BadAnswer          bad_answer              what answers does not speak as a box does
    └── BackendError           backend_failed          a box could not be started or dealt with
        ├── NoSuchBackend      no_such_backend         no backend has that name
        ├── EngineUnavailable  engine_unavailable      the container engine does not answer
        ├── BadSpec            bad_spec                a box cannot be like that
        ├── BadImage           bad_image               an image that cannot be had, or that no box runs in
        ├── NoBundle           no_bundle               there is no runtime to put into the image
        ├── NoSuchBox          no_such_box             no box has that name
        ├── BoxExists          box_exists              the name is taken
        ├── BoxDied            box_died                it ended before it answered, or while it was used
        ├── NoHub              no_hub                  no hub answers where one should be
        ├── NoWindow           no_window               no VS Code window is connected, or none that fits
        ├── SeveralWindows     several_windows         more than one VS Code window fits
        └── NotSupported       not_supported           this kind of box cannot do that

Codes travel over the wire (header `X-Glovebox-Error`), class names never do.
"""

from __future__ import annotations

from typing import ClassVar


class GloveboxError(Exception):
    """The root: something went wrong that a caller can be told about."""

    code: ClassVar[str] = "error"
    #: What the box's own endpoints answer with; those of the contract have rules of their own.
    status: ClassVar[int] = 500

    @property
    def message(self) -> str:
        """What to tell the caller."""
        return str(self)


class SettingsError(GloveboxError):
    """A flag or environment variable has a value that cannot be used."""

    code = "settings_invalid"


class StartupError(GloveboxError):
    """The box could not be prepared, so it must not serve."""

    code = "startup_failed"


class RequestError(GloveboxError):
    """The request is malformed: body, query or headers."""

    code = "request_invalid"
    status = 422


class InvalidKey(RequestError):
    """The session key is missing or wrong."""

    code = "invalid_api_key"


class HostNotAllowed(RequestError):
    """The box was called by a host name that a web page could own."""

    code = "host_not_allowed"


class OriginNotAllowed(RequestError):
    """The request comes from a web page that may not call the box."""

    code = "origin_not_allowed"


class NotFound(RequestError):
    """There is no such endpoint."""

    code = "not_found"


class MethodNotAllowed(RequestError):
    """The endpoint does not know that method."""

    code = "method_not_allowed"


class UrlTooLong(RequestError):
    """The address of a request is longer than the box reads."""

    code = "url_too_long"
    status = 414


class HeadersTooLarge(RequestError):
    """The headers of a request are larger than the box reads."""

    code = "headers_too_large"
    status = 431


class RequestTimeout(RequestError):
    """The head of a request did not arrive in time."""

    code = "request_timeout"
    status = 408


class TooDeep(RequestError):
    """JSON is nested more deeply than any message of the box is."""

    code = "json_too_deep"
    status = 400


class NotAToolCall(RequestError):
    """The body holds nothing that a model emits to call a tool."""

    code = "not_a_tool_call"
    status = 422


class ActionError(GloveboxError):
    """An action could not be carried out."""

    code = "action_failed"


class UnknownEvent(ActionError):
    """The envelope holds neither an action nor an observation."""

    code = "unknown_event"


class UnknownAction(ActionError):
    """No action has that name."""

    code = "unknown_action"


class WrongArguments(ActionError):
    """An action's arguments are unknown, missing or of the wrong type."""

    code = "wrong_arguments"


class UnsupportedAction(ActionError):
    """The action is known, but nothing in this box carries it out."""

    code = "unsupported_action"


class KeyReused(ActionError):
    """An idempotency key came back with a different action."""

    code = "idempotency_key_reused"


class Interrupted(ActionError):
    """The box was restarted while the action ran; whether it took effect is not known."""

    code = "action_interrupted"


class UnknownTool(ActionError):
    """No tool has that name; the text names the nearest one."""

    code = "unknown_tool"


class WrongToolArguments(ActionError):
    """The tool does not take these arguments; the text names the nearest ones."""

    code = "wrong_tool_arguments"


class TerminalError(GloveboxError):
    """Something about a session or a command could not be done."""

    code = "terminal_failed"


class NoSuchSession(TerminalError):
    """No session has that name."""

    code = "no_such_session"
    status = 404


class SessionExists(TerminalError):
    """The name is taken."""

    code = "session_exists"
    status = 409


class BadSession(TerminalError):
    """A name, size, signal or limit that a session cannot have."""

    code = "bad_session"
    status = 422


class NoSuchCommand(TerminalError):
    """No command has that id, or it is so old that it is forgotten."""

    code = "no_such_command"
    status = 404


class CommandEnded(TerminalError):
    """The command has ended, and there is nothing left to signal."""

    code = "command_ended"
    status = 409


class SessionTaken(TerminalError):
    """A person has taken the session over."""

    code = "session_taken"
    status = 409


class OutputGone(TerminalError):
    """The log of a session does not reach back so far."""

    code = "output_gone"
    status = 410


class PluginError(GloveboxError):
    """Something about a plugin could not be done."""

    code = "plugin_error"


class PluginFailed(PluginError):
    """A plugin did not start, or has crashed."""

    code = "plugin_failed"


class PluginNeeded(PluginError):
    """The box cannot do without the plugin, not even for a moment."""

    code = "plugin_needed"
    status = 409


class NoSuchPlugin(PluginError):
    """No plugin of that name is loaded."""

    code = "no_such_plugin"
    status = 404


class NotebookError(GloveboxError):
    """Something about a kernel or a cell could not be done."""

    code = "notebook_failed"


class NoSuchKernel(NotebookError):
    """No kernel has that name."""

    code = "no_such_kernel"
    status = 404


class NoSuchCell(NotebookError):
    """No cell has that id, or it is so old that it is forgotten."""

    code = "no_such_cell"
    status = 404


class KernelExists(NotebookError):
    """The name is taken."""

    code = "kernel_exists"
    status = 409


class BadKernel(NotebookError):
    """A name or kernelspec that a kernel cannot have."""

    code = "bad_kernel"
    status = 422


class BrowserError(GloveboxError):
    """The browser could not be started or asked."""

    code = "browser_failed"


class BrowserNotStarted(BrowserError):
    """No page was opened yet, so there is nothing to be seen."""

    code = "browser_not_started"
    status = 409


class McpError(GloveboxError):
    """Something about MCP servers could not be done."""

    code = "mcp_failed"


class NoSuchMcpServer(McpError):
    """No MCP server of that name is in the list."""

    code = "no_such_mcp_server"
    status = 404


class NoSuchMcpProfile(McpError):
    """No profile of that name is in the configuration."""

    code = "no_such_mcp_profile"
    status = 404


class BadMcpConfig(McpError):
    """MCP servers or profiles that break a rule; the text says which."""

    code = "bad_mcp_config"
    status = 422


class TransferError(GloveboxError):
    """An upload or download was refused or broke off."""

    code = "transfer_failed"


class BadArchive(TransferError):
    """The archive is not one, or unpacking it would do harm."""

    code = "bad_archive"


class TooLarge(TransferError):
    """The upload is beyond the configured size."""

    code = "too_large"
    status = 413


class WindowError(GloveboxError):
    """A VS Code window could not be dealt with."""

    code = "window_failed"


class NoSuchWindow(WindowError):
    """No VS Code window has that id, or it is gone."""

    code = "no_such_window"
    status = 404


class WindowLost(WindowError):
    """The VS Code window went away and did not come back in time."""

    code = "window_lost"


class WindowUnresponsive(WindowError):
    """The VS Code window is connected, but does not answer."""

    code = "window_unresponsive"


class WindowPaused(WindowError):
    """The user of the VS Code window has paused it."""

    code = "window_paused"


class WindowLeft(WindowError):
    """The user of the VS Code window has disconnected it."""

    code = "window_left"


class BadWindowAnswer(WindowError):
    """What the VS Code window answers cannot be understood."""

    code = "bad_window_answer"


class ClientError(GloveboxError):
    """A box could not be asked."""

    code = "client_failed"


class BoxUnreachable(ClientError):
    """Nothing answers at the address of the box, or not any more."""

    code = "box_unreachable"


class DeadlineExceeded(ClientError, TimeoutError):
    """No answer came in time. Whether the box did what it was asked is not known."""

    code = "deadline_exceeded"


class NotConnected(ClientError):
    """A runtime was used before it was connected, or after it was closed."""

    code = "not_connected"


class BadAnswer(ClientError):
    """What answers at the address does not speak as a box does."""

    code = "bad_answer"


class BackendError(GloveboxError):
    """A box could not be started or dealt with."""

    code = "backend_failed"


class NoSuchBackend(BackendError):
    """No backend has that name; the text lists those there are."""

    code = "no_such_backend"


class EngineUnavailable(BackendError):
    """The container engine does not answer; the text says what to do."""

    code = "engine_unavailable"


class BadSpec(BackendError):
    """A box cannot be like that; the text says why."""

    code = "bad_spec"


class BadImage(BackendError):
    """An image that cannot be pulled or built, or that no box runs in."""

    code = "bad_image"


class NoBundle(BackendError):
    """There is no runtime to put into the image."""

    code = "no_bundle"


class NoSuchBox(BackendError):
    """No box has that name."""

    code = "no_such_box"


class BoxExists(BackendError):
    """The name is taken."""

    code = "box_exists"


class BoxDied(BackendError):
    """The box ended before it answered, or while it was used; the text has its last words."""

    code = "box_died"


class NoHub(BackendError):
    """No hub answers where one should be."""

    code = "no_hub"


class NoWindow(BackendError):
    """No VS Code window is connected, or none that fits."""

    code = "no_window"


class SeveralWindows(BackendError):
    """More than one VS Code window fits."""

    code = "several_windows"


class NotSupported(BackendError):
    """This kind of box cannot do that."""

    code = "not_supported"


def by_code() -> dict[str, type[GloveboxError]]:
    """Every class by its code, to raise here what was raised elsewhere."""
    found: dict[str, type[GloveboxError]] = {}
    waiting: list[type[GloveboxError]] = [GloveboxError]
    while waiting:
        kind = waiting.pop()
        found.setdefault(kind.code, kind)
        waiting += kind.__subclasses__()
    return found
