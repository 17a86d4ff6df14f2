"""Bounds for what a body may be: its size, and how deeply its JSON is nested."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glovebox.errors import TooDeep, TooLarge
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


class BodyLimit:
    """ASGI middleware that takes no larger bodies, except where files are uploaded."""

    def __init__(self, app: ASGIApp, *, most_bytes: int, uploads: Iterable[str] = ()) -> None:
        """`uploads` are paths that have a limit of their own."""
        self._app = app
        self._most = most_bytes
        self._uploads = frozenset(uploads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand it on, or refuse it before it is read."""
        if scope["type"] != "http" or scope["path"] in self._uploads:
            await self._app(scope, receive, send)
            return
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value) > self._most):
                await refused(self._too_large())(scope, receive, send)
                return
            if name == b"transfer-encoding":
                receive = self._counted(receive)
        await self._app(scope, receive, send)

    def _counted(self, receive: Receive) -> Receive:
        """The same with an end: of a body in pieces, the length is known once they are there."""
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._most:
                raise self._too_large()
            return message

        return counted

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body has more than {self._most:,} bytes.")
