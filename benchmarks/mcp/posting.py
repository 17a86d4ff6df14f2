"""The list of MCP servers that is posted to a server, and when their tools are there."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.competitors import Unavailable
from benchmarks.dialects import Site
from benchmarks.load import LoadError, exchange
from benchmarks.mcp.client import EventSession, opened, tools
from benchmarks.mcp.wire import request

_PROGRAM = Path(__file__).with_name("stdio_server.py")
TOOL = "echo"


@dataclass(frozen=True)
class Entry:
    """A server of the list; what it does is told by its kind."""

    name: str
    kind: str = "echo"

    def as_posted(self) -> dict[str, object]:
        """As the contract has it. Its interpreter is the benchmark's, for every server that is measured."""
        return {
            "name": self.name,
            "command": sys.executable,
            "args": ["-I", "-S", str(_PROGRAM), self.kind],
            "env": {},
        }


#: Alone in a list, its tool keeps its name.
ALONE = [Entry("one")]


def public_name(entry: Entry, among: Sequence[Entry]) -> str:
    """What the tool of a server of a list is called."""
    return TOOL if len(among) == 1 else f"{entry.name}_{TOOL}"


def post(site: Site, entries: Sequence[Entry]) -> None:
    """Have these servers.

    Raises:
        Unavailable: the list was not taken.
    """
    body = json.dumps([entry.as_posted() for entry in entries]).encode()
    try:
        status, said = exchange(site.address, request(site, "POST", "/update_mcp_server", body))
    except (OSError, LoadError) as error:
        raise Unavailable(f"no answer to a list of MCP servers: {error}") from error
    if status != 200:
        raise Unavailable(f"a list of MCP servers was not taken: HTTP {status} {said[:200]!r}")


def ready(site: Site, entries: Sequence[Entry]) -> float:
    """Post a list, connect and ask for the tools: the seconds until they are there.

    Raises:
        Unavailable: there are other tools than those of the list, or none.
    """
    expected = sorted(public_name(entry, entries) for entry in entries)
    began = perf_counter()
    post(site, entries)
    try:
        with opened(site, EventSession) as session:
            names = sorted(tools(session))
    except (OSError, LoadError) as error:
        raise Unavailable(f"no tools: {error}") from error
    took = perf_counter() - began
    if names != expected:
        raise Unavailable(f"tools/list: {', '.join(names) or 'none'} instead of {', '.join(expected)}")
    return took
