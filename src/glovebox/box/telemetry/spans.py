"""One span for each action, without a word of what it was about: no commands, paths, output or messages.

Import this only where OpenTelemetry is asked for.
"""

from __future__ import annotations

import re
from contextvars import Token
from typing import Any

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import glovebox
from glovebox import tracing
from glovebox.box.executor import Call, Outcome
from glovebox.box.telemetry.measurements import input_bytes, result_of, text_bytes
from glovebox.errors import GloveboxError
from glovebox.protocol.base import Action, Observation
from glovebox.protocol.observations import ErrorObservation

#: Whatever else is given for a name was not chosen as one.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

Attributes = dict[str, str | int | float | bool]


class Spans:
    """An observer that begins and ends spans."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer(glovebox.__name__, glovebox.__version__)
        self._propagator = TraceContextTextMapPropagator()
        self._open: dict[Call, tuple[Span, Token[Context]]] = {}

    def started(self, action: Action[Any], call: Call) -> None:
        """Begin a span, below the one the caller named or the action that asked for this one."""
        inner = get_current_span().get_span_context().is_valid
        context = get_current()
        if not inner and (parent := tracing.traceparent.get()):
            context = self._propagator.extract({"traceparent": parent}, context)
        kind = SpanKind.INTERNAL if inner else SpanKind.SERVER
        span = self._tracer.start_span(action.action, context, kind, _beginning(action, call))
        self._open[call] = span, attach(set_span_in_context(span))

    def finished(self, outcome: Outcome) -> None:
        """End it."""
        opened = self._open.pop(outcome.call, None)
        if opened is None:  # it began before spans did
            return
        span, token = opened
        if span.is_recording():
            span.set_attributes(_end(outcome.call, outcome.observation, outcome.error))
            if problem := _problem(outcome.observation, outcome.error):
                span.set_attribute("error.type", problem)
                span.set_status(StatusCode.ERROR)
        span.end()
        detach(token)


def _beginning(action: Action[Any], call: Call) -> Attributes:
    attributes: Attributes = {
        "glovebox.action.id": call.id,
        "glovebox.action.kind": action.action,
        "glovebox.input.bytes": input_bytes(action),
    }
    if request_id := tracing.request_id.get():
        attributes["glovebox.request.id"] = request_id
    if call.resumed:
        attributes["glovebox.action.resumed"] = True
    for where in ("session", "kernel"):
        name = getattr(action, where, None)
        if isinstance(name, str) and _NAME.fullmatch(name):
            attributes[f"glovebox.{where}"] = name
    return attributes


def _end(call: Call, observation: Observation | None, error: GloveboxError | None) -> Attributes:
    attributes: Attributes = {"glovebox.action.result": result_of(observation, error)}
    if observation is not None:
        attributes["glovebox.output.bytes"] = text_bytes(observation.content)
    if call.command is not None:
        command = call.command
        attributes["glovebox.session"] = command.session
        attributes["glovebox.command.id"] = command.id
        attributes["glovebox.command.state"] = command.state
        attributes["glovebox.command.output_bytes"] = command.output_bytes
        if command.exit_code is not None:
            attributes["process.exit.code"] = command.exit_code
        if command.limit is not None:
            attributes["glovebox.command.limited"] = True
        if command.oom is not None:
            attributes["glovebox.command.out_of_memory"] = True
    return attributes


def _problem(observation: Observation | None, error: GloveboxError | None) -> str:
    """The code of what went wrong; empty if nothing did."""
    if isinstance(observation, ErrorObservation):
        return observation.error_id or observation.observation
    return "" if observation is not None else result_of(observation, error)
