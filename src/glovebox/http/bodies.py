"""Bounds for what a body may be: its size, and how deeply its JSON is nested."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from glovebox.errors import TooDeep, TooLarge
from glovebox.http.endpoints import Handle
from glovebox.http.responses import refused

#: No message of the box is nested so deeply, and everything here can follow it so far.
DEEPEST = 200
_DECODER = msgspec.json.Decoder()


def check_depth(data: bytes, value: Any) -> None:
    """That JSON is not nested too deeply, by its text and the lists and dictionaries that it became.

    Raises:
        TooDeep: it is.
    """
    if data.count(b"[") + data.count(b"{") <= DEEPEST:  # which nearly all are
        return
    level = [value]
    for _ in range(DEEPEST):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise too_deep()


async def json_body(request: Request) -> Any:
    """What the body of a request says; raises what `decode_json` does."""
    return decode_json(await request.body())


def decode_json(data: bytes) -> Any:
    """What JSON says, as lists and dictionaries.

    Raises:
        TooDeep: it is nested too deeply.
        msgspec.DecodeError: it is not JSON; or UnicodeDecodeError.
    """
    try:
        value = _DECODER.decode(data)
    except RecursionError:
        raise too_deep() from None
    check_depth(data, value)
    return value


def too_deep() -> TooDeep:
    """What is said of JSON that cannot be followed."""
    return TooDeep(f"The JSON is nested more than {DEEPEST} levels deep.")


def limited(handle: Handle, most_bytes: int) -> Handle:
    """The same endpoint, which takes no larger bodies."""

    def too_large() -> TooLarge:
        return TooLarge(f"The body has more than {most_bytes:,} bytes.")

    def counted(receive: Receive) -> Receive:
        """The same with an end: of a body in pieces, the length is known once they are there."""
        received = 0

        async def counted_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most_bytes:
                raise too_large()
            return message

        return counted_receive

    async def limited_handle(request: Request) -> Response:
        for name, value in request.scope["headers"]:
            if name == b"content-length" and int(value) > most_bytes:
                return refused(too_large())
            if name == b"transfer-encoding":
                request = Request(request.scope, counted(request.receive))
        return await handle(request)

    return limited_handle
