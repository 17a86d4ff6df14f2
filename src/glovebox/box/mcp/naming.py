"""What the tools of several servers are called, and which one a name means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """A tool of a server, by the names that both have for themselves."""

    server: str
    tool: str


def public_names(tools: Mapping[str, Sequence[str]]) -> dict[str, Place]:
    """The tools of each server by the names that clients see.

    As the contract has it: one server's tools keep their names, those of several begin with its name.
    """
    alone = len(tools) == 1
    names: dict[str, Place] = {}
    for server, own in tools.items():
        for tool in own:
            names.setdefault(tool if alone else f"{server}_{tool}", Place(server, tool))
    return names


def find(name: str, tools: Mapping[str, Sequence[str]]) -> Place | None:
    """The tool that is meant: also by a name it had while there were more servers, or fewer."""
    if place := public_names(tools).get(name):
        return place
    places = [Place(server, tool) for server, own in tools.items() for tool in own]
    for place in places:
        if name == f"{place.server}_{place.tool}":
            return place
    same = [place for place in places if place.tool == name]
    return same[0] if len(same) == 1 else None


def unknown(name: str, known: Iterable[str]) -> str:
    """What is said of a name that no tool has."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Unknown tool: {name}" + (f". Did you mean {near[0]}?" if near else "")
