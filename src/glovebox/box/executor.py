"""Runs actions: finds the handler, logs the events, and is the one place that catches everything."""

from __future__ import annotations

import logging
import time
import types
import typing
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, TypeVar

from glovebox.box.events import EventLog
from glovebox.errors import ActionError, GloveboxError, UnsupportedAction
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.events import ActionFinished, ActionOutput, ActionStarted, Event
from glovebox.protocol.notebook import CellInfo
from glovebox.protocol.observations import ErrorObservation
from glovebox.protocol.terminal import CommandInfo

log = logging.getLogger(__name__)

ObservationT = TypeVar("ObservationT", bound=Observation)


class Call:
    """One execution of an action, as its handler sees it."""

    def __init__(self, action_id: str, events: EventLog, *, resumed: bool = False) -> None:
        self.id = action_id
        self.started = time.monotonic()
        #: The box was restarted while this action ran, and its client repeats the request.
        self.resumed = resumed
        #: How many seconds its caller waits for an answer.
        self.timeout: float | None = None
        #: The command behind the action, for callers that want details.
        self.command: CommandInfo | None = None
        #: The cell that it ran.
        self.cell: CellInfo | None = None
        self._events = events
        self._printed = 0

    def output(self, text: str) -> None:
        """Publish what the action has just printed."""
        offset, self._printed = self._printed, self._printed + len(text.encode("utf-8", "replace"))
        self._events.append(ActionOutput, action_id=self.id, offset=offset, end=self._printed, text=text)

    def tell(self, kind: type[Event], /, **fields: Any) -> None:
        """Add another event of the action to the log."""
        self._events.append(kind, action_id=self.id, **fields)


#: The call whose handler runs, also in tasks that it starts; None outside of an action.
current_call: ContextVar[Call | None] = ContextVar("current_call", default=None)


class Outcome(NamedTuple):
    """How an action ended: with an observation or an error, or with neither if it was cancelled."""

    action: Action[Any]
    call: Call
    observation: Observation | None
    error: GloveboxError | None
    seconds: float


class Observer(Protocol):
    """Is called for every action: it must be quick and never raise."""

    def started(self, action: Action[Any], call: Call) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...


#: `async def handler(action: SomeAction, call: Call) -> SomeObservation | ErrorObservation`
Handler = Callable[[Any, Call], Awaitable[Observation]]


class Executor:
    """Carries out actions with the handlers it was given.

    There is no lock here: a handler that needs order (a shell, a kernel, a page) keeps its own.
    """

    def __init__(
        self,
        handlers: Iterable[Handler] | Mapping[type[Action[Any]], Handler],
        events: EventLog,
        observers: Iterable[Observer] = (),
    ) -> None:
        """`handlers` may be a table that was made before: reading annotations is slow."""
        self.events = events
        self._handlers = handlers if isinstance(handlers, Mapping) else handler_table(handlers)
        self._observers = tuple(observers)

    def call(self, action_id: str | None = None, *, resumed: bool = False) -> Call:
        return Call(action_id or uuid.uuid4().hex, self.events, resumed=resumed)

    async def execute(
        self, action: Action[ObservationT], call: Call | None = None
    ) -> ObservationT | ErrorObservation:
        """Carry out one action; a caller that needs its id beforehand makes the `call`.

        Raises:
            ActionError: it could not be carried out; the code says why.
        """
        handler = self._handlers.get(type(action))
        if handler is None:
            # The contract's words, which its clients show to people.
            raise UnsupportedAction(f"'ActionExecutor' object has no attribute '{action.action}'")
        call = call or self.call()
        call.timeout = action.timeout
        self.events.append(ActionStarted, action_id=call.id, action=action.action)
        for observer in self._observers:
            observer.started(action, call)
        observation: Observation | None = None
        failure: GloveboxError | None = None
        outside = current_call.set(call)
        try:
            observation = await handler(action, call)
            return typing.cast("ObservationT | ErrorObservation", observation)
        except GloveboxError as error:
            failure = error
            raise
        except OSError as error:  # a refusal by the machine is an answer, not a defect
            failure = ActionError(str(error))
            raise failure from error
        except Exception as error:  # the one broad except: a handler's defect is an answer too
            log.exception("action %s failed in its handler", action.action)
            failure = ActionError(str(error))
            raise failure from error
        finally:
            current_call.reset(outside)
            seconds = time.monotonic() - call.started
            outcome = Outcome(action, call, observation, failure, seconds)
            for observer in self._observers:
                observer.finished(outcome)
            self.events.append(
                ActionFinished,
                action_id=call.id,
                seconds=seconds,
                observation=observation.observation if observation else None,
                error=failure.code if failure else None,
            )


def answers_of(handler: Handler) -> list[type[Observation]]:
    """The observations that a handler declares to answer with."""
    found = _members(typing.get_type_hints(handler).get("return"))
    return [one for one in found if isinstance(one, type) and issubclass(one, Observation)]


def handler_table(handlers: Iterable[Handler]) -> dict[type[Action[Any]], Handler]:
    """Index handlers by the action they declare, with checks that would otherwise fail on a request."""
    table: dict[type[Action[Any]], Handler] = {}
    for handler in handlers:
        hints = typing.get_type_hints(handler)
        answer = hints.pop("return", None)
        action = next(iter(hints.values()), None)
        name = getattr(handler, "__qualname__", repr(handler))
        if not (isinstance(action, type) and issubclass(action, Action)):
            raise TypeError(f"{name}: the first parameter must be annotated with an action")
        if action in table:
            raise TypeError(f"{name}: {action.__name__} already has a handler")
        allowed = {*_members(_answer_of(action)), ErrorObservation}
        if not set(_members(answer)) <= allowed:
            raise TypeError(f"{name}: {answer} is not what {action.__name__} is answered with")
        table[action] = handler
    return table


def _answer_of(action: type[Action[Any]]) -> Any:
    for base in action.__orig_bases__:  # type: ignore[attr-defined]
        arguments = typing.get_args(base)
        if arguments:
            return arguments[0]
    raise TypeError(f"{action.__name__} does not say what answers it: derive it from Action[...]")


def _members(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the one type there is."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return typing.get_args(annotation)
    return (annotation,)
