"""What the server and the process that drives the browser say to each other, over a socket of the two."""

from __future__ import annotations

import asyncio
import struct
from socket import socket
from typing import Any, Literal

import msgspec

from glovebox.json_codec import msgpack_decoder
from glovebox.protocol.base import Message

_LENGTH = struct.Struct(">I")
#: A page of ten thousand elements with its whole tree is some tens of megabytes.
_LONGEST = 512 << 20


class Setup(Message):
    """What the process is started with, as a file in its directory."""

    socket: str
    #: The Chromium to start; empty is Playwright's own.
    executable: str
    #: Where screenshots and downloads go, and where files may be opened from.
    workspace: str
    profile: str
    #: Ports of the box that no page may reach.
    closed_ports: list[int]
    width: int
    height: int
    #: Whether actions may name places on the screen.
    coordinates: bool
    #: How long pages may take to load, in seconds.
    load_limit: float
    dialogs: Literal["accept", "dismiss"]
    #: How long the page must be quiet after an action before it is looked at, in seconds.
    settle: float
    #: The most characters of an accessibility tree.
    tree_limit: int
    #: The BrowserGym task to evaluate an agent on; empty is none.
    evaluation: str = ""


# What is asked for.


class BrowserStep(Message, tag="step"):
    """Carry out a string of calls, and say what is seen then."""

    id: int
    actions: str
    #: Whether the page is wanted as text to read; else as an accessibility tree.
    as_text: bool = False
    #: Whether the tree and the properties of all elements are wanted as they are.
    raw: bool = False


class Observe(Message, tag="look"):
    """Show the active page."""

    id: int
    format: Literal["png", "jpeg"] = "png"


class Cast(Message, tag="cast"):
    """Begin or end to show the active page whenever it changes."""

    on: bool


class Survey(Message, tag="survey"):
    """Say which pages are open."""

    id: int


Request = BrowserStep | Observe | Cast | Survey


# What is told.


class Dialog(Message):
    """A dialog that a page opened, and what was answered."""

    kind: str
    text: str
    accepted: bool


class Download(Message):
    """A file that was downloaded whole."""

    path: str
    name: str
    url: str


class Seen(Message, tag="seen"):
    """A page after a step."""

    id: int
    url: str
    open_pages_urls: list[str]
    active_page_index: int
    focused_element_bid: str
    #: Both as PNG.
    screenshot: bytes
    set_of_marks: bytes
    #: Where the first was saved; None if that could not be done.
    screenshot_path: str | None = None
    #: What went wrong in the step: `Type: message`.
    error: str = ""
    #: The page as text to read, if that was wanted.
    text: str = ""
    #: The accessibility tree as text, if that was wanted, or why there is none.
    tree: str = ""
    tree_error: str = ""
    #: As Chromium has them, if they were wanted.
    axtree: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    #: What was said to the user.
    messages: list[str] = []
    dialogs: list[Dialog] = []
    downloads: list[Download] = []


class TextReply(Message, tag="told"):
    """Text instead of a page: the goal of an evaluation, its rewards."""

    id: int
    text: str
    images: list[str] = []


class Picture(Message, tag="picture"):
    """The active page."""

    id: int
    image: bytes
    url: str
    title: str


class OpenTabs(Message, tag="tabs"):
    """The open pages."""

    id: int
    urls: list[str]
    titles: list[str]
    active: int
    #: The process id of Chromium, 0 if it is not known.
    pid: int = 0


class BrowserFailure(Message, tag="failed"):
    """What was asked for could not be done."""

    id: int
    text: str


class Ready(Message, tag="ready"):
    """It listens, and Chromium runs."""

    version: str


class Frame(Message, tag="frame"):
    """The active page has changed: how it looks now, as JPEG."""

    image: bytes
    url: str
    width: int
    height: int


class Crashed(Message, tag="crashed"):
    """Chromium or a page has crashed."""

    what: str


Reply = Seen | TextReply | Picture | OpenTabs | BrowserFailure | Ready | Frame | Crashed

_encoder = msgspec.msgpack.Encoder()


def framed(message: Message) -> bytes:
    """A message as it is sent."""
    try:
        body = _encoder.encode(message)
    except UnicodeEncodeError:
        body = _encoder.encode(cleaned(msgspec.to_builtins(message, builtin_types=(bytes,))))
    return _LENGTH.pack(len(body)) + body


def cleaned(value: Any) -> Any:
    """What a page says, as it can be sent: half characters, which scripts can make, are replaced."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {cleaned(key): cleaned(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(one) for one in value]
    return value


class Reader:
    """Reads messages of the other side."""

    def __init__(self, kinds: Any) -> None:
        self._decoder = msgpack_decoder(kinds)

    async def read(self, stream: asyncio.StreamReader) -> Any:
        """The next message.

        Raises:
            ConnectionError: the other side is gone, or makes no sense.
        """
        try:
            (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
            body = await stream.readexactly(_checked(length))
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("The other side has hung up.") from error
        return self._decoded(body)

    def receive(self, connection: socket) -> Any:
        """The next message, without an event loop. Blocks.

        Raises:
            ConnectionError: the other side is gone, or makes no sense.
        """
        (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
        return self._decoded(_exactly(connection, _checked(length)))

    def _decoded(self, body: bytes | bytearray) -> Any:
        try:
            return self._decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise ConnectionError(f"The other side said something unknown: {error}") from error


def _exactly(connection: socket, length: int) -> bytearray:
    body = bytearray()
    while len(body) < length:
        piece = connection.recv(min(length - len(body), 1 << 20))
        if not piece:
            raise ConnectionError("The other side has hung up.")
        body += piece
    return body


def _checked(length: int) -> int:
    if length > _LONGEST:
        raise ConnectionError(f"A message of {length} bytes is too long.")
    return length
