"""What the standard variables of OpenTelemetry ask for. Without I/O, and without OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import unquote

Signal = Literal["traces", "metrics", "logs"]
SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")
HTTP = "http/protobuf"
#: Shorter values of headers would be found in any text.
_SHORTEST_SECRET = 6


def asked_for(variables: Mapping[str, str]) -> dict[Signal, str]:
    """The signals to send, each with its protocol or, if it is not to be OTLP, the name of its exporter."""
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    asked: dict[Signal, str] = {}
    for signal in SIGNALS:
        exporter = _value(variables, f"OTEL_{signal.upper()}_EXPORTER")
        endpoint = _of(variables, "ENDPOINT", signal)
        if exporter == "none" or not (exporter or endpoint):
            continue
        asked[signal] = (
            exporter if exporter not in ("", "otlp") else _of(variables, "PROTOCOL", signal) or HTTP
        )
    return asked


def secrets(variables: Mapping[str, str]) -> list[str]:
    """What must not be shown of the variables: the headers for the collector, which mostly hold a key."""
    found = []
    for name, value in variables.items():
        if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("HEADERS"):
            shown = [part.partition("=")[2].strip() for part in value.split(",")]
            found += [value, *shown, *map(unquote, shown)]
    return [secret for secret in found if len(secret) >= _SHORTEST_SECRET]


def headers(variables: Mapping[str, str], signal: Signal) -> str:
    """What the collector wants to see with a signal, as the variable has it."""
    return _of(variables, "HEADERS", signal)


def _of(variables: Mapping[str, str], what: str, signal: Signal) -> str:
    """The variable for one signal, or else the one for all."""
    own = _value(variables, f"OTEL_EXPORTER_OTLP_{signal.upper()}_{what}")
    return own or _value(variables, f"OTEL_EXPORTER_OTLP_{what}")


def _value(variables: Mapping[str, str], name: str) -> str:
    return variables.get(name, "").strip()
