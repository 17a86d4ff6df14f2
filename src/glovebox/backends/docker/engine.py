"""The connection to Docker Engine or Podman: one question at a time, and streams."""

from __future__ import annotations

import contextlib
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
#: Seconds until an engine has to say that it is there, and until it has to answer: it is slow under load.
_GREETING_LIMIT = 5.0
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
        #: By what name its machine is reached, empty if that is this one.
        self.host = host
        self.is_remote = is_remote
        #: Whether it is Podman that answers as Docker would; known once it was greeted.
        self.is_podman = False

    async def greet(self) -> None:
        """See that it is there, and what it is. To be told its version would take ten times as long.

        Raises:
            EngineRefused, EngineUnavailable: there is none.
        """
        async with self.streaming("GET", "/_ping", limit=_GREETING_LIMIT) as answer:
            await answer.read()
        if "Api-Version" not in answer.headers:
            raise EngineUnavailable("what answers there is not a container engine")
        self.is_podman = "Libpod-API-Version" in answer.headers

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        limit: float | None = _ANSWER_LIMIT,
    ) -> bytes:
        """The answer to one question; `body` is sent as JSON.

        Raises:
            EngineRefused: the answer is an error.
            EngineUnavailable: there is no answer.
        """
        data = None if body is None else msgspec.json.encode(body)
        async with self.streaming(method, path, query=query, data=data, limit=limit) as answer:
            return await answer.read()

    async def get(self, kind: type[AnswerT], path: str, *, query: Mapping[str, str] | None = None) -> AnswerT:
        """The answer to a GET, as what it is known to be."""
        return decoded(kind, await self.ask("GET", path, query=query))

    @contextlib.asynccontextmanager
    async def streaming(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        data: Any = None,
        kind: str = "application/json",
        limit: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that is read as it comes. It is closed at the end, read or not."""
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
        """What the engine tells of a long piece of work, line by line."""
        async with self.streaming("POST", path, query=query, data=data, kind=kind) as answer:
            rest = b""
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in filter(bytes.strip, lines):
                    yield decoded(wire.ProgressLine, line)
            if rest.strip():
                yield decoded(wire.ProgressLine, rest)

    async def close(self) -> None:
        """Let go of the connections. Idempotent."""
        await self._session.close()


def decoded(kind: type[AnswerT], answer: bytes) -> AnswerT:
    """An answer as what it is known to be.

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


async def open_engine(settings: HostSettings) -> Engine:
    """The engine that the settings name, or else the first that answers where engines usually are.

    Raises:
        EngineUnavailable: none does; the text says what was tried and what to do.
    """
    refusals = []
    for where in [settings.engine] if settings.engine else _usual_places(settings):
        engine = _connection(where, settings)
        try:
            async with AsyncExitStack() as unfinished:
                unfinished.push_async_callback(engine.close)
                await engine.greet()
                unfinished.pop_all()
                return engine
        except (EngineUnavailable, EngineRefused) as error:
            refusals.append((where, error.__cause__ or error))
    raise EngineUnavailable(_advice(refusals, settings))


def _usual_places(settings: HostSettings) -> list[str]:
    places = ["/var/run/docker.sock"]
    if own := settings.environment.get("XDG_RUNTIME_DIR"):
        places += [f"{own}/docker.sock", f"{own}/podman/podman.sock"]
    places += ["/run/podman/podman.sock", f"{settings.home}/.docker/run/docker.sock"]
    return [f"unix://{place}" for place in places]


def _connection(where: str, settings: HostSettings) -> Engine:
    """A connection to an address as DOCKER_HOST has it; nothing is sent yet."""
    import aiohttp

    address = urlsplit(where)
    here = settings.environment.get("DOCKER_HOST_ADDR", "")
    connector: aiohttp.BaseConnector
    if address.scheme == "unix":
        # Whoever follows many logs needs many connections.
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
    """Whether TLS is spoken to an address; to a socket it never is."""
    verify = settings.environment.get("DOCKER_TLS_VERIFY", "") not in ("", "0")
    return where.startswith("https:") or (verify and not where.startswith("unix:"))


def _certificate_directory(settings: HostSettings) -> Path:
    return Path(settings.environment.get("DOCKER_CERT_PATH") or f"{settings.home}/.docker")


def _certificates(settings: HostSettings) -> ssl.SSLContext:
    """Who is trusted, and who we are, as Docker's own client finds it."""
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
    """What to do if the two sides do not agree on TLS or do not trust each other; else nothing."""
    import aiohttp

    directory = _certificate_directory(settings)
    if isinstance(cause, EngineRefused) and "HTTPS server" in str(cause):
        return (
            "It wants TLS: set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the directory that has ca.pem, "
            "cert.pem and key.pem."
        )
    if not _is_secure(where, settings):
        return ""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"Its certificate is not trusted: {directory}/ca.pem has to be that of the authority that signed "
            "it, and DOCKER_HOST has to name the engine as the certificate does."
        )
    if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
        return "It does not speak TLS: unset DOCKER_TLS_VERIFY, or use its port for TLS."
    # Engines say no after the handshake, and seldom why.
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
