"""`/commands/{id}/output`: the output of a command, as it comes or from any place of it, and searches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.terminal.commands import RunningCommand
from glovebox.box.terminal.output.rendering import LiveText
from glovebox.box.threads import Threads
from glovebox.errors import OutputGone
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.requests import InvalidParameter
from glovebox.http.responses import ErrorBody, json_response
from glovebox.http.sse import RAW, RawBytes, Stream, message
from glovebox.protocol.base import Message
from glovebox.protocol.events import Gap, Output

FORMATS = ("text", "raw", "rendered")
_PIECE = 65_536
#: An answer in JSON is held in memory.
_MOST_TEXT = 4 << 20
_TEXT = 262_144
_MOST_MATCHES = 1_000
_MOST_CONTEXT = 20


class CommandSource(Protocol):
    """Finds commands by their ids."""

    def command(self, command_id: str) -> RunningCommand:
        """The command of that id.

        Raises:
            NoSuchCommand: there is none, or it is forgotten.
        """

    def newest_commands(self, session: str | None, limit: int) -> list[RunningCommand]:
        """The newest commands, of one session or all, the newest first."""


class OutputText(Message):
    """A part of a command's output as text; ask again with `offset` set to `end` for the next."""

    command_id: str
    offset: int
    end: int
    text: str
    finished: bool
    #: Bytes of output so far.
    output_bytes: int


class SearchMatch(Message):
    """A line that matches, and its neighbours."""

    line: int
    #: Where the line begins in the raw output.
    offset: int
    text: str
    before: list[str]
    after: list[str]


class SearchResult(Message):
    """What a search found."""

    command_id: str
    matches: list[SearchMatch]
    #: How many lines match, shown or not.
    total: int
    #: How many lines were searched.
    lines: int
    #: False if the time was over before the end.
    complete: bool
    finished: bool


class OutputEndpoint:
    """The endpoint."""

    def __init__(self, terminal: CommandSource, threads: Threads, closing: asyncio.Event) -> None:
        self._terminal = terminal
        self._threads = threads
        self._closing = closing

    async def __call__(self, request: Request) -> Response:
        """A part of its output, or all of it as it comes."""
        command = self._terminal.command(request.path_params["id"])
        form = requests.choice(request, "format", FORMATS)
        follow = requests.flag(request, "follow")
        if "search" in request.query_params:
            return await self._search(request, command)
        offset = _offset(request, command, follow and form != "raw")
        if follow and form == "raw":
            return Stream(_follow_raw(command, offset), media_type=RAW, closing=self._closing)
        if follow:
            return Stream(_follow_text(command, offset), closing=self._closing)
        if form == "raw":
            limit = requests.integer(request, "limit", command.size, 1)
            return await RawBytes.read_first(command.read, offset, min(limit, command.size - offset))
        limit = requests.integer(request, "limit", _TEXT, 1, _MOST_TEXT)
        if form == "rendered":
            return json_response(await self._rendered(command, offset, limit))
        return json_response(await _text(command, offset, limit))

    async def _rendered(self, command: RunningCommand, offset: int, limit: int) -> OutputText:
        finished, size = command.finished, command.size
        data = await _read(command, offset, limit)
        text = await self._threads.run(_render, data)
        return _part(command, offset, offset + len(data), text, finished, size)

    async def _search(self, request: Request, command: RunningCommand) -> Response:
        query = request.query_params["search"]
        regex = requests.flag(request, "regex")
        ignore_case = not requests.flag(request, "case")
        context = requests.integer(request, "context", 2, 0, _MOST_CONTEXT)
        limit = requests.integer(request, "limit", 50, 1, _MOST_MATCHES)
        start = _offset(request, command, False)
        finished = command.finished

        def run() -> SearchResult:
            from glovebox.box.terminal.output.search import SearchError, search

            try:
                found = search(
                    command.pieces(), query,
                    regex=regex, ignore_case=ignore_case, context=context, limit=limit, start=start,
                )  # fmt: skip
            except SearchError as error:
                raise InvalidParameter("value_error", ("query", "search"), str(error), query) from error
            return SearchResult(
                command_id=command.id,
                matches=[
                    SearchMatch(line=one.line, offset=one.offset, text=one.text,
                                before=one.before, after=one.after)
                    for one in found.matches
                ],
                total=found.total, lines=found.lines, complete=found.complete, finished=finished,
            )  # fmt: skip

        return json_response(await self._threads.run(run))


def _offset(request: Request, command: RunningCommand, resumable: bool) -> int:
    """Where to begin: a browser that reconnects says in a header what it has seen."""
    seen = request.headers.get("last-event-id", "") if resumable else ""
    if seen.isascii() and seen.isdigit() and len(seen) < 20 and int(seen) <= command.size:
        return int(seen)
    offset = requests.integer(request, "offset", 0)
    if offset > command.size:
        problem = f"There is no output beyond {command.size}"
        raise InvalidParameter("out_of_range", ("query", "offset"), problem, str(offset))
    return offset


async def _read(command: RunningCommand, offset: int, limit: int) -> bytes:
    """As much as there is, up to a limit."""
    data = bytearray()
    while len(data) < limit and (piece := await command.read(offset + len(data), limit - len(data))):
        data += piece
    return bytes(data)


async def _text(command: RunningCommand, offset: int, limit: int) -> OutputText:
    finished, size = command.finished, command.size
    live, end = LiveText(), offset
    text, settled = live.feed(await _read(command, offset, min(limit, size - offset)))
    end += min(limit, size - offset)
    while settled == 0 and end < size:  # so small a limit that not even a character is whole
        data = await command.read(end, 1)
        text, settled = live.feed(data)
        end += len(data)
    if finished and end >= size:
        rest, settled = live.flush()
        text += rest
    return _part(command, offset, offset + settled, text, finished, size)


def _part(command: RunningCommand, offset: int, end: int, text: str, finished: bool, size: int) -> OutputText:
    return OutputText(
        command_id=command.id, offset=offset, end=end, text=text, finished=finished, output_bytes=size
    )


def _render(data: bytes) -> str:
    from glovebox.box.terminal.output.presentation import plain

    return plain(data)


async def _follow_raw(command: RunningCommand, offset: int) -> AsyncGenerator[bytes, None]:
    while True:
        await command.changed(offset)
        data = await command.read(offset, _PIECE)
        if not data and command.finished:
            return
        offset += len(data)
        yield data


async def _follow_text(command: RunningCommand, offset: int) -> AsyncGenerator[bytes, None]:
    live, start, sent, at = LiveText(), offset, offset, offset
    ended = False
    while not ended:
        await command.changed(at)
        ended = command.finished and at >= command.size
        try:
            data = await command.read(at, _PIECE)
        except OutputGone:
            yield message("gap", Gap(offset=at, end=command.size, command_id=command.id))
            break
        at += len(data)
        text, settled = live.flush() if ended else live.feed(data)
        if text:
            output = Output(offset=sent, end=start + settled, text=text, command_id=command.id)
            yield message("output", output, str(start + settled))
        sent = start + settled
    yield message("end", command.info())


#: The path parameter of a command, and what is answered if there is none.
COMMAND_ID = (
    Parameter("id", {"type": "string"}, "The id of the action that began it, or as events tell it."),
)
UNKNOWN = Reply("No command has that id, or it is forgotten.", ErrorBody)


def output_endpoint(terminal: CommandSource, threads: Threads, closing: asyncio.Event) -> Endpoint:
    """The endpoint as it is served."""
    text: dict[str, Any] = {"type": "string"}
    number: dict[str, Any] = {"type": "integer", "minimum": 0}
    yes: dict[str, Any] = {"type": "boolean"}
    invalid = Reply("A parameter is not of the right form.", ErrorBody)
    handle = OutputEndpoint(terminal, threads, closing).__call__
    return (
        Endpoint(
            "GET", "/commands/{id}/output", handle, "The output of a command, from any place of it",
            {200: Reply("A part of it (or matches) as JSON; bytes with `format=raw`; events with `follow`."),
             404: UNKNOWN, 410: Reply("This part is not kept any more.", ErrorBody), 422: invalid},
            path_parameters=COMMAND_ID,
            parameters=(
                Parameter("offset", number, "Where to begin, in bytes of raw output. Default: 0."),
                Parameter("limit", {"type": "integer", "minimum": 1},
                          "At most so many bytes (262144; raw: everything) or matches (50)."),
                Parameter("format", {"enum": list(FORMATS)},
                          "`text`: readable; `raw`: bytes; `rendered`: as a person saw it."),
                Parameter("follow", yes, "Go on until the command ends."),
                Parameter("search", text, "Only the lines with this text."),
                Parameter("regex", yes, "`search` is a regular expression."),
                Parameter("case", yes, "`search` minds upper and lower case."),
                Parameter("context", {**number, "maximum": _MOST_CONTEXT},
                          "Lines to show around a match. Default: 2."),
            ),
        )
    )  # fmt: skip
