"""Posted servers on disk, for the next server of the box. They hold secrets: nobody else may read them."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence

import msgspec

from glovebox.box.mcp.servers import Server, parse_named
from glovebox.decoding import decode_json
from glovebox.errors import RequestError

log = logging.getLogger(__name__)


def write(path: str, servers: Sequence[Server]) -> None:
    """Remember servers. Blocks."""
    data = msgspec.json.encode({server.name: server for server in servers})
    fresh = f"{path}.new"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        os.replace(fresh, path)
    except OSError as error:
        log.warning("the list of MCP servers could not be written: %s", error)


def read(path: str) -> list[Server]:
    """The servers that were remembered, if any. Blocks."""
    try:
        with open(path, "rb") as file:
            return parse_named(decode_json(file.read()))
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError, RequestError) as error:
        log.warning("the list of MCP servers could not be read: %s", error)
        return []
