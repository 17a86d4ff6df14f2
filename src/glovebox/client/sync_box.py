"""`Box`: a sandbox to work in, for callers that block; every method is that of `AsyncBox`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from glovebox.client import loop
from glovebox.client.backend import Backend, BoxInfo, ProgressCallback
from glovebox.client.box import AsyncBox, Ports
from glovebox.client.capabilities.commands import WaitPolicy
from glovebox.client.capabilities.outcomes import CommandOutcome, ExecOutcome
from glovebox.client.loop import Relay
from glovebox.client.spec import BoxSpec, Isolation
from glovebox.client.sync import SyncRuntime
from glovebox.client.sync_parts import (
    Blocking,
    BoxBrowser,
    BoxFiles,
    BoxNotebook,
    BoxSessions,
    CommandHandle,
    ProcessHandle,
    blocking,
    wait_for,
)
from glovebox.protocol.terminal import Limits

_ANY = BoxSpec()


class Box(Blocking[AsyncBox]):
    """A sandbox: a container, or a process of this machine with bubblewrap around it.

        with Box("python:3.12-slim") as box:
            outcome = box.run("pytest -q", timeout=600, on_output=print)
            print(outcome.exit_code)

    It starts with `with` or with its first use, and is deleted at the end, or with this program, unless
    `keep` is set. Any number of threads may use it. `AsyncBox` is the same for callers with an event loop.
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
        self._set_up(
            AsyncBox(
                image, name=name, backend=backend, workspace=workspace, isolation=isolation, env=env,
                ports=ports, browser=browser, notebook=notebook, keep=keep, key=key, spec=spec,
                progress=progress,
            )
        )  # fmt: skip

    def _set_up(self, own: AsyncBox) -> None:
        super().__init__(own)
        own.before_open(lambda: loop.close_at_exit(own.runtime))
        #: The same box as OpenHands sees it: actions and observations.
        self.runtime = SyncRuntime.over(own.runtime)
        self.files = BoxFiles(own.files)
        self.notebook = BoxNotebook(own.notebook)
        self.browser = BoxBrowser(own.browser)
        self.sessions = BoxSessions(own.sessions)

    @classmethod
    def attach(cls, box: str, *, backend: str = "", key: str = "") -> Self:
        """The box of a name or an address, which another program may have started; it stays at the end."""
        made = cls.__new__(cls)
        own = wait_for(AsyncBox.attach(box, backend=backend, key=key))
        loop.close_at_exit(own.runtime)
        made._set_up(own)
        return made

    @staticmethod
    def list(backend: str = "") -> builtins.list[BoxInfo]:
        """The boxes that there are, of all backends or of one; `attach` takes their names."""
        return wait_for(AsyncBox.list(backend))

    def open(self) -> None:
        """Start the box, unless it has been started. `with` does it, and so does the first use."""
        loop.connect(self._own.runtime)

    def close(self) -> None:
        """Delete the box, unless it was attached to or was made with `keep`. Idempotent."""
        loop.close(self._own.runtime)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Its name: `Box.attach` finds it by that."""
        return self._own.name

    @property
    def workspace(self) -> str:
        """The directory that it works in, as the box sees it."""
        return self._own.workspace

    pause = blocking(AsyncBox.pause)
    """Freeze the box; it uses no CPU."""
    resume = blocking(AsyncBox.resume)
    """Let it go on after `pause`."""

    def run(
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
        relay = None if on_output is None else Relay()
        done = self._own.run(
            command, timeout=timeout, session=session, on_wait=on_wait, limits=limits,
            on_output=None if relay is None else relay.wrap(on_output),
        )  # fmt: skip
        return wait_for(done, relay)

    def start(self, command: str, *, session: str = "", limits: Limits | None = None) -> CommandHandle:
        """Start a command on a terminal, and do not wait: for servers, and for what asks questions.

        It has a session of its own, which ends with it, unless one is named.
        """
        return CommandHandle(wait_for(self._own.start(command, session=session, limits=limits)))

    def exec(
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
        relay = Relay()
        done = self._own.exec(
            command, stdin=stdin, cwd=cwd, env=env, user=user, timeout=timeout, limits=limits,
            on_stdout=relay.wrap(on_stdout), on_stderr=relay.wrap(on_stderr),
        )  # fmt: skip
        return wait_for(done, relay)

    def spawn(
        self,
        command: str | Sequence[str],
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        user: str = "",
        timeout: float | None = None,
        limits: Limits | None = None,
    ) -> ProcessHandle:
        """Start a program without a terminal, and do not wait; its standard input can be written to.

        `command` is a program with its arguments, or a text for `bash -c`.
        """
        done = self._own.spawn(command, cwd=cwd, env=env, user=user, timeout=timeout, limits=limits)
        return ProcessHandle(wait_for(done))

    def url(self, port: int) -> str:
        """The address at which this machine reaches a port of the box; NotSupported if it does not."""
        return self._own.url(port)
