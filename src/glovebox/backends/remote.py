"""A box at an address, started elsewhere."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import ClassVar
from urllib.parse import urlsplit

import msgspec

from glovebox.backends.startup import wait_until_alive
from glovebox.client.backend import Address, BoxInfo, ProgressReport
from glovebox.client.connection.retry import PATIENCE
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadAnswer, BadSpec, BoxUnreachable, DeadlineExceeded, NoSuchBox, NotSupported
from glovebox.json_codec import decode_json
from glovebox.protocol.base import Message
from glovebox.settings.host import HostSettings

NAME = "remote"
#: Fields that cannot be chosen for an existing box.
_SETTLED = (
    "image", "build", "workspace", "volumes", "user", "arguments", "memory", "cpus", "pids", "network",
    "networks", "runtime", "isolation", "ports",
)  # fmt: skip
#: A separate shell, which begins in the workspace whatever the directory of the main one is.
_WHERE = b'{"action": {"action": "run", "args": {"command": "pwd", "is_static": true}, "timeout": 30}}'
_WHERE_LIMIT = 40.0
#: Seconds for a box to describe itself, and to answer again.
_INFO_LIMIT = 5.0
_RESUME_LIMIT = 120.0
#: Seconds for the first connection to a box that has not answered before.
_FIRST_CONTACT = 0.3


class ExternalSandbox:
    """A box that was started elsewhere: it is used, never ended."""

    #: Why it cannot be paused or stopped and has no log here, with what to do instead.
    no_pause: ClassVar[str]
    no_stop: ClassVar[str]
    no_logs: ClassVar[str]

    async def pause(self) -> None:
        raise NotSupported(self.no_pause)

    async def stop(self) -> None:
        raise NotSupported(self.no_stop)

    async def delete(self) -> None:
        """It stays: its owner decides when it ends."""

    async def logs(self, *, follow: bool = False) -> AsyncIterator[str]:
        raise NotSupported(self.no_logs)
        yield ""


def refuse_fields(spec: BoxSpec, settled: Iterable[str], which: str) -> None:
    """Refuse fields of a spec that only the owner of a box can choose.

    Raises:
        NotSupported: one of them is set.
    """
    for field in settled:
        if getattr(spec, field):
            raise NotSupported(
                f"{which} is what it is: {field} cannot be chosen. "
                "Leave it out, or start a box with another backend."
            )


async def send(
    address: Address,
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: bytes | None = None,
    limit: float,
    patience: float = PATIENCE,
) -> bytes:
    """The response to one request on a connection of its own.

    Raises:
        GloveboxError: the box refused, or did not answer in time; its class says why.
    """
    from glovebox.client.connection.http import Connection

    connection = Connection(address, patience=patience)
    try:
        return await connection.request(method, path, query=query, body=body, limit=limit)
    finally:
        await connection.close()


class _Where(Message):
    content: str


class _About(Message):
    uptime: float


class RemoteSandbox(ExternalSandbox):
    """A box at an address."""

    no_pause = "A box at an address cannot be paused from here. Ask whoever started it."
    no_stop = "A box at an address cannot be stopped from here. Ask whoever started it."
    no_logs = "What a box at an address prints is to be found where it runs."

    def __init__(self, address: Address, workspace: str) -> None:
        self._address = address
        self._workspace = workspace

    @property
    def name(self) -> str:
        """Host and port, as its address has them."""
        return urlsplit(self._address.url).netloc.rpartition("@")[2]

    @property
    def address(self) -> Address:
        return self._address

    @property
    def workspace(self) -> str:
        return self._workspace

    @property
    def ports(self) -> Mapping[int, str]:
        return {}

    async def info(self) -> BoxInfo:
        try:
            patience = (
                PATIENCE if self._workspace else _FIRST_CONTACT
            )  # it is known once the box has answered
            answer = await send(self._address, "GET", "/server_info", limit=_INFO_LIMIT, patience=patience)
            about = decode_json(answer, _About)
        except (BoxUnreachable, DeadlineExceeded):
            return BoxInfo(name=self.name, backend=NAME, state="missing", keep=True)
        except msgspec.MsgspecError as error:
            raise BadAnswer(f"What answers at {self._address.url} is not a box.") from error
        return BoxInfo(
            name=self.name,
            backend=NAME,
            state="running",
            url=self._address.url,
            workspace=self._workspace,
            created=time.time() - about.uptime,
            keep=True,
        )

    async def resume(self) -> None:
        """Wait until it answers: it may be restarting."""
        await wait_until_alive(self._address, _RESUME_LIMIT, _never)


class RemoteBackend:
    """The one box at GLOVEBOX_URL."""

    def __init__(self, settings: HostSettings) -> None:
        self._address = Address(url=settings.url.rstrip("/"), key=settings.key)

    @property
    def name(self) -> str:
        return NAME

    async def start(self, spec: BoxSpec, report: ProgressReport) -> RemoteSandbox:
        """Wait until the box answers. Its plugins, its browser and its variables are what they are."""
        refuse_fields(spec, _SETTLED, f"The box at {self._address.url}")
        self._check()
        await wait_until_alive(self._address, spec.start_limit, _never, connect_limit=_FIRST_CONTACT)
        return RemoteSandbox(self._address, await self._workspace())

    async def attach(self, name: str) -> RemoteSandbox:
        """The box, by its host and port or its whole address."""
        self._check()
        own = RemoteSandbox(self._address, "").name
        if name.rstrip("/") not in ("", own, self._address.url):
            raise NoSuchBox(f"There is no box {name!r}, only the one at {self._address.url}.")
        try:
            return RemoteSandbox(self._address, await self._workspace(_FIRST_CONTACT))
        except BoxUnreachable as error:
            raise NoSuchBox(str(error)) from error

    async def boxes(self) -> list[BoxInfo]:
        """The box, if there is an address and it answers."""
        if not self._address.url:
            return []
        info = await RemoteSandbox(self._address, "").info()
        return [info] if info.state == "running" else []

    async def sweep(self) -> list[str]:
        """External boxes are not removed."""
        return []

    async def close(self) -> None: ...

    def _check(self) -> None:
        parts = urlsplit(self._address.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadSpec(
                f"{self._address.url!r} is no address of a box. Set GLOVEBOX_URL, for example to "
                "http://127.0.0.1:8000, and SESSION_API_KEY to its key."
            )

    async def _workspace(self, patience: float = PATIENCE) -> str:
        """The path of the workspace; this also checks the key.

        Raises:
            GloveboxError: the box refused; its class says why.
        """
        answer = await send(
            self._address,
            "POST",
            "/execute_action",
            body=_WHERE,
            limit=_WHERE_LIMIT,
            patience=patience,
        )
        try:
            return decode_json(answer, _Where).content.strip()
        except msgspec.MsgspecError as error:
            raise BadAnswer(f"What answers at {self._address.url} is not a box.") from error


async def _never() -> None:
    """The end of an external box cannot be observed."""
