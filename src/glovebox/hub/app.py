"""The hub as an ASGI application: its own endpoints, the windows' sockets, and each window as a box."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from glovebox.errors import GloveboxError
from glovebox.http.faults import HANDLERS
from glovebox.http.responses import refused
from glovebox.hub.endpoints import hub_endpoints
from glovebox.hub.registry import WINDOWS
from glovebox.hub.windows import Windows
from glovebox.server.guard import KEY_HEADER, Guard
from glovebox.server.request_ids import RequestIds

SOCKETS = "/socket.io/"
_BEARER = b"bearer "


def create_hub_app(windows: Windows, sockets: ASGIApp, key: str) -> ASGIApp:
    """The application of a hub."""
    endpoints = hub_endpoints(windows)
    own = Starlette(
        routes=[Route(one.path, one.handle, methods=[one.method]) for one in endpoints],
        exception_handlers=HANDLERS,
    )
    inside = Doors(RequestIds(own), windows, sockets, key)
    return Bearer(Guard(inside, key=key, open_paths=[one.path for one in endpoints if one.open]))


class Bearer:
    """ASGI middleware that takes a bearer token for the key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Put the token where the key is looked for."""
        if scope["type"] in ("http", "websocket"):
            headers = dict(scope["headers"])
            shown = headers.get(b"authorization", b"")
            if KEY_HEADER.encode() not in headers and shown[: len(_BEARER)].lower() == _BEARER:
                scope = _with_key(scope, shown[len(_BEARER) :].strip())
        await self._app(scope, receive, send)


class Doors:
    """Hands a request, which has shown the key, to whom it is for."""

    def __init__(self, own: ASGIApp, windows: Windows, sockets: ASGIApp, key: str) -> None:
        self._own = own
        self._windows = windows
        self._sockets = sockets
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand it on."""
        path = scope.get("path", "")
        if path.startswith(SOCKETS):
            await self._sockets(scope, receive, send)
        elif path.startswith(f"{WINDOWS}/"):
            await self._window(scope, receive, send)
        else:
            await self._own(scope, receive, send)

    async def _window(self, scope: Scope, receive: Receive, send: Send) -> None:
        window_id = scope["path"].removeprefix(f"{WINDOWS}/").partition("/")[0]
        try:
            app = await self._windows.app(window_id)
        except GloveboxError as error:  # there is none, or it cannot be a box
            await refused(error)(scope, receive, send)
            return
        prefix = f"{WINDOWS}/{window_id}"
        # The key may have been shown in a way that the box does not know, or that is used up.
        scope = {
            **_with_key(scope, self._key),
            "path": scope["path"].removeprefix(prefix) or "/",
            "raw_path": scope.get("raw_path", b"").removeprefix(prefix.encode()) or b"/",
            "root_path": scope.get("root_path", "") + prefix,
        }
        await app(scope, receive, send)


def _with_key(scope: Scope, key: bytes) -> Scope:
    name = KEY_HEADER.encode()
    return {**scope, "headers": [*(pair for pair in scope["headers"] if pair[0] != name), (name, key)]}
