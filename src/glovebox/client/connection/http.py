"""The HTTP connection to a box: deadlines, typed errors, and retries where they are safe."""

from __future__ import annotations

import asyncio
import contextlib
import io
import ipaddress
import os
import socket
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from glovebox import __version__
from glovebox.client.backend import Address
from glovebox.client.connection.answers import ERROR_HEADER, error_of
from glovebox.client.connection.retry import PATIENCE, Lost, Patience
from glovebox.errors import (
    BadAnswer,
    BoxUnreachable,
    ClientError,
    DeadlineExceeded,
    GloveboxError,
    NotConnected,
)

#: The largest response in memory: a box must not exhaust its host.
MOST_BYTES = 256 << 20
#: Seconds of silence after which a stream is dead: a box sends something every 15.
SILENCE = 50.0
_CONNECT_LIMIT = 10.0
#: The answers of proxies that do not reach the box, or do not wait long enough.
_TEMPORARY = frozenset({429, 502, 503, 504})
_REPEATABLE = frozenset({"GET", "HEAD"})
_PIECE = 262_144


class Connection:
    """The client of one box, for one event loop; any number of requests may run at once."""

    def __init__(self, address: Address, *, patience: float = PATIENCE) -> None:
        self.address = address
        self.patience = patience
        self._session = aiohttp.ClientSession(
            # No limit: a stream holds its connection for as long as it is followed.
            connector=aiohttp.TCPConnector(limit=0, socket_factory=_socket),
            # Deadlines are set per call, and the box gets no cookies of the client.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_LIMIT),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A proxy is for reaching other machines.
            trust_env=not is_loopback(address.url),
            auto_decompress=False,
            headers={"User-Agent": f"glovebox/{__version__}", "Accept-Encoding": "identity"},
        )

    def move(self, address: Address) -> None:
        """Use another address, also for the retries of running requests."""
        self.address = address

    async def close(self) -> None:
        """Abort running requests, and close all connections. Idempotent."""
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        limit: float | None = 60.0,
        repeatable: bool | None = None,
    ) -> bytes:
        """The body of the response, within `limit` seconds.

        Requests that only read, or that are `repeatable`, are retried when the connection breaks, others only
        if nothing was sent.

        Raises:
            GloveboxError: the box refused, or did not answer in time; its class says why.
        """
        patience = Patience(self.patience, None if limit is None else time.monotonic() + limit)
        if repeatable is None:
            repeatable = method in _REPEATABLE
        async with deadline(limit, f"{method} {path} was not answered within {limit or 0:g} seconds."):
            while True:
                try:
                    return await self.once(method, path, query=query, body=body, headers=headers)
                except Lost as lost:
                    if lost.sent and not repeatable:
                        raise
                    await patience.wait(lost)

    async def once(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """One attempt without a deadline.

        Raises:
            Lost: the connection failed or broke.
            GloveboxError: the box refused.
        """
        response = await self.open(method, path, query=query, body=body, headers=headers)
        try:
            with self._broken():
                return await _read(response)
        finally:
            response.release()

    async def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        silence: float | None = None,
    ) -> aiohttp.ClientResponse:
        """A successful response, to be read with `piece` and released.

        `silence` is the most seconds between two pieces.

        Raises:
            Lost: the connection failed or broke.
            GloveboxError: the box refused.
        """
        sent = dict(headers or {})
        if self.address.key:
            sent["X-Session-API-Key"] = self.address.key
        if isinstance(body, bytes):
            sent.setdefault("Content-Type", "application/json")
            if len(body) > _PIECE:  # is sent in pieces, so that the loop is not blocked
                body = io.BytesIO(body)
        with self._broken():
            response = await self._session.request(
                method,
                self.address.url.rstrip("/") + path,
                params=query,
                data=body,
                headers=sent,
                # A redirect would send the key to another host.
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_LIMIT, sock_read=silence),
            )
        if response.status < 300:
            return response
        try:
            with self._broken():
                raise self._refusal(response, await _read(response))
        finally:
            response.release()  # which closes the connection unless all was read

    async def upload(
        self, path: str, *, query: Mapping[str, str] | None, form: aiohttp.FormData, limit: float
    ) -> bytes:
        """Send a form in pieces, without retries; the body of the response.

        Raises:
            GloveboxError: the box refused, or did not take it in time; its class says why.
        """
        async with deadline(limit, f"POST {path} was not answered within {limit:g} seconds."):
            return await self.once("POST", path, query=query, body=form)

    async def download(
        self, path: str, *, query: Mapping[str, str] | None, limit: float
    ) -> AsyncGenerator[bytes, None]:
        """The body of a response, in pieces.

        Raises:
            GloveboxError: the box refused, or did not send all in time; its class says why.
        """
        end = time.monotonic() + limit
        late = f"GET {path} was not answered within {limit:g} seconds."
        async with deadline(limit, late):
            response = await self._open_retrying(path, query, Patience(self.patience, end))
        try:
            while True:
                async with deadline(end - time.monotonic(), late):
                    piece = await self.piece(response)
                if not piece:
                    return
                yield piece
        finally:
            response.release()

    async def _open_retrying(
        self, path: str, query: Mapping[str, str] | None, patience: Patience
    ) -> aiohttp.ClientResponse:
        while True:
            try:
                return await self.open("GET", path, query=query)
            except Lost as lost:
                await patience.wait(lost)

    async def piece(self, response: aiohttp.ClientResponse) -> bytes:
        """The next bytes of a response; none at the end.

        Raises:
            Lost: the connection broke.
        """
        with self._broken():
            return await response.content.readany()

    def _refusal(self, response: aiohttp.ClientResponse, body: bytes) -> GloveboxError:
        status = response.status
        if status in _TEMPORARY and ERROR_HEADER not in response.headers:
            return Lost(f"The box at {self.shown} is not reached: {status} {response.reason}", sent=True)
        if status < 400:
            return BadAnswer(f"{self.shown} sends its callers elsewhere ({status}): it is not a box.")
        return error_of(status, response.headers, body)

    @property
    def shown(self) -> str:
        """The address without a password."""
        parts = urlsplit(self.address.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @contextlib.contextmanager
    def _broken(self) -> Iterator[None]:
        """Turn exceptions of the library into ours."""
        try:
            yield
        except aiohttp.InvalidURL as error:
            raise BadAnswer(f"{self.shown} is not an address.") from error
        except aiohttp.ClientSSLError as error:  # a retry would not change it
            raise BoxUnreachable(f"The box at {self.shown} cannot be trusted: {error}") from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise self._lost(error, sent=False) from error
        except aiohttp.ClientHttpProxyError as error:
            raise self._lost(error, sent=False) from error
        except aiohttp.ClientResponseError as error:  # not even HTTP
            raise BadAnswer(f"What answers at {self.shown} is not a box: {error.message}") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise self._lost(error, sent=True) from error
        except RuntimeError as error:
            if not self._session.closed:
                raise
            raise NotConnected("The runtime is closed.") from error

    def _lost(self, error: Exception, *, sent: bool) -> ClientError:
        if self._session.closed:
            return NotConnected("The runtime was closed while this was under way.")
        why = connect_problem(error) or type(error).__name__
        return Lost(f"The box at {self.shown} does not answer: {why}", sent=sent)


def connect_problem(error: Exception) -> str:
    """Why a connection failed, in the system's words, which asyncio replaces by the address."""
    cause = getattr(error, "os_error", None)
    return os.strerror(cause.errno) if cause and (cause.errno or 0) > 0 else str(cause or error)


@contextlib.asynccontextmanager
async def deadline(seconds: float | None, message: str) -> AsyncGenerator[None, None]:
    """Limit the time of a block, unless it has none.

    Raises:
        DeadlineExceeded: it took longer.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except DeadlineExceeded:
        raise
    except TimeoutError as error:
        raise DeadlineExceeded(message) from error


def is_loopback(url: str) -> bool:
    """Whether an address is one of this machine itself."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """A whole body, up to a limit."""
    length = response.content_length
    if length is not None and length <= _PIECE:
        return await response.read()
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > MOST_BYTES:
            raise BadAnswer(f"An answer of more than {MOST_BYTES >> 20} MB is not taken.")
    return bytes(data)


def _socket(info: aiohttp.AddrInfoType) -> socket.socket:
    """A socket with keep-alive, which notices that the other machine is gone."""
    family, kind, protocol, _, _ = info
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
