"""Log lines: plain for people, one JSON object per line for machines, and never a key in either."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable

PLAIN = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class _JsonFormatter(logging.Formatter):
    """One object per line; a traceback is a field, not more lines."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _Masked(logging.Formatter):
    """Wraps a formatter and masks secrets in whatever it made, tracebacks included."""

    def __init__(self, inner: logging.Formatter, secrets: Iterable[str]) -> None:
        super().__init__()
        self._inner = inner
        self._secrets = [secret for secret in secrets if secret]

    def format(self, record: logging.LogRecord) -> str:
        line = self._inner.format(record)
        for secret in self._secrets:
            line = line.replace(secret, "***")
        return line


def configure(*, level: str, as_json: bool, secrets: Iterable[str] = ()) -> None:
    """Send everything to standard error in one format, and make the libraries below quieter."""
    formatter = _JsonFormatter() if as_json else logging.Formatter(PLAIN, "%H:%M:%S")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Masked(formatter, secrets))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    for chatty in ("charset_normalizer", "chardet", "python_multipart"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
