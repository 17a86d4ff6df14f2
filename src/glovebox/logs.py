"""Log lines: plain for people, one JSON object per line for machines, and never a key in either."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable

from glovebox import tracing

#: What is shorter is part of too many words: masking it would spoil the log, and tell the secret.
SHORTEST_MASKED = 4
PLAIN = "%(asctime)s %(levelname)-7s %(request_id)s %(name)s: %(message)s"


class Mask:
    """Replaces secrets in a text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: one may be a part of another.
        long = {secret for secret in secrets if len(secret) >= SHORTEST_MASKED}
        self._secrets = sorted(long, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


class _PlainFormatter(logging.Formatter):
    """One line, with the id of the request it was written for, or a dash."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.__dict__["request_id"] = tracing.request_id.get() or "-"
        return super().formatMessage(record)


class _JsonFormatter(logging.Formatter):
    """One object per line; a traceback is a field, not more lines."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := tracing.request_id.get():
            line["request_id"] = request_id
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _Masked(logging.Formatter):
    """Wraps a formatter and masks secrets in whatever it made, tracebacks included."""

    def __init__(self, inner: logging.Formatter, mask: Mask) -> None:
        super().__init__()
        self._inner = inner
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        return self._mask(self._inner.format(record))


def configure(*, level: str, as_json: bool, secrets: Iterable[str] = ()) -> None:
    """Send everything to standard error in one format, and make the libraries below quieter."""
    formatter = _JsonFormatter() if as_json else _PlainFormatter(PLAIN, "%H:%M:%S")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Masked(formatter, Mask(secrets)))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    for chatty in ("charset_normalizer", "python_multipart", "urllib3"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
