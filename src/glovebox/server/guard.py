"""Who may speak to the box: the key, and against web pages in a user's browser, what browsers say of them.

A page can make a browser send requests to a box on loopback, directly or by letting its own name
resolve to 127.0.0.1. It cannot know the key, so with the right key nothing else is checked. Without a
key, the Host must be a name no page can own, and an Origin must be the box's own or a configured one. Some
requests of pages have no Origin; what browsers call cross-site must have one.

A page cannot give a WebSocket headers. So there the key may also be in the query, or in the first message.

A browser that has logged in shows a cookie in place of the key. Browsers also send it when a page of another
port of this host made the request, so what they say of the page is checked as strictly as without a key.
"""

from __future__ import annotations

import asyncio
import fnmatch
import functools
import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.datastructures import Headers
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glovebox.errors import HostNotAllowed, InvalidKey, NotFound, OriginNotAllowed, RequestError
from glovebox.http.responses import error_response
from glovebox.json_codec import decode_json
from glovebox.server.connection import CONNECTION
from glovebox.server.logins import Logins

KEY_HEADER = "x-session-api-key"
KEY_PARAMETER = "session_api_key"
#: The code a WebSocket is closed with when its first message does not show the key, and how long it has.
WRONG_KEY = 4403
KEY_SECONDS = 10.0
#: What a browser says of a request that it was not a page of the box that made it.
FOREIGN = frozenset({"cross-site", "same-site"})
#: Endings that are never public names: mDNS, container engines, clusters.
LOCAL_SUFFIXES = (
    ".localhost", ".local", ".internal", ".docker", ".svc", ".cluster.local", ".lan", ".home.arpa",
)  # fmt: skip


class Guard:
    """ASGI middleware that lets a request through or answers 403.

    Probes and dashboards ask `open_paths` without a key; these reveal no secret and change nothing.
    At `bearer_paths` the key may be a bearer token instead. WebSockets are opened at `socket_paths` only.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        key: str,
        open_paths: Iterable[str] = (),
        bearer_paths: Iterable[str] = (),
        socket_paths: Iterable[str] = (),
        allowed_hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        logins: Logins | None = None,
    ) -> None:
        self._app = app
        self._logins = logins
        self._open_paths = frozenset(open_paths)
        self._bearer_paths = frozenset(bearer_paths)
        self._socket_paths = [compile_path(path)[0] for path in socket_paths]
        self._key = key.encode()
        self._allowed_hosts = tuple(host.lower() for host in allowed_hosts)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self._own_name = socket.gethostname().lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        is_open = kind == "http" and scope["path"] in self._open_paths
        if is_open or kind not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if self._key and scope["type"] == "websocket" and KEY_HEADER not in headers:
            given, scope = _key_of_query(scope)
            is_logged_in = given is None and self._is_logged_in(headers)
            if given is None and not is_logged_in and self._is_socket(scope):
                await self._ask_for_key(scope, receive, send)
                return
            refused = _refuse_page(headers, reads=False) if is_logged_in else self._wrong(given or "")
        else:
            refused = self._refuse(headers, bearer=scope["path"] in self._bearer_paths)
            if refused is not None and self._is_logged_in(headers):
                refused = _refuse_page(headers, reads=scope["method"] in ("GET", "HEAD"))
        if refused is None:
            await self._let_in(scope, receive, send)
        else:
            await error_response(403, refused)(scope, receive, send)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = scope["state"].get(CONNECTION) if "state" in scope else None
        if connection is not None:
            connection.accept_caller()
        if scope["type"] == "websocket" and not self._is_socket(scope):
            await error_response(404, NotFound("Not Found"))(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_socket(self, scope: Scope) -> bool:
        return any(path.match(scope["path"]) for path in self._socket_paths)

    async def _ask_for_key(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a WebSocket whose first message has to show the key, before anything else is looked at."""
        await receive()
        await send({"type": "websocket.accept"})
        try:
            async with asyncio.timeout(KEY_SECONDS):
                first = await receive()
        except TimeoutError:
            first = {}
        if first.get("type") == "websocket.disconnect":
            return
        if self._wrong(_key_of_message(first)):
            await send({"type": "websocket.close", "code": WRONG_KEY, "reason": "Invalid API Key"})
            return
        opened = False

        async def receive_opened() -> Message:
            nonlocal opened
            if opened:
                return await receive()
            opened = True
            return {"type": "websocket.connect"}

        async def send_opened(message: Message) -> None:
            if message["type"] != "websocket.accept":
                await send(message)

        await self._let_in(scope, receive_opened, send_opened)

    def _is_logged_in(self, headers: Headers) -> bool:
        if not self._key or self._logins is None or KEY_HEADER in headers:
            return False
        return self._logins.knows(headers.get("cookie", ""))

    def _wrong(self, given: str) -> RequestError | None:
        right = hmac.compare_digest(given.encode("utf-8", "replace"), self._key)
        return None if right else InvalidKey("Invalid API Key")

    def _refuse(self, headers: Headers, *, bearer: bool = False) -> RequestError | None:
        if self._key:
            shown = headers.get(KEY_HEADER, "")
            if bearer and not shown:
                shown = headers.get("authorization", "").removeprefix("Bearer ").strip()
            given = shown.encode("latin-1")
            return None if hmac.compare_digest(given, self._key) else InvalidKey("Invalid API Key")
        host = host_name(headers.get("host", ""))
        if host is None or not self._is_ours(host):
            return HostNotAllowed(
                f"This box does not answer to the host name {headers.get('host', '')!r}. Call it by its "
                "address, start it with a SESSION_API_KEY, or add the name with --allowed-hosts."
            )
        origin = headers.get("origin")
        if origin is None:
            foreign = headers.get("sec-fetch-site", "").lower() in FOREIGN
            return OriginNotAllowed("Pages of other sites may not call this box.") if foreign else None
        if not self._may_call(origin, headers["host"]):
            return OriginNotAllowed(
                f"Pages of {origin} may not call this box. Add the origin with --cors-origins to allow it."
            )
        return None

    def _is_ours(self, host: str) -> bool:
        if host == self._own_name or is_address(host) or host.endswith(LOCAL_SUFFIXES):
            return True
        if "." not in host:  # localhost, container and service names: no public name is one word
            return True
        return any(fnmatch.fnmatchcase(host, pattern) for pattern in self._allowed_hosts)

    def _may_call(self, origin: str, host: str) -> bool:
        if origin.rstrip("/").lower() in self._origins or "*" in self._origins:
            return True
        return _is_own(origin, host)


def _is_own(origin: str, host: str) -> bool:
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _refuse_page(headers: Headers, *, reads: bool) -> RequestError | None:
    """Whether a request with a cookie was not made by a page of this box, or by a person who reads one."""
    origin = headers.get("origin")
    own = reads if origin is None else _is_own(origin, headers.get("host", ""))
    if own and headers.get("sec-fetch-site", "").lower() not in FOREIGN:
        return None
    return OriginNotAllowed("Only pages of this box may call it with the cookie of a login.")


def _key_of_query(scope: Scope) -> tuple[str | None, Scope]:
    """The key in the query, and the scope without it, so that it is not logged."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    given = next((value for name, value in query if name == KEY_PARAMETER), None)
    rest = urlencode([pair for pair in query if pair[0] != KEY_PARAMETER])
    return given, {**scope, "query_string": rest.encode("latin-1")}


def _key_of_message(message: Message) -> str:
    """The key in `{"type": "key", "key": "..."}`; empty if that is not what the message says."""
    try:
        said = decode_json(message.get("text") or "", dict[str, str])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""
    return said.get("key", "") if said.get("type") == "key" else ""


#: A name or an IPv4 address, or an IPv6 address in brackets; then perhaps a port.
_AUTHORITY = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::[0-9]{0,5})?")


@functools.lru_cache(maxsize=16)
def host_name(authority: str) -> str | None:
    """The host of `host:port`, lower-cased and without a last dot; None if there is none."""
    found = _AUTHORITY.fullmatch(authority.lower())
    if found is None:
        return None
    if found["ipv6"]:
        return found["ipv6"] if is_address(found["ipv6"]) else None
    return found["name"].removesuffix(".") or None


@functools.lru_cache(maxsize=16)
def is_address(host: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
