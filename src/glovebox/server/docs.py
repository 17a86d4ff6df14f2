"""The page at `/docs`: reads `/openapi.json` and needs nothing from outside the box."""

from __future__ import annotations

import functools
from pathlib import Path


@functools.cache
def docs_page() -> str:
    """The page's HTML. Blocking on first use."""
    return Path(__file__).with_name("docs.html").read_text(encoding="utf-8")
