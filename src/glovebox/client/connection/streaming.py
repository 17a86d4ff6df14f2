"""The events of a running action: none is repeated or lost when the connection breaks."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any, Generic
from urllib.parse import quote

import msgspec

from glovebox.client.connection.answers import decode, envelope, failure, observation_of
from glovebox.client.connection.events import EventParser, ItemStream, ServerSentEvent
from glovebox.client.connection.execute import (
    GRACE_SECONDS,
    KeyedRequest,
    too_late,
    typed_client_answer,
    with_limit,
)
from glovebox.client.connection.http import MOST_BYTES, SILENCE, Connection, deadline
from glovebox.client.connection.retry import Lost
from glovebox.errors import BadAnswer, NoSuchCell, NoSuchCommand, NoSuchKernel, NotFound, OutputGone
from glovebox.json_codec import convert
from glovebox.protocol.actions import IPythonRunCellAction
from glovebox.protocol.base import Action, Message, ObservationT
from glovebox.protocol.events import Display, Failure, Gap, Output, Started
from glovebox.protocol.notebook import CellInfo, CellOutput, CellRecord
from glovebox.protocol.observations import ErrorObservation
from glovebox.protocol.terminal import CommandInfo

#: The items of a stream before the observation.
Progress = Started | Output | Gap | Display | CommandInfo | CellInfo
#: The largest page of output in a request.
_PAGE = 1 << 20


class _Part(Message):
    """A part of a command's output."""

    offset: int
    end: int
    text: str


class _Details(Message):
    action_id: str
    command: CommandInfo | None = None


class ActionStream(ItemStream[Progress | ObservationT | ErrorObservation], Generic[ObservationT]):
    """The events of an action, and at the end its observation.

    The action starts with the first iteration. It continues if the stream is closed early.
    """

    def __init__(self, connection: Connection, action: Action[ObservationT], timeout: float) -> None:
        #: The id of the action, once it has begun; of a `run` that starts something, also of its command.
        self.id = ""
        #: The result, once it is known.
        self.observation: ObservationT | ErrorObservation | None = None
        self._connection = connection
        self._action = with_limit(action, timeout)
        super().__init__(self._follow())

    async def _follow(self) -> AsyncGenerator[Progress | ObservationT | ErrorObservation, None]:
        self.observation = typed_client_answer(self._action)
        if self.observation is not None:
            yield self.observation
            return
        order = KeyedRequest(self._connection, self._action, details=True)
        seen = _Seen(self._connection, self._action)
        late = time.monotonic() + order.limit
        while True:
            try:
                async with contextlib.aclosing(self._once(order, late)) as events:
                    async for event in events:
                        async for item in seen.new_items(event):
                            yield item
                        if event.event == "observation":
                            self.observation = observation_of(self._action, seen.answer)
                            yield self.observation
                            return
                        self.id = seen.id
                lost = Lost("The box has ended the stream.", sent=True)
            except Lost as error:
                lost = error
            async with deadline(max(late - time.monotonic(), 0), too_late(self._action)):
                await order.again(lost)
            seen.restart()

    async def _once(self, order: KeyedRequest, late: float) -> AsyncGenerator[ServerSentEvent, None]:
        async with deadline(max(late - time.monotonic(), 0), too_late(self._action)):
            response = await self._connection.open(
                "POST", "/execute_action_stream", body=order.body, silence=SILENCE
            )
        parser = EventParser(MOST_BYTES)
        try:
            while True:
                # A slow reader still gets the rest: only waiting for the box is limited.
                left = max(late - time.monotonic(), GRACE_SECONDS)
                async with deadline(left, too_late(self._action)):
                    piece = await self._connection.piece(response)
                if not piece:
                    return
                for event in parser.feed(piece):
                    yield event
        finally:
            response.release()


class _Seen:
    """What the caller has received already: after a retry, the box repeats all events, or only the last."""

    def __init__(self, connection: Connection, action: Action[Any]) -> None:
        self.id = ""
        self.answer: dict[str, Any] = {}
        self._connection = connection
        self._action = action
        self._resumed = False
        #: The end of the output that the caller has.
        self._position: int | None = None
        self._displays = 0
        self._displays_now = 0
        self._states: Counter[bytes] = Counter()
        self._states_now: Counter[bytes] = Counter()

    def restart(self) -> None:
        """The request is sent once more."""
        self._resumed = True
        self._displays_now = 0
        self._states_now.clear()

    async def new_items(self, event: ServerSentEvent) -> AsyncGenerator[Progress, None]:
        """What is new in an event.

        Raises:
            GloveboxError: the action failed.
        """
        if event.event == "output":
            async for item in self._output(decode(event.data, Output)):
                yield item
        elif event.event == "gap":
            gap = decode(event.data, Gap)
            begin = max(gap.offset, self._position or 0)
            if gap.end > begin:
                self._position = gap.end
                yield Gap(offset=begin, end=gap.end, command_id=gap.command_id)
        elif event.event == "display":
            self._displays_now += 1
            if self._displays_now > self._displays:
                self._displays += 1
                yield decode(event.data, Display)
        elif event.event == "state":
            self._states_now[event.data] += 1
            if self._states_now[event.data] > self._states[event.data]:
                self._states[event.data] += 1
                yield _state(event)
        elif event.event == "started":
            started = decode(event.data, Started)
            if not self.id:
                self.id = started.id
                yield started
        elif event.event == "observation":
            async for item in self._end(event):
                yield item
        elif event.event == "error":
            failed = decode(event.data, Failure)
            raise failure(failed.status, failed.code, failed.detail)

    async def _output(self, output: Output) -> AsyncGenerator[Progress, None]:
        position = output.offset if self._position is None else self._position
        if output.offset > position and output.command_id is not None:
            async for item in self._read(output.command_id, position, output.offset):
                yield item
        if output.end <= position:
            return
        if output.offset >= position:
            self._position = output.end
            yield output
        elif output.command_id is not None:  # repeated output may be cut into other pieces
            async for item in self._read(output.command_id, position, output.end):
                yield item
        else:
            text = output.text.encode("utf-8", "replace")[position - output.offset :].decode(
                "utf-8", "replace"
            )
            self._position = output.end
            yield Output(offset=position, end=output.end, text=text)

    async def _end(self, event: ServerSentEvent) -> AsyncGenerator[Progress, None]:
        """The end, preceded by output that was printed without a connection."""
        self.answer = envelope(event.data)
        details = self.answer.get("details")
        if not self._resumed or details is None:
            return
        try:
            known = convert(details, _Details)
        except msgspec.ValidationError as error:
            raise BadAnswer(f"The box tells no details: {error}") from error
        command = known.command
        if command is not None:
            # The action that started a command has all of its output, others what is printed from then on.
            position = self._position if self._position is not None else 0
            if self._position is not None or command.id == known.action_id:
                async for item in self._read(command.id, position, command.output_bytes):
                    yield item
        elif isinstance(self._action, IPythonRunCellAction):
            async for item in self._read_cell(self._action.kernel, known.action_id):
                yield item

    async def _read(self, command_id: str, begin: int, end: int) -> AsyncGenerator[Progress, None]:
        """Output from the log of the command."""
        self._position = begin
        while self._position < end:
            query = {"offset": str(self._position), "limit": str(min(end - self._position, _PAGE))}
            try:
                page = await self._connection.request(
                    "GET", f"/commands/{quote(command_id)}/output", query=query
                )
                part = decode(page, _Part)
            except (NoSuchCommand, OutputGone, NotFound):
                part = None
            if part is None or part.end <= self._position:
                yield Gap(offset=self._position, end=end, command_id=command_id)
                self._position = end
                return
            self._position = part.end
            if part.text:
                yield Output(offset=part.offset, end=part.end, text=part.text, command_id=command_id)

    async def _read_cell(self, kernel: str, cell_id: str) -> AsyncGenerator[Progress, None]:
        """Output of a cell that was printed without a connection."""
        try:
            path = f"/kernels/{quote(kernel, safe='')}/cells/{quote(cell_id, safe='')}"
            record = decode(await self._connection.request("GET", path), CellRecord)
        except (NoSuchKernel, NoSuchCell, NotFound):
            return
        position, end, displays = self._position or 0, 0, 0
        for output in record.outputs:
            if output.late:
                continue
            text = output.text.encode("utf-8", "replace")
            begin, end = end, end + len(text)
            if end > position:
                new = text[max(position - begin, 0) :].decode("utf-8", "replace")
                yield Output(offset=max(begin, position), end=end, text=new)
            displays += _is_shown(output)
            if _is_shown(output) and displays > self._displays:
                yield Display(
                    kind=output.kind, data=output.data, metadata=output.metadata, display_id=output.display_id
                )
        if record.dropped_bytes:
            yield Gap(offset=end, end=max(end, record.cell.output_bytes))


def _is_shown(output: CellOutput) -> bool:
    """Whether the stream has it as a display, which a plain result is not."""
    if output.kind in ("stream", "error"):
        return False
    return output.kind in ("update_display_data", "clear_output") or output.data.keys() != {"text/plain"}


def _state(event: ServerSentEvent) -> CommandInfo | CellInfo:
    return (
        decode(event.data, CellInfo) if "kernel" in envelope(event.data) else decode(event.data, CommandInfo)
    )
