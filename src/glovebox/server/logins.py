"""Logins of web browsers: a link with a token that works once, exchanged for a cookie.

A person who opens a page cannot send the key as a header. The token is in an address, which ends up
in histories; so it is worth nothing once it was used.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict

from starlette.requests import Request, cookie_parser
from starlette.responses import RedirectResponse, Response

from glovebox.errors import InvalidKey
from glovebox.http.endpoints import Endpoint, Parameter, Reply
from glovebox.http.responses import ErrorBody, error_response, json_response
from glovebox.protocol.base import Message

PATH = "/login"
#: The page that a browser is sent to after it has logged in.
_HOME = "/docs"
_TOKENS = 16
_COOKIES = 64
_TOKEN_SECONDS = 3600.0
_COOKIE_SECONDS = 12 * 3600
_REFUSED = "This link is not valid: it works once, and for an hour. For another one, run: glovebox open"


class LoginLink(Message):
    """The path, with its query, that logs a browser in."""

    path: str


class _Secrets:
    """Random texts that are valid for a while, of which only hashes are kept. The oldest make room."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._valid_until: OrderedDict[bytes, float] = OrderedDict()

    def make(self) -> str:
        secret = secrets.token_urlsafe(32)
        self._valid_until[_hash(secret)] = time.monotonic() + self._seconds
        if len(self._valid_until) > self._most:
            self._valid_until.popitem(last=False)
        return secret

    def knows(self, secret: str) -> bool:
        return self._valid_until.get(_hash(secret), 0.0) > time.monotonic()

    def use_up(self, secret: str) -> bool:
        """Whether it was valid; it is not any more."""
        return self._valid_until.pop(_hash(secret), 0.0) > time.monotonic()


class Logins:
    """The tokens of links, and the cookies of browsers that have used one."""

    def __init__(self) -> None:
        # Browsers send a cookie to every port of a host, so each server has a name of its own.
        self._cookie_name = f"glovebox_{secrets.token_hex(8)}"
        self._tokens = _Secrets(_TOKENS, _TOKEN_SECONDS)
        self._cookies = _Secrets(_COOKIES, _COOKIE_SECONDS)

    def make_path(self) -> str:
        """The path of a new link."""
        return f"{PATH}?token={self._tokens.make()}"

    def knows(self, cookies: str) -> bool:
        """Whether a `Cookie` header has one of this server's cookies."""
        return self._cookie_name in cookies and self._cookies.knows(
            cookie_parser(cookies).get(self._cookie_name, "")
        )

    def endpoints(self) -> list[Endpoint]:
        token = Parameter("token", {"type": "string"}, "The token of the link.", required=True)
        return [
            Endpoint(
                "GET", PATH, self._log_in, "Log a browser in, with a token that works once",
                {303: Reply("The cookie; the browser goes on to the page of this API.", {"type": "string"}),
                 403: Reply("There is no such token any more.", ErrorBody)},
                parameters=(token,), open=True,
            ),
            Endpoint(
                "POST", f"{PATH}/links", self._make_link, "Make a link that logs a browser in",
                {201: Reply("The link.", LoginLink)},
            ),
        ]  # fmt: skip

    async def _make_link(self, request: Request) -> Response:
        return json_response(LoginLink(path=self.make_path()), 201)

    async def _log_in(self, request: Request) -> Response:
        if not self._tokens.use_up(request.query_params.get("token", "")):
            return error_response(403, InvalidKey(_REFUSED))
        root = request.scope.get("root_path", "")
        response = RedirectResponse(root + _HOME, 303, {"Cache-Control": "no-store"})
        response.set_cookie(
            self._cookie_name,
            self._cookies.make(),
            max_age=_COOKIE_SECONDS,
            path=root or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
