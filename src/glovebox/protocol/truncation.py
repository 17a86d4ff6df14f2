"""How much of an observation is shown."""

from __future__ import annotations

#: The contract's limit for the output of a command, in characters.
LIMIT = 30_000

NOTICE = "\n[... Observation truncated due to length ...]\n"


def truncate(content: str, limit: int = LIMIT) -> str:
    """The first and the last half of a content that is longer than `limit`, with a notice between."""
    if len(content) <= limit:
        return content
    half = limit // 2
    return content[:half] + NOTICE + content[-half:]
