"""The page at `/docs`: reads `/openapi.json` and needs nothing from outside the box."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path

_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


@functools.cache
def docs_page() -> tuple[str, str]:
    """The page's HTML, and the policy that lets it run what is in it only. Blocking on first use."""
    page = Path(__file__).with_name("docs.html").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; connect-src 'self'; script-src {_sources(_SCRIPT, page)};"
        f" style-src {_sources(_STYLE, page)}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    return page, policy


def _sources(element: re.Pattern[str], page: str) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in element.findall(page))
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
