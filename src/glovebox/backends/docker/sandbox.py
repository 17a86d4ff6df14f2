"""A box in a container."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping

from glovebox.backends.docker import wire
from glovebox.backends.docker.config import (
    BOX,
    LAYERS,
    PREFIX,
    WORKSPACE,
    box_info,
    host_ports,
    published_url,
    state_of,
)
from glovebox.backends.docker.containers import inspect, log_lines, remove
from glovebox.backends.docker.engine import Engine, EngineRefused
from glovebox.backends.docker.mounts import remove_layers
from glovebox.backends.startup import wait_until_alive
from glovebox.client.backend import Address, BoxInfo
from glovebox.errors import BackendError, BoxDied, NoSuchBox

#: Seconds that a box has to end by itself.
_STOP_LIMIT = 10
_RESUME_LIMIT = 120.0
_LAST_WORDS = 20
_GONE = (404,)


class DockerSandbox:
    """One container with a box in it."""

    def __init__(self, engine: Engine, container: wire.Container) -> None:
        self._engine = engine
        self._id = container.id
        self._container = container

    @property
    def name(self) -> str:
        return self._container.labels[BOX]

    @property
    def address(self) -> Address:
        """Its address and its key, from its container."""
        environment = self._container.environment
        port = environment.get("port", "")
        url = self.ports.get(int(port), "") if port.isdigit() else ""
        return Address(url=url, key=environment.get("SESSION_API_KEY", ""))

    @property
    def workspace(self) -> str:
        return self._container.labels.get(WORKSPACE, "/workspace")

    @property
    def ports(self) -> Mapping[int, str]:
        # In the host's network nothing is published: the labels have the ports.
        own = host_ports(self._container.labels)
        bound = {port: (found.host_ip, found.host_port) for port, found in self._container.ports.items()}
        return {port: published_url(self._engine, *where) for port, where in (bound or own).items()}

    async def info(self) -> BoxInfo:
        try:
            self._container = await self._inspect()
            state = state_of(self._container.state.status)
        except NoSuchBox:
            state = "missing"
        return box_info(self._container.labels, state, self.address.url)

    async def pause(self) -> None:
        await self._do("pause", unless=("paused",))

    async def resume(self) -> None:
        """Continue after `pause` or `stop`. After `stop` it has another address."""
        state = (await self._inspect()).state.status
        if state == "paused":
            await self._do("unpause", unless=("running",))
        elif state != "running":
            await self._do("start", unless=("running",))
        self._container = await self._inspect()
        await self.wait_until_alive(_RESUME_LIMIT)

    async def stop(self) -> None:
        """End its processes; its file system stays."""
        if (await self._inspect()).state.status == "paused":
            await self._do("unpause", unless=("running",))
        await self._do("stop", unless=("exited", "created"), query={"t": str(_STOP_LIMIT)})

    async def delete(self) -> None:
        """Remove the container with the volumes that have no name, and its layers."""
        await remove(self._engine, self._id)
        labels = self._container.labels
        await asyncio.to_thread(remove_layers, labels.get(LAYERS, ""), PREFIX + self.name)

    async def logs(self, *, follow: bool = False) -> AsyncGenerator[str, None]:
        query = {"stdout": "1", "stderr": "1", "follow": "1" if follow else "0"}
        try:
            async for line in log_lines(self._engine, self._id, query):
                yield line
        except EngineRefused as error:
            raise _refused(self.name, error) from error

    async def wait_until_alive(self, limit: float) -> None:
        """Wait until it answers.

        Raises:
            BoxDied: it has ended; the text has its last output.
            DeadlineExceeded: it does not answer in time.
        """
        ended = asyncio.ensure_future(self._wait_for_end())

        async def last_words() -> str | None:
            return await ended if ended.done() else None

        try:
            if not self.address.url:
                raise BoxDied(await self._last_words())
            await wait_until_alive(self.address, limit, last_words)
        finally:
            ended.cancel()
            await asyncio.wait([ended])

    async def _wait_for_end(self) -> str:
        """Wait until the container has ended; its last output."""
        with contextlib.suppress(EngineRefused):  # it is gone
            await self._engine.request("POST", f"/containers/{self._id}/wait", limit=None)
        return await self._last_words()

    async def _last_words(self) -> str:
        try:
            state = (await self._inspect()).state
            said = [line async for line in log_lines(self._engine, self._id, _tail())]
        except (EngineRefused, NoSuchBox):
            return f"The container of the box {self.name} was removed before it answered."
        why = ", because it used more memory than it may" if state.oom_killed else ""
        words = "\n".join(said) or state.error or "(nothing)"
        return (
            f"The box {self.name} ended with status {state.exit_code} before it answered{why}. "
            f"Its last words:\n{words}"
        )

    async def _do(
        self, verb: str, *, unless: tuple[str, ...], query: Mapping[str, str] | None = None
    ) -> None:
        """Send a command to the engine; a refusal is ignored if the container is in the wanted state."""
        try:
            await self._engine.request("POST", f"/containers/{self._id}/{verb}", query=query)
        except EngineRefused as error:
            if error.status_code in _GONE or (await self._inspect()).state.status not in unless:
                raise _refused(self.name, error) from error

    async def _inspect(self) -> wire.Container:
        try:
            return await inspect(self._engine, self._id)
        except EngineRefused as error:
            raise _refused(self.name, error) from error


def _tail() -> Mapping[str, str]:
    return {"stdout": "1", "stderr": "1", "tail": str(_LAST_WORDS)}


def _refused(name: str, error: EngineRefused) -> BackendError:
    if error.status_code in _GONE:
        return NoSuchBox(f"There is no box {name} any more: {error}")
    return error
