"""Which addresses the browser may visit: the web without the box itself, and files of the workspace."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from urllib.parse import unquote, urlsplit

#: Shows the page of another address as text.
_SHOWN_AS_TEXT = "view-source:"
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
#: Made by pages themselves. One without a scheme is malformed, which Chromium will report.
_MADE_BY_PAGES = frozenset({"data", "blob", ""})
_BLANK = re.compile(r"blank([?#].*)?", re.IGNORECASE | re.DOTALL)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
#: Shown by Chromium for a page that cannot be reached.
ERROR_PAGE = "chrome-error://chromewebdata/"
#: Taken by Playwright for the beginning of a host.
_LOCAL = ("localhost", "127.0.0.1")
#: Characters that browsers remove: these around an address, those anywhere in it.
_AROUND = "".join(map(chr, range(0x21)))
_ANYWHERE = str.maketrans("", "", "\t\r\n")


def resolver_rules(closed_ports: Collection[int]) -> str:
    """Rules for Chromium that close these ports of all hosts."""
    return ", ".join(f"MAP *:{port} ~NOTFOUND" for port in sorted(closed_ports))


def why_closed(url: str, closed_ports: Collection[int], workspace: str) -> str | None:
    """Why this address may not be visited, None if it may. Blocks: it follows symbolic links."""
    url = _plain(url)
    scheme, _, rest = url.partition(":") if _SCHEME.match(url) else ("", "", url)
    scheme = scheme.lower()
    if scheme == "file":
        return None if file_allowed(url, workspace) else _outside(url, workspace)
    if scheme in _DEFAULT_PORTS:
        port = _port(url, _DEFAULT_PORTS[scheme])
        closed = f"Port {port} is closed to the browser: the box's own API listens there."
        return closed if port in closed_ports else None
    blank = scheme == "about" and _BLANK.fullmatch(rest)
    if blank or scheme in _MADE_BY_PAGES or url == ERROR_PAGE:
        return None
    return (
        f"{scheme}: is closed to the browser. It opens http, https, data and blob addresses, about:blank,"
        f" and files of the workspace {workspace}."
    )


def _plain(url: str) -> str:
    """An address as browsers read it; for view-source:, the address that it shows."""
    url = url.translate(_ANYWHERE).strip(_AROUND)
    while url.lower().startswith(_SHOWN_AS_TEXT):
        url = url[len(_SHOWN_AS_TEXT) :].strip(_AROUND)
    return f"http://{url}" if url.startswith(_LOCAL) else url


def _port(url: str, default: int) -> int | None:
    """The port of an address; None if it is malformed, which Chromium will report."""
    try:
        return urlsplit(url.replace("\\", "/")).port or default
    except ValueError:
        return None


def file_allowed(url: str, workspace: str) -> bool:
    """Whether a file: address leads into the workspace, with links followed. Blocks."""
    try:
        parts = urlsplit(url.replace("\\", "/"))
    except ValueError:
        return False
    if parts.netloc not in ("", "localhost"):
        return False
    path = os.path.join("/", unquote(parts.path))
    if "\0" in path:
        return False
    inside = os.path.realpath(workspace)
    return os.path.commonpath([inside, os.path.realpath(path)]) == inside


def _outside(url: str, workspace: str) -> str:
    return f"{url} is outside the workspace {workspace}: the browser opens files only from there."
