"""What OpenTelemetry has to complain about, told now and then instead of with every failed attempt."""

from __future__ import annotations

import logging
import time

from glovebox.logs import Mask

log = logging.getLogger(__name__)

#: How long nothing is said of a complaint that was told.
SILENCE_SECONDS = 600.0
_LONGEST = 300


class Complaints(logging.Handler):
    """Stands between the SDK's log and ours."""

    def __init__(self, mask: Mask, silence: float = SILENCE_SECONDS) -> None:
        super().__init__(logging.WARNING)
        self._mask = mask
        self._silence = silence
        self._told: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Tell it, unless it was told."""
        exporting = record.name.startswith("opentelemetry.exporter")
        # An exporter says the same in many words: of each attempt, of each signal, of each batch.
        kind = "exporter" if exporting else record.msg
        now = time.monotonic()
        if now - self._told.get(kind, -self._silence) < self._silence:
            return
        self._told[kind] = now
        said = self._mask(record.getMessage())[:_LONGEST]
        if exporting:
            log.warning("Telemetry is not delivered: %s", said)
        else:
            log.warning("OpenTelemetry: %s", said)

    def listen(self) -> None:
        """Take over the SDK's log, for good: its threads may have something to say after they were ended."""
        logger = logging.getLogger("opentelemetry")
        logger.handlers = [self]
        logger.propagate = False
