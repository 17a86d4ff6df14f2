"""The client of Docker Engine and Podman: requests, streams, and where engines are found.

Written by hand because importing aiodocker takes 350 ms, longer than starting a box.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

import msgspec

from glovebox.backends.docker import wire
from glovebox.errors import BackendError, EngineUnavailable
from glovebox.json_codec import decode_json
from glovebox.settings.host import HostSettings

if TYPE_CHECKING:
    import aiohttp

AnswerT = TypeVar("AnswerT")
#: Seconds for the answer to a ping and to other requests; an engine is slow under load.
GREETING_LIMIT = 5.0
_ANSWER_LIMIT = 300.0


class EngineRefused(BackendError):
    """The engine answered with an error; the text is the engine's own."""

    code: ClassVar[str] = BackendError.code

    def __init__(self, status_code: int, words: str) -> None:
        super().__init__(words)
        self.status_code = status_code


class Engine:
    """A container engine that answers."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base: str,
        where: str,
        host: str = "",
        *,
        is_remote: bool = False,
    ) -> None:
        self._session = session
        self._base = base
        #: As it is written in DOCKER_HOST.
        self.where = where
        #: The name of its machine, empty for this one.
        self.host = host
        self.is_remote = is_remote
        #: Whether it is Podman, which answers as Docker does; known after `greet`.
        self.is_podman = False

    async def greet(self, limit: float) -> None:
        """Check that it answers in `limit` seconds, and whether it is Podman.

        Its version would take ten times as long.

        Raises:
            EngineRefused, EngineUnavailable: no engine answers.
        """
        async with self.stream("GET", "/_ping", limit=limit) as answer:
            await answer.read()
        if "Api-Version" not in answer.headers:
            raise EngineUnavailable("what answers there is not a container engine")
        self.is_podman = "Libpod-API-Version" in answer.headers

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        limit: float | None = _ANSWER_LIMIT,
    ) -> bytes:
        """The body of a response; `body` is sent as JSON.

        Raises:
            EngineRefused: the answer is an error.
            EngineUnavailable: there is no answer.
        """
        data = None if body is None else msgspec.json.encode(body)
        async with self.stream(method, path, query=query, data=data, limit=limit) as answer:
            return await answer.read()

    async def get(self, kind: type[AnswerT], path: str, *, query: Mapping[str, str] | None = None) -> AnswerT:
        """The decoded response to a GET."""
        return decode(kind, await self.request("GET", path, query=query))

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        data: Any = None,
        kind: str = "application/json",
        limit: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A response to be read in pieces. It is closed at the end."""
        import aiohttp

        try:
            async with self._session.request(
                method,
                f"{self._base}{path}",
                params=query,
                data=data,
                headers={"Content-Type": kind},
                timeout=aiohttp.ClientTimeout(total=limit),
            ) as answer:
                if answer.status >= 400:
                    raise EngineRefused(answer.status, _words(await answer.read()))
                yield answer
        except TimeoutError as error:
            raise EngineUnavailable(
                f"The engine at {self.where} did not answer {method} {path} within {limit or 0:g} seconds."
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise EngineUnavailable(
                f"The engine at {self.where} broke off: {error}. Is it still running?"
            ) from error

    async def steps(
        self, path: str, *, query: Mapping[str, str], data: Any = None, kind: str = "application/json"
    ) -> AsyncIterator[wire.ProgressLine]:
        """The progress lines of a long operation."""
        async with self.stream("POST", path, query=query, data=data, kind=kind) as answer:
            rest = b""
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in filter(bytes.strip, lines):
                    yield decode(wire.ProgressLine, line)
            if rest.strip():
                yield decode(wire.ProgressLine, rest)

    async def close(self) -> None:
        await self._session.close()


def decode(kind: type[AnswerT], answer: bytes) -> AnswerT:
    """Decode a response.

    Raises:
        BackendError: it is something else.
    """
    try:
        return decode_json(answer, kind)
    except msgspec.DecodeError as error:
        raise BackendError(f"The engine's answer is not understood ({error}): {answer[:200]!r}") from error


def _words(answer: bytes) -> str:
    try:
        return decode_json(answer, wire.EngineError).message.strip()
    except msgspec.DecodeError:
        return answer.decode(errors="replace").strip()


async def open_engine(settings: HostSettings, limit: float = GREETING_LIMIT) -> Engine:
    """The engine of the settings, or else the first that answers in the usual places.

    Raises:
        EngineUnavailable: none does; the text says what was tried and what to do.
    """
    refusals: list[tuple[str, BaseException]] = []
    for where in places(settings):
        if _is_missing(where):  # known without loading the HTTP client
            refusals.append((where, FileNotFoundError()))
            continue
        engine = _connection(where, settings)
        try:
            async with AsyncExitStack() as unfinished:
                unfinished.push_async_callback(engine.close)
                await engine.greet(limit)
                unfinished.pop_all()
                return engine
        except (EngineUnavailable, EngineRefused) as error:
            refusals.append((where, error.__cause__ or error))
    raise EngineUnavailable(_advice(refusals, settings))


def places(settings: HostSettings) -> list[str]:
    """Addresses where an engine may answer: that of DOCKER_HOST, or the usual ones."""
    if settings.engine:
        return [settings.engine]
    paths = ["/var/run/docker.sock"]
    if own := settings.environment.get("XDG_RUNTIME_DIR"):
        paths += [f"{own}/docker.sock", f"{own}/podman/podman.sock"]
    paths += ["/run/podman/podman.sock", f"{settings.home}/.docker/run/docker.sock"]
    return [f"unix://{path}" for path in paths]


def _is_missing(where: str) -> bool:
    return where.startswith("unix://") and not os.path.exists(where.removeprefix("unix://"))


def _connection(where: str, settings: HostSettings) -> Engine:
    """The client of an address as in DOCKER_HOST; nothing is sent yet."""
    import aiohttp

    address = urlsplit(where)
    here = settings.environment.get("DOCKER_HOST_ADDR", "")
    connector: aiohttp.BaseConnector
    if address.scheme == "unix":
        # No limit: each log that is followed holds a connection.
        connector = aiohttp.UnixConnector(where.removeprefix("unix://"), limit=0)
        return Engine(aiohttp.ClientSession(connector=connector), "http://engine", where, here)
    if address.scheme in ("tcp", "http", "https") and address.hostname:
        secure = _is_secure(where, settings)
        connector = aiohttp.TCPConnector(limit=0, ssl=_certificates(settings) if secure else True)
        base = f"{'https' if secure else 'http'}://{address.netloc}"
        is_remote = address.hostname not in ("127.0.0.1", "localhost", "::1")
        host = here or (address.hostname if is_remote else "")
        return Engine(aiohttp.ClientSession(connector=connector), base, where, host, is_remote=is_remote)
    raise EngineUnavailable(
        f"DOCKER_HOST is {where!r}, which is not supported. Use unix:///path/of/docker.sock or "
        "tcp://host:port. An engine behind SSH is reached with: "
        "ssh -N -L /tmp/engine.sock:/var/run/docker.sock user@host"
    )


def _is_secure(where: str, settings: HostSettings) -> bool:
    """Whether TLS is used for an address; never for a socket."""
    verify = settings.environment.get("DOCKER_TLS_VERIFY", "") not in ("", "0")
    return where.startswith("https:") or (verify and not where.startswith("unix:"))


def _certificate_directory(settings: HostSettings) -> Path:
    return Path(settings.environment.get("DOCKER_CERT_PATH") or f"{settings.home}/.docker")


def _certificates(settings: HostSettings) -> ssl.SSLContext:
    """The certificates, where Docker's own client looks for them."""
    directory = _certificate_directory(settings)
    files = [directory / name for name in ("ca.pem", "cert.pem", "key.pem")]
    authority, certificate, key = files
    try:
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certificate, key)
    except OSError as error:
        # The error does not say which file it is about.
        missing = ", ".join(file.name for file in files if not file.exists())
        why = f"{missing} not found" if missing else error
        raise EngineUnavailable(
            f"The certificates for {settings.engine} cannot be read in {directory}: {why}. "
            "DOCKER_CERT_PATH names the directory that has ca.pem, cert.pem and key.pem."
        ) from error
    return context


def _advice(refusals: list[tuple[str, BaseException]], settings: HostSettings) -> str:
    tried = "\n".join(f"  {where}: {_reason(error)}" for where, error in refusals)
    causes = [(where, getattr(error, "os_error", error)) for where, error in refusals]
    if any(isinstance(cause, PermissionError) for _, cause in causes):
        advice = (
            "You may not use the engine's socket. Join its group (sudo usermod -aG docker $USER, then log in "
            "again), or use rootless Podman (systemctl --user start podman.socket)."
        )
    else:
        advice = next(filter(None, (_about_tls(*one, settings) for one in causes)), "") or (
            "Start Docker (sudo systemctl start docker) or Podman (systemctl --user start podman.socket), or "
            "say where it is: DOCKER_HOST=unix:///path/of/docker.sock. Without an engine, use the backend "
            "process."
        )
    return f"No container engine answers. Tried:\n{tried}\n{advice}"


def _about_tls(where: str, cause: BaseException, settings: HostSettings) -> str:
    """Advice if TLS is the problem; else empty."""
    directory = _certificate_directory(settings)
    if isinstance(cause, EngineRefused) and "HTTPS server" in str(cause):
        return (
            "It wants TLS: set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the directory that has ca.pem, "
            "cert.pem and key.pem."
        )
    if not _is_secure(where, settings):
        return ""
    import aiohttp

    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"Its certificate is not trusted: {directory}/ca.pem has to be that of the authority that signed "
            "it, and DOCKER_HOST has to name the engine as the certificate does."
        )
    if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
        return "It does not speak TLS: unset DOCKER_TLS_VERIFY, or use its port for TLS."
    # Engines refuse after the handshake, and rarely say why.
    if isinstance(cause, (ssl.SSLError, aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
        return (
            f"It may not know the certificate of this client: {directory}/cert.pem has to be signed by an "
            "authority that the engine trusts (its --tlscacert)."
        )
    return ""


def _reason(error: BaseException) -> str:
    cause = getattr(error, "os_error", error)
    if isinstance(cause, FileNotFoundError):
        return "there is no such socket"
    if isinstance(cause, PermissionError):
        return "permission denied"
    if isinstance(cause, ConnectionRefusedError):
        return "nothing listens there"
    return str(cause) or type(cause).__name__
