"""Messages between the server and the process that drives the browser, over a Unix socket."""

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


# Requests.


class BrowserStep(Message, tag="step"):
    """Carry out a string of calls, and observe the page then."""

    id: int
    actions: str
    #: Observe the page as text to read; else as an accessibility tree.
    as_text: bool = False
    #: Add the tree and the properties of all elements as Chromium has them.
    raw: bool = False


class Observe(Message, tag="look"):
    """Show the active page."""

    id: int
    format: Literal["png", "jpeg"] = "png"


class Cast(Message, tag="cast"):
    """Begin or end a screencast of the active page."""

    on: bool


class Survey(Message, tag="survey"):
    """List the open pages."""

    id: int


Request = BrowserStep | Observe | Cast | Survey


# Replies and notifications.


class Dialog(Message):
    """A dialog that a page opened, and the answer."""

    kind: str
    text: str
    accepted: bool


class Download(Message):
    """A complete download."""

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
    #: The page as text to read, if `as_text`.
    text: str = ""
    #: The accessibility tree as text, if not `as_text`, or why there is none.
    tree: str = ""
    tree_error: str = ""
    #: As Chromium has them, if `raw`.
    axtree: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    #: Messages of the agent to the user.
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
    """A request failed."""

    id: int
    text: str


class Ready(Message, tag="ready"):
    """The process listens, and Chromium runs."""

    version: str


class Frame(Message, tag="frame"):
    """A picture of the screencast, as JPEG."""

    image: bytes
    url: str
    width: int
    height: int


class Crashed(Message, tag="crashed"):
    """Chromium or a page has crashed."""

    what: str


Reply = Seen | TextReply | Picture | OpenTabs | BrowserFailure | Ready | Frame | Crashed

_encoder = msgspec.msgpack.Encoder()


def encode(message: Message) -> bytes:
    """A message as bytes, with its length first."""
    try:
        body = _encoder.encode(message)
    except UnicodeEncodeError:
        body = _encoder.encode(replace_surrogates(msgspec.to_builtins(message, builtin_types=(bytes,))))
    return _LENGTH.pack(len(body)) + body


def replace_surrogates(value: Any) -> Any:
    """Text of a page as it can be sent: half characters, which scripts can make, are replaced."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [replace_surrogates(one) for one in value]
    return value


class MessageReader:
    """Reads messages from the other side."""

    def __init__(self, kinds: Any) -> None:
        self._decoder = msgpack_decoder(kinds)

    async def read(self, stream: asyncio.StreamReader) -> Any:
        """The next message.

        Raises:
            ConnectionError: the other side is gone, or sent something else.
        """
        try:
            (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
            body = await stream.readexactly(_check_length(length))
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("The other side has hung up.") from error
        return self._decode(body)

    def receive(self, connection: socket) -> Any:
        """The next message, without an event loop. Blocks.

        Raises:
            ConnectionError: the other side is gone, or sent something else.
        """
        (length,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))
        return self._decode(_receive_exactly(connection, _check_length(length)))

    def _decode(self, body: bytes | bytearray) -> Any:
        try:
            return self._decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise ConnectionError(f"The other side said something unknown: {error}") from error


def _receive_exactly(connection: socket, length: int) -> bytearray:
    body = bytearray()
    while len(body) < length:
        piece = connection.recv(min(length - len(body), 1 << 20))
        if not piece:
            raise ConnectionError("The other side has hung up.")
        body += piece
    return body


def _check_length(length: int) -> int:
    if length > _LONGEST:
        raise ConnectionError(f"A message of {length} bytes is too long.")
    return length
