"""What a hub and a VS Code window say to each other.

A window registers over HTTP and then holds a Socket.IO connection. On it the hub gives orders (event `order`)
and the window reports on them (event `told`); each message is acknowledged. The reports on an order are
numbered from 1 and kept by the window until the hub has acknowledged them, and an order that comes twice is
carried out once: so a broken connection loses nothing and repeats nothing.

Paths are absolute. The window decides which it may touch: those whose real place is in one of its folders.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from glovebox.protocol.base import Message

#: `waiting`: it registered and has not connected yet. `unresponsive`: it is connected, but its main thread
#: does not answer. `paused`: its user has paused it. `away`: the connection broke, and may come back.
#: `reloading`: it said that it closes, and may come back.
WindowStatus = Literal["waiting", "connected", "unresponsive", "paused", "away", "reloading"]
Kind = Literal["file", "directory", "other"]

#: The largest piece of a file that goes in one message.
PIECE = 1 << 20

#: Actions that the companion box carries out, and the path that they are posted to.
COMPANION_ACTIONS = ("run_ipython", "browse", "browse_interactive", "call_tool_mcp")
ACTIONS_PATH = "/execute_action_stream"
#: What else may be forwarded to the companion box: nothing of its shell, processes and files.
FORWARDED_PATHS = (
    ("GET", "/kernels"), ("POST", "/kernels"), ("GET", "/kernels/{name}"), ("DELETE", "/kernels/{name}"),
    ("POST", "/kernels/{name}/interrupt"), ("POST", "/kernels/{name}/restart"),
    ("GET", "/kernels/{name}/cells/{id}"), ("GET", "/kernelspecs"),
    ("GET", "/browser"), ("GET", "/browser/screenshot"), ("GET", "/browser/screencast"),
    ("POST", "/update_mcp_server"), ("GET", "/mcp/servers"), ("PUT", "/mcp/servers"),
    ("GET", "/mcp/servers/{name}"), ("POST", "/mcp/servers/{name}/restart"),
    ("GET", "/mcp/servers/{name}/log"), ("PUT", "/mcp/profiles/{name}"), ("DELETE", "/mcp/profiles"),
    ("GET", "/sse"), ("POST", "/messages/"), ("GET", "/mcp/sse"), ("POST", "/mcp/messages/"),
    ("GET", "/mcp"), ("POST", "/mcp"), ("DELETE", "/mcp"),
    ("GET", "/metrics"), ("GET", "/metrics/system"),
)  # fmt: skip


# Registration, over HTTP.


class Folder(Message):
    """A folder of the workspace."""

    name: str
    path: str


class Registration(Message):
    """A window introduces itself."""

    #: Made up by the window when it starts. It proves nothing: a window that was connected is recognised by
    #: its secret, and without that a second registration replaces only one that was never used.
    instance: str
    #: What the user calls the workspace.
    name: str
    #: None if no folder is open.
    folders: list[Folder]
    vscode_version: str
    extension_version: str
    #: The kinds of orders that it carries out.
    capabilities: list[str]
    #: Whether the user trusts the workspace; commands and changes are refused otherwise.
    trusted: bool = True
    app: str = ""
    remote: str = ""
    pid: int = 0


class Registered(Message):
    """What a window is called from now on, and what proves that it is the one."""

    id: str
    secret: str
    #: How often the window has to say that its main thread answers.
    heartbeat_seconds: float
    #: How long the hub waits for a window whose connection broke.
    grace_seconds: float


class Heartbeat(Message):
    """The window's main thread has just answered, after so many milliseconds."""

    secret: str
    main_thread_ms: float


class Window(Message):
    """A window, as the hub lists it."""

    id: str
    name: str
    folders: list[Folder]
    vscode_version: str
    extension_version: str
    capabilities: list[str]
    trusted: bool
    app: str
    remote: str
    pid: int
    status: WindowStatus
    #: Seconds since 1970.
    registered: float
    #: When it last proved that it answers.
    seen: float
    #: The path below the hub's address under which it is a box.
    path: str
    #: The agent that works in it, and the name of its stay; empty if none has announced itself.
    agent: str = ""
    stay: str = ""


# An agent's stay in a window, over HTTP.


class Arrival(Message):
    """An agent announces that it is going to work in a window."""

    #: Names the stay; made up by the agent. The same again goes on with it.
    stay: str
    #: The ids of the windows that fit.
    windows: list[str]
    #: The name that users see, such as "OpenHands". Agents without one share shells.
    agent: str = ""
    #: Ask in every window for permission; the first that allows it is taken. Needed for more than one window.
    ask: bool = False
    #: How long users have to answer.
    seconds: float = 120.0
    #: Variables of its terminals.
    env: dict[str, str] = {}


class Arrived(Message):
    """An agent may work in a window."""

    window: Window
    #: Whether its shells are new and have its variables. If not, it shares those of an agent that is there.
    fresh: bool


class Departure(Message):
    """An agent has finished."""

    stay: str


# On the socket: the window's state.


class Hello(Message):
    """The first words of a window on a connection (event `hello`)."""

    #: Orders that it is carrying out or has results of that were not acknowledged.
    orders: list[str]
    paused: bool
    trusted: bool
    folders: list[Folder]


class Changed(Message):
    """Something about the window is different now (event `changed`)."""

    paused: bool
    trusted: bool
    folders: list[Folder]


# On the socket: orders (event `order`), each with what answers it.


class Answer(Message, tag_field="kind"):
    """What an order came to, if it worked."""


class Done(Answer, tag="done"):
    """It is done, and there is nothing else to say."""


class RunEnded(Answer, tag="run_ended"):
    """A command has ended."""

    #: None if it is not known.
    exit_code: int | None
    #: The directory that the shell is in now; empty if that is not known.
    cwd: str
    #: Whether the shell itself ended with it.
    shell_ended: bool = False
    #: How it was run: with VS Code's shell integration, by a script in a shell without it, or as a process
    #: of its own.
    how: Literal["integration", "script", "process"] = "integration"


class PathInfo(Answer, tag="path_info"):
    """What is at a path."""

    exists: bool
    type: Kind = "other"
    size: int = 0
    #: Seconds since 1970.
    modified: float = 0.0
    #: It is open in an editor with changes that are not saved.
    unsaved: bool = False


class Content(Answer, tag="content"):
    """A piece of a file: what its editor shows if it has unsaved changes, else what is on the disk."""

    data: bytes
    #: Of the whole file.
    size: int
    unsaved: bool = False


class Written(Answer, tag="written"):
    """A file was written."""

    created: bool
    #: What the file has now, if that is not what was sent: settings of the user may change a file when it is
    #: saved, as a formatter does.
    saved: bytes | None = None


class Entry(Message):
    """Something in a directory."""

    name: str
    type: Kind
    is_link: bool = False


class Entries(Answer, tag="entries"):
    """What is in a directory, in no particular order."""

    entries: list[Entry]


class Found(Answer, tag="found"):
    """Paths that match, newest first."""

    paths: list[str]
    #: Whether the search ended before it had seen everything.
    incomplete: bool = False


class Line(Message):
    """A line that matches, with lines around it."""

    path: str
    #: Counted from 1.
    line: int
    text: str
    before: list[str] = []
    after: list[str] = []


class Lines(Answer, tag="lines"):
    """Lines that match, by path and number."""

    lines: list[Line]
    incomplete: bool = False


class Forwarded(Answer, tag="forwarded"):
    """The response of the companion box."""

    status: int
    headers: dict[str, str]
    #: All of it, or its beginning.
    body: bytes = b""
    #: What the rest is fetched by; empty if there is none.
    stream: str = ""


class BodyPiece(Answer, tag="body_piece"):
    """A piece of a response's body."""

    data: bytes
    #: There is nothing after it.
    last: bool


class Order(Message, tag_field="kind"):
    """Something that a window is to do."""

    #: What answers it.
    answer: ClassVar[type[Answer]] = Done


class Run(Order, tag="run"):
    """Run a command in the terminal of a session, opened if there is none; its output is reported.

    One at a time in each session: while one runs, another is refused with `busy`.
    """

    answer: ClassVar[type[Answer]] = RunEnded
    session: str
    command: str
    #: Where a terminal that has to be opened starts; empty for the first folder.
    cwd: str = ""


class RunApart(Order, tag="run_apart"):
    """Run a command in a process of its own, which leaves no trace in any shell."""

    answer: ClassVar[type[Answer]] = RunEnded
    command: str
    cwd: str = ""


class Input(Order, tag="input"):
    """Type something for what runs in a session, as it is: `\\r` is the Enter key, `\\x03` is Ctrl-C."""

    session: str
    text: str


class EndSession(Order, tag="end_session"):
    """Close the terminal of a session, and end what runs in it."""

    session: str


class Stat(Order, tag="stat"):
    """Look at what is at a path."""

    answer: ClassVar[type[Answer]] = PathInfo
    path: str


class Read(Order, tag="read"):
    """Read a piece of a file."""

    answer: ClassVar[type[Answer]] = Content
    path: str
    offset: int = 0
    length: int = PIECE


class Write(Order, tag="write"):
    """Have a file hold this; missing directories are made. Editors that show it stay in step."""

    answer: ClassVar[type[Answer]] = Written
    path: str
    data: bytes
    #: SHA-256 in hex of what the file must hold before; empty for anything.
    expected: str = ""
    #: There must not be a file yet.
    exclusive: bool = False


class Put(Order, tag="put"):
    """Keep another piece of an upload, outside of the workspace, until it lands or is dropped."""

    upload: str
    data: bytes


class Land(Order, tag="land"):
    """Have an upload take its place as a file; missing directories are made."""

    answer: ClassVar[type[Answer]] = Written
    upload: str
    path: str


class Drop(Order, tag="drop"):
    """Forget an upload."""

    upload: str


class List(Order, tag="list"):
    """What is in a directory."""

    answer: ClassVar[type[Answer]] = Entries
    path: str


class Glob(Order, tag="glob"):
    """Find files whose path below `path` matches a glob of VS Code."""

    answer: ClassVar[type[Answer]] = Found
    path: str
    pattern: str
    #: Also what begins with a dot, and what git ignores.
    hidden: bool = False
    ignored: bool = False
    most: int = 10_000


class Grep(Order, tag="grep"):
    """Find lines that match a regular expression in files below `path`, or in that file."""

    answer: ClassVar[type[Answer]] = Lines
    path: str
    pattern: str
    literal: bool = False
    ignore_case: bool = False
    #: A glob that chooses files; empty for all.
    include: str = ""
    hidden: bool = False
    ignored: bool = False
    before: int = 0
    after: int = 0
    most: int = 10_000


class Watch(Order, tag="watch"):
    """Report changes below a directory, or of a file, until the order is cancelled.

    Not those that orders make. Each line of its output is a `WatchReport` in JSON.
    """

    path: str
    recursive: bool = True


class ChangedPath(Message):
    """Something happened to a path."""

    path: str
    change: Literal["created", "modified", "deleted"]


class WatchReport(Message):
    """What a watch has seen since the last report."""

    changes: list[ChangedPath] = []
    #: Changes were lost.
    overflow: bool = False
    #: The first one: every change from now on is seen.
    ready: bool = False


class MakeDirectory(Order, tag="make_directory"):
    """Make a directory and its parents."""

    path: str


class Move(Order, tag="move"):
    """Give a file or directory another path."""

    path: str
    to: str
    overwrite: bool = False


class Delete(Order, tag="delete"):
    """Remove a file, or a directory with all that is in it."""

    path: str
    recursive: bool = False


class Arrive(Order, tag="arrive"):
    """An agent begins to work in the window: close the terminals of the one before. The same stay goes on."""

    #: The name that the user sees, such as "OpenHands".
    agent: str
    stay: str
    #: Ask the user for permission first; a refusal has the code `denied`.
    ask: bool = False
    #: Variables of the terminals that are opened during the stay.
    env: dict[str, str] = {}


class Depart(Order, tag="depart"):
    """The agent's work has ended: close its terminals, and stop its companion box. Another stay goes on."""

    stay: str


class Forward(Order, tag="forward"):
    """Send an HTTP request to the companion box, which the window starts on first need.

    The window refuses what is not in `FORWARDED_PATHS` and `COMPANION_ACTIONS`.
    """

    answer: ClassVar[type[Answer]] = Forwarded
    method: str
    #: With its query.
    path: str
    headers: dict[str, str] = {}
    body: bytes = b""


class FetchBody(Order, tag="fetch_body"):
    """Wait for the next piece of a response's body. Cancelling it ends the request."""

    answer: ClassVar[type[Answer]] = BodyPiece
    stream: str
    #: End the request instead.
    close: bool = False


AnyOrder = (
    Run | RunApart | Input | EndSession | Stat | Read | Write | Put | Land | Drop | List | Glob | Grep
    | Watch | MakeDirectory | Move | Delete | Arrive | Depart | Forward | FetchBody
)  # fmt: skip
AnyAnswer = (
    Done | RunEnded | PathInfo | Content | Written | Entries | Found | Lines | Forwarded | BodyPiece
)  # fmt: skip


class Ordered(Message):
    """An order on its way (event `order`); acknowledged when the window has it."""

    id: str
    order: AnyOrder
    #: The id of the agent's action that it is a part of; empty for none.
    action: str = ""


class Cancelled(Message):
    """An order is not waited for any more (event `cancel`). A command in a terminal goes on."""

    id: str


class ActionReport(Message):
    """An action of an agent has started or ended (event `action`), for the window to show it."""

    id: str
    #: The kind of action: `run`, `edit`, `run_ipython` …
    kind: str
    #: The command, the path or the address, in one line.
    summary: str
    agent: str
    state: Literal["started", "succeeded", "failed"]
    #: Of a command that has ended.
    exit_code: int | None = None
    seconds: float = 0.0
    #: Why it failed.
    message: str = ""
    #: What an action of the companion box came to, or the end of it; the window sees other output itself.
    output: str = ""


class Telling(Message, tag_field="kind"):
    """A report on an order."""

    id: str
    number: int


class Printed(Telling, tag="printed"):
    """A command has printed something: as the terminal got it, control sequences included."""

    text: str


class Waiting(Telling, tag="waiting"):
    """The order waits for the user's decision; its time limit does not run meanwhile."""

    #: What the user is asked, in one line; empty when the decision was made.
    question: str


class Succeeded(Telling, tag="succeeded"):
    """It worked. This is the last report."""

    answer: AnyAnswer


#: Why a window refuses or fails.
FailureCode = Literal[
    "not_found", "is_directory", "not_directory", "exists", "not_empty", "outside_workspace", "no_folder",
    "untrusted", "unsaved_changes", "changed_meanwhile", "not_saved", "busy", "no_session", "bad_pattern",
    "paused", "disconnected", "denied", "undecided", "no_companion", "unsupported", "failed",
]  # fmt: skip


class Failed(Telling, tag="failed"):
    """It did not work. This is the last report."""

    code: FailureCode
    message: str


Told = Printed | Waiting | Succeeded | Failed


class Leaving(Message):
    """The window ends the connection (event `leaving`)."""

    reason: str
    #: False if its user has disconnected it. True if it closes: when it is reloaded, it comes back with its
    #: secret, and VS Code does not say whether that is so.
    returns: bool = False
