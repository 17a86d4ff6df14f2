"""A box that somebody else has started, at an address."""

from __future__ import annotations

import time
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from glovebox.backends.external import FoundSandbox, refuse_wishes
from glovebox.backends.readiness import until_alive
from glovebox.client.backend import Address, BoxInfo, ProgressReport
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadAnswer, BadSpec, BoxUnreachable, DeadlineExceeded, NoSuchBox
from glovebox.json_codec import decode_json
from glovebox.protocol.base import Message
from glovebox.settings.host import HostSettings

NAME = "remote"
#: What cannot be had of a box that is there already.
_SETTLED = (
    "image",
    "build",
    "workspace",
    "volumes",
    "user",
    "arguments",
    "memory",
    "cpus",
    "pids",
    "network",
    "networks",
    "runtime",
    "isolation",
    "ports",
)
#: A shell of its own, which begins in the workspace, wherever the main one has gone.
_WHERE = b'{"action": {"action": "run", "args": {"command": "pwd", "is_static": true}, "timeout": 30}}'
_WHERE_LIMIT = 40.0
#: How long a box may take to say how it is, and to be there again.
_INFO_LIMIT = 5.0
_RESUME_LIMIT = 120.0


class _Where(Message):
    content: str


class _About(Message):
    uptime: float


class RemoteSandbox(FoundSandbox):
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
        """The path of the workspace, as the box sees it."""
        return self._workspace

    @property
    def ports(self) -> Mapping[int, str]:
        """Nothing is known of other ports."""
        return {}

    async def info(self) -> BoxInfo:
        from glovebox.client.connection.http import Connection

        connection = Connection(self._address)
        try:
            about = decode_json(await connection.request("GET", "/server_info", limit=_INFO_LIMIT), _About)
        except (BoxUnreachable, DeadlineExceeded):
            return BoxInfo(name=self.name, backend=NAME, state="missing", keep=True)
        except msgspec.MsgspecError as error:
            raise BadAnswer(f"What answers at {self._address.url} is not a box.") from error
        finally:
            await connection.close()
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
        """Wait until it answers, if somebody has restarted it."""
        await until_alive(self._address, _RESUME_LIMIT, _never)


class RemoteBackend:
    """The one box at GLOVEBOX_URL."""

    def __init__(self, settings: HostSettings) -> None:
        self._address = Address(url=settings.url.rstrip("/"), key=settings.key)

    @property
    def name(self) -> str:
        return NAME

    async def start(self, spec: BoxSpec, report: ProgressReport) -> RemoteSandbox:
        """Wait until the box answers. Its plugins, its browser and its variables are what they are.

        Raises:
            BadSpec: there is no address, or what it is called is none.
            NotSupported: something is wanted that only whoever starts a box can give it.
        """
        refuse_wishes(spec, _SETTLED, f"The box at {self._address.url}")
        self._check()
        await until_alive(self._address, spec.start_limit, _never)
        return RemoteSandbox(self._address, await self._workspace())

    async def attach(self, name: str) -> RemoteSandbox:
        """The box, by its host and port or its whole address.

        Raises:
            NoSuchBox: it has another name, or does not answer.
        """
        self._check()
        own = RemoteSandbox(self._address, "").name
        if name not in ("", own, self._address.url):
            raise NoSuchBox(f"There is no box {name!r}, only the one at {self._address.url}.")
        try:
            return RemoteSandbox(self._address, await self._workspace())
        except BoxUnreachable as error:
            raise NoSuchBox(str(error)) from error

    async def boxes(self) -> list[BoxInfo]:
        """The box, if there is an address and it answers."""
        if not self._address.url:
            return []
        info = await RemoteSandbox(self._address, "").info()
        return [info] if info.state == "running" else []

    async def sweep(self) -> list[str]:
        """Nothing here is ours to remove."""
        return []

    async def close(self) -> None: ...

    def _check(self) -> None:
        parts = urlsplit(self._address.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadSpec(
                f"{self._address.url!r} is no address of a box. Set GLOVEBOX_URL, for example to "
                "http://127.0.0.1:8000, and SESSION_API_KEY to its key."
            )

    async def _workspace(self) -> str:
        """Where the box has its workspace; this also shows whether the key fits.

        Raises:
            GloveboxError: the box refused; its class says why.
        """
        from glovebox.client.connection.http import Connection

        connection = Connection(self._address)
        try:
            answer = await connection.request("POST", "/execute_action", body=_WHERE, limit=_WHERE_LIMIT)
        finally:
            await connection.close()
        try:
            return decode_json(answer, _Where).content.strip()
        except msgspec.MsgspecError as error:
            raise BadAnswer(f"What answers at {self._address.url} is not a box.") from error


async def _never() -> None:
    """Nobody here would know that it died."""
