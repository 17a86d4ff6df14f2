"""Posted servers on disk, for the next server of the box. They hold secrets: nobody else may read them."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

import msgspec

from glovebox.box.mcp.servers import Server, parse_named
from glovebox.decoding import decode_json
from glovebox.errors import RequestError
from glovebox.state_files import read_document, write_document

log = logging.getLogger(__name__)


def write(path: str, servers: Sequence[Server]) -> None:
    """Remember servers. Blocks."""
    try:
        write_document(path, msgspec.json.encode({server.name: server for server in servers}))
    except OSError as error:
        log.warning("the list of MCP servers could not be written: %s", error)


def read(path: str) -> list[Server]:
    """The servers that were remembered, if any. Blocks."""
    return read_document(path, os.path.dirname(path), _decode) or []


def _decode(data: bytes) -> list[Server]:
    try:
        return parse_named(decode_json(data))
    except RequestError as error:
        raise ValueError(str(error)) from error
