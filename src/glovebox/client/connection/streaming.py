"""An action followed while it runs: nothing is told twice or left out when the connection breaks."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Any, Generic
from urllib.parse import quote

import msgspec

from glovebox.client.connection.answers import MessageT, decoded, envelope, failure, observation_of
from glovebox.client.connection.execute import GRACE_SECONDS, KeyedRequest, answered_here, limited, too_late
from glovebox.client.connection.http import MOST_BYTES, SILENCE, Connection, deadline
from glovebox.client.connection.retry import Lost
from glovebox.client.connection.sse import EventParser, ServerSentEvent
from glovebox.errors import BadAnswer, NoSuchCell, NoSuchCommand, NoSuchKernel, NotFound, OutputGone
from glovebox.json_codec import convert
from glovebox.protocol.actions import IPythonRunCellAction
from glovebox.protocol.base import Action, Message, ObservationT
from glovebox.protocol.events import Display, Failure, Gap, Output, Started
from glovebox.protocol.notebook import CellInfo, CellOutput, CellRecord
from glovebox.protocol.observations import ErrorObservation
from glovebox.protocol.terminal import CommandInfo

#: What is told of an action before its observation.
Progress = Started | Output | Gap | Display | CommandInfo | CellInfo
#: The largest page of output that is asked for.
_PAGE = 1 << 20


class _Part(Message):
    """A part of a command's output."""

    offset: int
    end: int
    text: str


class _Details(Message):
    action_id: str
    command: CommandInfo | None = None


class ActionStream(Generic[ObservationT]):
    """What happens to an action, and at the end its observation.

    The action begins when the first item is asked for. Leaving early (`aclose`, or the end of `async with`)
    lets go of the connection, and the action goes on.
    """

    def __init__(self, connection: Connection, action: Action[ObservationT], timeout: float) -> None:
        #: The id of the action, once it has begun; of a `run` that starts something, also of its command.
        self.id = ""
        #: What it came to, once that is known.
        self.observation: ObservationT | ErrorObservation | None = None
        self._connection = connection
        self._action = limited(action, timeout)
        self._told = self._follow()

    def __aiter__(self) -> AsyncIterator[Progress | ObservationT | ErrorObservation]:
        return self

    async def __anext__(self) -> Progress | ObservationT | ErrorObservation:
        return await anext(self._told)

    async def __aenter__(self) -> ActionStream[ObservationT]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of the connection; the action goes on. Idempotent."""
        await self._told.aclose()

    async def _follow(self) -> AsyncGenerator[Progress | ObservationT | ErrorObservation, None]:
        self.observation = answered_here(self._action)
        if self.observation is not None:
            yield self.observation
            return
        order = KeyedRequest(self._connection, self._action, details=True)
        seen = _Seen(self._connection, self._action)
        late = time.monotonic() + order.limit
        while True:
            try:
                async with contextlib.aclosing(self._once(order, late)) as events:
                    async for told in events:
                        async for item in seen.told(told):
                            yield item
                        if told.event == "observation":
                            self.observation = observation_of(self._action, seen.answer)
                            yield self.observation
                            return
                        self.id = seen.id
                lost = Lost("The box has ended the stream.", sent=True)
            except Lost as error:
                lost = error
            async with deadline(max(late - time.monotonic(), 0), too_late(self._action)):
                await order.again(lost)
            seen.begin_again()

    async def _once(self, order: KeyedRequest, late: float) -> AsyncGenerator[ServerSentEvent, None]:
        async with deadline(max(late - time.monotonic(), 0), too_late(self._action)):
            response = await self._connection.open(
                "POST", "/execute_action_stream", body=order.body, silence=SILENCE
            )
        parser = EventParser(MOST_BYTES)
        try:
            while True:
                # Whoever is slow to read gets the rest later; only waiting for it has an end.
                left = max(late - time.monotonic(), GRACE_SECONDS)
                async with deadline(left, too_late(self._action)):
                    piece = await self._connection.piece(response)
                if not piece:
                    return
                for told in parser.feed(piece):
                    yield told
        finally:
            response.release()


class _Seen:
    """What was told already. A box that is asked again tells all from the beginning, or only the end."""

    def __init__(self, connection: Connection, action: Action[Any]) -> None:
        self.id = ""
        self.answer: dict[str, Any] = {}
        self._connection = connection
        self._action = action
        self._resumed = False
        #: Up to where output was told.
        self._position: int | None = None
        self._displays = 0
        self._displays_now = 0
        self._states: Counter[bytes] = Counter()
        self._states_now: Counter[bytes] = Counter()

    def begin_again(self) -> None:
        """The box is asked once more."""
        self._resumed = True
        self._displays_now = 0
        self._states_now.clear()

    async def told(self, told: ServerSentEvent) -> AsyncGenerator[Progress, None]:
        """What is new in an event.

        Raises:
            GloveboxError: it says that the action failed.
        """
        if told.event == "output":
            async for item in self._output(_message(told, Output)):
                yield item
        elif told.event == "gap":
            gap = _message(told, Gap)
            begin = max(gap.offset, self._position or 0)
            if gap.end > begin:
                self._position = gap.end
                yield Gap(offset=begin, end=gap.end, command_id=gap.command_id)
        elif told.event == "display":
            self._displays_now += 1
            if self._displays_now > self._displays:
                self._displays += 1
                yield _message(told, Display)
        elif told.event == "state":
            self._states_now[told.data] += 1
            if self._states_now[told.data] > self._states[told.data]:
                self._states[told.data] += 1
                yield _state(told)
        elif told.event == "started":
            started = _message(told, Started)
            if not self.id:
                self.id = started.id
                yield started
        elif told.event == "observation":
            async for item in self._end(told):
                yield item
        elif told.event == "error":
            failed = _message(told, Failure)
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
        elif output.command_id is not None:  # pieces are cut anew when they are told again
            async for item in self._read(output.command_id, position, output.end):
                yield item
        else:
            text = output.text.encode("utf-8", "replace")[position - output.offset :].decode(
                "utf-8", "replace"
            )
            self._position = output.end
            yield Output(offset=position, end=output.end, text=text)

    async def _end(self, told: ServerSentEvent) -> AsyncGenerator[Progress, None]:
        """The end, and before it what was printed while nobody was connected."""
        self.answer = envelope(told.data)
        details = self.answer.pop("details", None)
        if not self._resumed or details is None:
            return
        known = _converted(details)
        command = known.command
        if command is not None:
            # An action that began a command tells all of it, others what is printed from then on.
            position = self._position if self._position is not None else 0
            if self._position is not None or command.id == known.action_id:
                async for item in self._read(command.id, position, command.output_bytes):
                    yield item
        elif isinstance(self._action, IPythonRunCellAction):
            async for item in self._read_cell(self._action.kernel, known.action_id):
                yield item

    async def _read(self, command_id: str, begin: int, end: int) -> AsyncGenerator[Progress, None]:
        """Output from the command's log."""
        self._position = begin
        while self._position < end:
            query = {"offset": str(self._position), "limit": str(min(end - self._position, _PAGE))}
            try:
                page = await self._connection.request(
                    "GET", f"/commands/{quote(command_id)}/output", query=query
                )
                part = decoded(page, _Part)
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
        """What a cell gave out while nobody was connected."""
        try:
            path = f"/kernels/{quote(kernel, safe='')}/cells/{quote(cell_id, safe='')}"
            record = decoded(await self._connection.request("GET", path), CellRecord)
        except (NoSuchKernel, NoSuchCell, NotFound):
            return
        position, told, displays = self._position or 0, 0, 0
        for output in record.outputs:
            if output.late:
                continue
            text = output.text.encode("utf-8", "replace")
            begin, told = told, told + len(text)
            if told > position:
                new = text[max(position - begin, 0) :].decode("utf-8", "replace")
                yield Output(offset=max(begin, position), end=told, text=new)
            displays += _is_shown(output)
            if _is_shown(output) and displays > self._displays:
                yield Display(
                    kind=output.kind, data=output.data, metadata=output.metadata, display_id=output.display_id
                )
        if record.dropped_bytes:
            yield Gap(offset=told, end=max(told, record.cell.output_bytes))


def _is_shown(output: CellOutput) -> bool:
    """Whether it was told as a display, which a plain result is not."""
    if output.kind in ("stream", "error"):
        return False
    return output.kind in ("update_display_data", "clear_output") or output.data.keys() != {"text/plain"}


def _state(told: ServerSentEvent) -> CommandInfo | CellInfo:
    return _message(told, CellInfo) if "kernel" in envelope(told.data) else _message(told, CommandInfo)


def _message(told: ServerSentEvent, kind: type[MessageT]) -> MessageT:
    return decoded(told.data, kind)


def _converted(details: Any) -> _Details:
    try:
        return convert(details, _Details)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"The box tells no details: {error}") from error
