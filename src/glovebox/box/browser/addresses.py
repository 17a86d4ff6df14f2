"""Which addresses pages of the browser may not visit: the box's own, and files outside the workspace."""

from __future__ import annotations

import os
from collections.abc import Collection
from urllib.parse import unquote, urlsplit

#: What shows another address as text.
_SHOWN_AS_TEXT = "view-source:"
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}


def resolver_rules(closed_ports: Collection[int]) -> str:
    """Rules for Chromium under which no name and no number leads to one of these ports, on any way."""
    return ", ".join(f"MAP *:{port} ~NOTFOUND" for port in sorted(closed_ports))


def why_closed(url: str, closed_ports: Collection[int], workspace: str) -> str | None:
    """Why this address may not be visited, None if it may. Blocks: it looks where links lead."""
    url = url.strip()
    while url.lower().startswith(_SHOWN_AS_TEXT):
        url = url[len(_SHOWN_AS_TEXT) :]
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme.lower())
    except ValueError:
        return None  # no address at all, as Chromium will say
    if parts.scheme.lower() == "file":
        return None if file_allowed(url, workspace) else _outside(url, workspace)
    if port in closed_ports and parts.scheme.lower() in _DEFAULT_PORTS:
        return f"Port {port} is closed to the browser: the box's own API listens there."
    return None


def file_allowed(url: str, workspace: str) -> bool:
    """Whether a file: address leads into the workspace, links followed. Blocks."""
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        return False
    path = unquote(parts.path)
    if "\0" in path:
        return False
    inside = os.path.realpath(workspace)
    return os.path.commonpath([inside, os.path.realpath(path)]) == inside


def _outside(url: str, workspace: str) -> str:
    return f"{url} is outside the workspace {workspace}: the browser opens files only from there."
