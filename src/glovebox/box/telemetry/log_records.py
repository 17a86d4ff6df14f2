"""Log lines of the box for a collector, with the trace and the request they belong to.

Import this only where OpenTelemetry is asked for.
"""

from __future__ import annotations

import logging

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider

from glovebox import tracing
from glovebox.logs import Mask

#: What is said here is mostly that the collector cannot be reached.
_OWN = __name__.rpartition(".")[0]
_SEVERITIES = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
    (logging.DEBUG, SeverityNumber.DEBUG),
)


class LogRecords(logging.Handler):
    """A logging handler that gives lines to OpenTelemetry; it shows no more than standard error does."""

    def __init__(self, provider: LoggerProvider, mask: Mask) -> None:
        super().__init__()
        self._provider = provider
        self._mask = mask
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line. What traces it comes from the context it was written in."""
        if record.name.startswith(_OWN):
            return
        try:
            self._provider.get_logger(record.name).emit(self._made_of(record))
        except (TypeError, ValueError):  # a line whose parts do not fit must not fail whoever wrote it
            self.handleError(record)

    def _made_of(self, record: logging.LogRecord) -> LogRecord:
        attributes: dict[str, str] = {}
        if request_id := tracing.request_id.get():
            attributes["glovebox.request.id"] = request_id
        if record.exc_info and record.exc_info[0] is not None:
            attributes["exception.type"] = record.exc_info[0].__name__
            attributes["exception.stacktrace"] = self._shown(self._formatter.formatException(record.exc_info))
        return LogRecord(
            timestamp=int(record.created * 1e9),
            severity_text=record.levelname,
            severity_number=_severity(record.levelno),
            body=self._shown(record.getMessage()),
            attributes=attributes,
        )

    def _shown(self, text: str) -> str:
        """Masked, and as text that can be sent: odd file names are not valid Unicode."""
        return self._mask(text).encode("utf-8", "replace").decode("utf-8")


def _severity(level: int) -> SeverityNumber:
    return next((severity for least, severity in _SEVERITIES if level >= least), SeverityNumber.TRACE)
