"""`AsyncBox`: a sandbox to work in, for callers with an event loop."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import msgspec

from glovebox.client import registry
from glovebox.client.backend import Backend, BoxInfo, ProgressCallback
from glovebox.client.capabilities import commands, processes
from glovebox.client.capabilities.browser import AsyncBoxBrowser
from glovebox.client.capabilities.commands import AsyncCommandHandle, WaitPolicy
from glovebox.client.capabilities.files import AsyncBoxFiles
from glovebox.client.capabilities.notebook import AsyncBoxNotebook
from glovebox.client.capabilities.outcomes import CommandOutcome, ExecOutcome
from glovebox.client.capabilities.processes import AsyncProcessHandle
from glovebox.client.connection.link import Link
from glovebox.client.runtime import Runtime
from glovebox.client.spec import BoxSpec, Isolation
from glovebox.errors import NotSupported
from glovebox.protocol.terminal import CommandInfo, Limits, SessionInfo
from glovebox.settings import host

Ports = Iterable[int] | Mapping[int, int]
_ANY = BoxSpec()
_OPTIONS = "--plugin-options"


class AsyncBox:
    """A sandbox: a container, or a process of this machine with bubblewrap around it.

        async with AsyncBox("python:3.12-slim") as box:
            outcome = await box.run("pytest -q", timeout=600)
            print(outcome.exit_code, outcome.output)

    It starts with `async with` or with its first use, and is deleted at the end unless `keep` is set. Any
    number of calls may run at once.
    """

    def __init__(
        self,
        image: str = "",
        *,
        name: str = "",
        backend: str | Backend = "",
        workspace: str | Path | None = None,
        isolation: Isolation = "",
        env: Mapping[str, str] | None = None,
        ports: Ports = (),
        browser: bool | None = None,
        notebook: bool | None = None,
        keep: bool = False,
        key: str = "",
        spec: BoxSpec = _ANY,
        progress: ProgressCallback | None = None,
    ) -> None:
        """`image` is any Linux image; without one, the box is the best kind that this machine can have.

        `workspace` is a directory of this machine that the box works in, else it has a fresh one. `url` knows
        the address of each of `ports`. `browser` and `notebook` are there, and start when first used,
        unless false. `spec` has everything else that can be said of a box, such as limits.
        """
        given: dict[str, Any] = {
            "image": image,
            "name": name,
            "workspace": "" if workspace is None else str(workspace),
            "isolation": isolation,
            "env": {**spec.env, **(env or {})},
            "ports": {**spec.ports, **_ports(ports)},
            "keep": keep,
        }
        if _is_made_here(backend):  # others have the parts that they have
            given |= _parts(spec, browser=browser is not False, notebook=notebook is not False)
        spec = msgspec.structs.replace(spec, **{field: value for field, value in given.items() if value})
        self._set_up(Runtime(backend, spec, key=key, progress=progress))

    def _set_up(self, runtime: Runtime) -> None:
        self._link = Link(runtime)
        self._numbers = itertools.count(1)
        #: The same box as OpenHands sees it: actions and observations.
        self.runtime = runtime
        self.files = AsyncBoxFiles(self._link)
        self.notebook = AsyncBoxNotebook(self._link)
        self.browser = AsyncBoxBrowser(self._link)
        self.sessions = AsyncBoxSessions(self._link)

    def before_open(self, call: Callable[[], None]) -> None:
        """Call something before the box is opened by its first use."""
        self._link.before_open = call

    @classmethod
    async def attach(cls, box: str, *, backend: str = "", key: str = "") -> Self:
        """The box of a name or an address, which another program may have started; it stays at the end.

        Raises:
            NoSuchBox: there is none.
            BoxUnreachable: nothing answers at the address.
        """
        has_address = registry.is_address(box)
        spec = _ANY if has_address else BoxSpec(name=box)
        made = cls.__new__(cls)
        made._set_up(Runtime(box if has_address else backend, spec, key=key, attach=not has_address))
        await made.open()
        return made

    @staticmethod
    async def list(backend: str = "") -> builtins.list[BoxInfo]:
        """The boxes that there are, of all backends or of one; `attach` takes their names."""
        return await registry.list_boxes(backend, host.load())

    def __repr__(self) -> str:
        runtime = self.runtime
        if not runtime.runtime_initialized:
            return f"<{type(self).__name__} not started>"
        return f"<{type(self).__name__} {runtime.name} at {runtime.url}>"

    async def open(self) -> None:
        """Start the box, unless it has been started. `async with` does it, and so does the first use."""
        await self.runtime.connect()

    async def close(self) -> None:
        """Delete the box, unless it was attached to or was made with `keep`. Idempotent."""
        await self.runtime.close()

    async def pause(self) -> None:
        """Freeze the box; it uses no CPU."""
        await self._link.connection()
        await self.runtime.pause()

    async def resume(self) -> None:
        """Let it go on after `pause`."""
        await self.runtime.resume()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """Its name: `AsyncBox.attach` finds it by that."""
        return self.runtime.name

    @property
    def workspace(self) -> str:
        """The directory that it works in, as the box sees it."""
        return self.runtime.workspace

    async def run(
        self,
        command: str,
        *,
        timeout: float | None = None,
        session: str = "main",
        on_output: Callable[[str], object] | None = None,
        on_wait: WaitPolicy = "raise",
        limits: Limits | None = None,
    ) -> CommandOutcome:
        """Run a command, or a script of several lines, in a persistent shell on a terminal.

        `cd` and `export` last until the end of the session. `on_output` gets text as it is printed.

        Raises:
            CommandTimeout: `timeout` seconds are over. The command goes on; the error has its handle.
            CommandWaits: it asks for input, unless `on_wait` is `"wait"`. The error has its handle.
            SessionBusy: an earlier command still runs in that session.
        """
        return await commands.run_command(
            self._link, command,
            session=session, timeout=timeout, on_wait=on_wait, on_output=on_output, limits=limits,
        )  # fmt: skip

    async def start(
        self, command: str, *, session: str = "", limits: Limits | None = None
    ) -> AsyncCommandHandle:
        """Start a command on a terminal, and do not wait: for servers, and for what asks questions.

        It has a session of its own, which ends with it, unless one is named.

        Raises:
            SessionBusy: an earlier command still runs in the named session.
        """
        return await commands.start_command(
            self._link, command,
            session=session or f"start-{id(self) % 9973}-{next(self._numbers)}",
            own_session=not session, limits=limits,
        )  # fmt: skip

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        stdin: str | bytes | None = None,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        user: str = "",
        timeout: float | None = None,
        limits: Limits | None = None,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
    ) -> ExecOutcome:
        """Run a program without a terminal, and keep its output and its errors apart.

        `command` is a program with its arguments, or a text for `bash -c`. `env` is added to its environment.

        Raises:
            ProcessTimeout: it was killed after `timeout` seconds; the error has its output.
        """
        done = await processes.run_process(
            self._link, command,
            stdin=stdin, cwd=cwd, env=env, user=user, timeout=timeout, limits=limits,
            on_stdout=on_stdout, on_stderr=on_stderr,
        )  # fmt: skip
        return processes.checked_time(done, timeout)

    async def spawn(
        self,
        command: str | Sequence[str],
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        user: str = "",
        timeout: float | None = None,
        limits: Limits | None = None,
    ) -> AsyncProcessHandle:
        """Start a program without a terminal, and do not wait; its standard input can be written to.

        `command` is a program with its arguments, or a text for `bash -c`.
        """
        return await processes.start_process(
            self._link, command,
            stdin_open=True, cwd=cwd, env=env, user=user, timeout=timeout, limits=limits,
        )  # fmt: skip

    def url(self, port: int) -> str:
        """The address at which this machine reaches a port of the box.

        Raises:
            NotSupported: it cannot be reached.
        """
        found = self.runtime.port_url(port)
        if found is None:
            raise NotSupported(
                f"Port {port} of the box {self.name} cannot be reached from here. "
                f"Start the box with ports=[{port}]."
            )
        return found


class AsyncBoxSessions:
    """`box.sessions`: the persistent shells of a box."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    async def list(self) -> builtins.list[SessionInfo]:
        """The sessions that there are."""
        return await self._link.ask_list(SessionInfo, "/sessions")

    async def create(self, name: str, *, cwd: str | None = None) -> SessionInfo:
        """Open a session; `run(..., session=name)` does it as well.

        Raises:
            SessionExists: the name is taken.
        """
        return await self._link.ask(SessionInfo, "POST", "/sessions", body={"name": name, "cwd": cwd})

    async def commands(self, session: str = "") -> builtins.list[CommandInfo]:
        """The commands of all sessions or of one, newest first."""
        query = {"session": session} if session else None
        return await self._link.ask_list(CommandInfo, "/commands", query)

    async def end(self, name: str) -> None:
        """End a session and everything that it started."""
        await self._link.send("DELETE", f"/sessions/{quote(name, safe='')}")


def _ports(ports: Ports) -> dict[int, int]:
    return dict(ports) if isinstance(ports, Mapping) else dict.fromkeys(ports, 0)


def _is_made_here(backend: str | Backend) -> bool:
    """Whether a box of this backend is started with the parts that its spec names."""
    name = (backend or host.load().backend) if isinstance(backend, str) else ""
    if registry.is_address(name) or name in ("remote", "vscode"):
        return False
    return isinstance(backend, str)


def _parts(spec: BoxSpec, *, browser: bool, notebook: bool) -> dict[str, Any]:
    """The fields of a spec for a browser, and for a notebook that starts with its first cell."""
    parts: dict[str, Any] = {"browser": browser or spec.browser}
    if notebook and "jupyter" not in spec.plugins:
        parts["plugins"] = (*spec.plugins, "jupyter")
        if _OPTIONS not in spec.arguments:
            parts["arguments"] = (*spec.arguments, _OPTIONS, "jupyter.start=on_use")
    return parts
