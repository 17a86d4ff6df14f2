"""Finds a VS Code server on the machine. Everything blocks, a little."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from glovebox.errors import PluginFailed
from glovebox.protocol.base import Message

#: Where images for OpenHands and packages of code-server install it.
OPENVSCODE = Path("/openhands/.openvscode-server")
_CODE_SERVERS = (Path("/usr/lib/code-server"), Path("/usr/local/lib/code-server"))
#: In code-server: VS Code's own server, and the node of its packages.
_INNER = Path("lib", "vscode")
_PACKAGED_NODE = Path("lib", "node")
#: How far above a program its server may begin: `code-server/out/node/entry.js`.
_HEIGHT = 3


class ServerProgram(Message):
    """A VS Code server that can be started."""

    #: Its directory.
    place: str
    #: Starts it; flags follow.
    command: tuple[str, ...]


def find_server(chosen: str, environment: Mapping[str, str]) -> ServerProgram:
    """The chosen server, else the first that is found.

    Raises:
        PluginFailed: there is none; the text says what to do.
    """
    path = environment.get("PATH", os.defpath)
    if chosen:
        found = _at(chosen, path)
        if found is None:
            raise PluginFailed(
                f"GLOVEBOX_VSCODE is {chosen!r}, and there is no VS Code server there. {HOW_TO_GET}"
            )
        return _with_node(found, path)
    for candidate in _candidates(environment, path):
        if (candidate / MAIN).is_file():
            return _with_node(candidate, path)
    raise PluginFailed(f"There is no VS Code server. {HOW_TO_GET}")


HOW_TO_GET = "Install one: glovebox vscode install. Or say where one is: GLOVEBOX_VSCODE=/path/to/server."


def _candidates(environment: Mapping[str, str], path: str) -> Iterator[Path]:
    """Where servers may be, in order of preference."""
    yield installed_at(environment)
    yield OPENVSCODE
    for program in ("openvscode-server", "code-server"):
        if (found := shutil.which(program, path=path)) and (server := _around(Path(found))):
            yield server
    for place in _CODE_SERVERS:
        yield place / _INNER
    for program in ("npm", "node"):
        if found := shutil.which(program, path=path):
            # Global packages of npm are beside the programs of its node.
            yield Path(found).parent.parent / "lib/node_modules/code-server" / _INNER


def _at(chosen: str, path: str) -> Path | None:
    """The directory of a server, given as a directory, a program, or the script that node runs."""
    place = Path(chosen).expanduser()
    if place.is_dir():
        inner = (place, place / _INNER, place / "node_modules/code-server" / _INNER)
        return next((one.absolute() for one in inner if (one / MAIN).is_file()), None)
    found = shutil.which(chosen, path=path) or (chosen if place.is_file() else None)
    return _around(Path(found)) if found else None


def _around(program: Path) -> Path | None:
    """The directory of the server that a program belongs to."""
    for above in list(program.resolve().parents)[:_HEIGHT]:
        for place in (above, above / _INNER):
            if (place / MAIN).is_file():
                return place
    return None


def _with_node(place: Path, path: str) -> ServerProgram:
    """A server with its own node, or with that of the system.

    Raises:
        PluginFailed: there is no node.
    """
    for own in (place / NODE, place.parent.parent / _PACKAGED_NODE):
        if os.access(own, os.X_OK) and own.is_file():
            return ServerProgram(place=str(place), command=(str(own), str(place / MAIN)))
    if (place / RECORD).exists():
        raise PluginFailed(
            f"The node of {place} is gone. Install it again: glovebox vscode install --force --to {place}"
        )
    node = shutil.which("node", path=path)
    if node is None:
        raise PluginFailed(f"{place} needs node, and there is none on the PATH. {HOW_TO_GET}")
    return ServerProgram(place=str(place), command=(node, str(place / MAIN)))


#: In every VS Code server: the script that node runs, and the node of some.
MAIN = Path("out", "server-main.js")
NODE = "node"
#: In those that `glovebox vscode install` made: a record of it.
RECORD = "glovebox.json"
#: Nodes below it cannot load the servers that are installed.
LEAST_NODE = (22, 15)


class Installed(Message):
    """The record that `glovebox vscode install` leaves."""

    #: The npm package that it comes from.
    version: str
    #: The node of the machine, if that is used.
    node: str = ""


def installed_at(environment: Mapping[str, str]) -> Path:
    """Where a user's VS Code server is installed."""
    home = environment.get("HOME") or str(Path.home())
    return Path(environment.get("XDG_DATA_HOME") or Path(home, ".local/share"), "glovebox", "vscode")
