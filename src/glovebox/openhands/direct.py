"""Requests to a box on this machine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from glovebox.openhands.api import HttpSession, http_client

if TYPE_CHECKING:
    from glovebox.openhands.api import HttpClient

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class DirectSession(HttpSession):
    """A session that no proxy gets to see.

    OpenHands' own one obeys HTTP_PROXY even for this machine, and a proxy cannot reach a loopback address.
    """

    def request(self, *args: Any, **kwargs: Any) -> Any:
        """One request and its answer."""
        return _client().request(*args, **self._with_headers(kwargs))

    def stream(self, *args: Any, **kwargs: Any) -> AbstractContextManager[Any]:
        """One request whose answer is read piece by piece."""
        return _client().stream(*args, **self._with_headers(kwargs))

    def _with_headers(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {**kwargs, "headers": {**self.headers, **(kwargs.get("headers") or {})}}


def is_loopback(url: str) -> bool:
    """Whether this machine is meant, and no other."""
    return urlsplit(url).hostname in LOOPBACK


@cache
def _client() -> HttpClient:
    # One for all sessions, as OpenHands has it: a session that was closed can still be used.
    return http_client(trust_env=False)
