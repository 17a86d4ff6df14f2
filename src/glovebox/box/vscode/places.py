"""Where a VS Code server is, and what one looks like from outside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from glovebox.protocol.base import Message

#: In every VS Code server: what node runs, and the node that some bring.
MAIN = Path("out", "server-main.js")
NODE = "node"
#: In those that `glovebox vscode install` made: what they are made of.
RECORD = "glovebox.json"
#: Nodes below it cannot load the servers that are installed.
LEAST_NODE = (22, 15)


class Installed(Message):
    """What `glovebox vscode install` has noted of a server."""

    #: The npm package that it comes from.
    version: str
    #: What node was there before it, if that one is used.
    node: str = ""


def installed_at(environment: Mapping[str, str]) -> Path:
    """Where a user's VS Code server is installed."""
    home = environment.get("HOME") or str(Path.home())
    return Path(environment.get("XDG_DATA_HOME") or Path(home, ".local/share"), "glovebox", "vscode")
