"""The kernels of a box by name, and the action that runs cells in them."""

from __future__ import annotations

import asyncio
from typing import Literal

from glovebox.box.events import EventLog
from glovebox.box.executor import Call
from glovebox.box.notebook import kernelspecs
from glovebox.box.notebook.cells import Cell
from glovebox.box.notebook.kernel import NamedKernel
from glovebox.box.notebook.kernelspecs import PROCESS_PREFIX, Spec
from glovebox.box.notebook.messages import NO_OUTPUT, Gathered, content_of
from glovebox.box.notebook.process import Surroundings
from glovebox.box.notebook.records import CellLogs
from glovebox.box.notebook.state_file import KernelState, Saved
from glovebox.box.services import Keeper
from glovebox.box.shell import Shell
from glovebox.box.threads import Threads
from glovebox.errors import BadKernel, KernelExists, NoSuchKernel, NotebookError
from glovebox.linux.oom import OomWatch
from glovebox.protocol.actions import IPythonRunCellAction
from glovebox.protocol.base import Message
from glovebox.protocol.notebook import CellRecord, KernelInfo, KernelSpec
from glovebox.protocol.observations import ErrorObservation, IPythonRunCellObservation

#: The kernel of cells that name none.
MAIN = "main"
#: Longer text is put together in a thread.
_LONG = 1_000_000
_STATE = "kernels.json"


class JupyterOptions(Message):
    """Settings of the plugin."""

    #: The kernelspec of the main kernel and of those that are opened by name.
    kernel: str = kernelspecs.PYTHON
    #: The interpreter of `python3`, which must have ipykernel; empty for the one that runs the box.
    python: str = ""
    #: Sockets in a private directory, or ports on loopback.
    transport: Literal["ipc", "tcp"] = "ipc"


class Notebook:
    """All kernels."""

    def __init__(
        self,
        options: JupyterOptions,
        *,
        keeper: Keeper,
        shell: Shell,
        events: EventLog,
        threads: Threads,
        memory: KernelState,
        skills: bool,
    ) -> None:
        self._options = options
        self._keeper = keeper
        self._shell = shell
        self._events = events
        self._threads = threads
        self._memory = memory
        self._skills = skills
        self._records = CellLogs()
        self._kernels: dict[str, NamedKernel] = {}
        self._around: Surroundings | None = None

    async def open(self) -> None:
        """Find the kernels that an earlier server left, and have the main one.

        Raises:
            NotebookError: it could not be started.
        """
        oom = OomWatch()
        await self._threads.run(oom.open)
        self._around = Surroundings(
            keeper=self._keeper,
            oom=oom,
            threads=self._threads,
            transport=self._options.transport,
            start_code=self._start_code,
        )
        known = await self._memory.open(self._keeper.state_file(_STATE))
        await self._end_unknown({saved.process for saved in known})
        for saved in known:
            await self._adopt(saved)
        main = self._kernels.get(MAIN) or await self._new(MAIN)
        await main.life.begin()

    async def close(self) -> None:
        """Leave the kernels; whether they end is their keeper's business."""
        await asyncio.gather(*(kernel.disconnect() for kernel in self._kernels.values()))
        self._kernels.clear()
        await self._memory.settle()

    async def run_ipython(
        self, action: IPythonRunCellAction, call: Call
    ) -> IPythonRunCellObservation | ErrorObservation:
        try:
            action.code.encode()
        except UnicodeEncodeError as error:
            return ErrorObservation(content=f"The code is not valid Unicode: {error}")
        kernel = self._kernels.get(action.kernel) or await self._new(action.kernel)
        cell = Cell(call, kernel.name, self._records)
        try:
            instead = await kernel.run(cell, action.code, action.timeout)
        finally:
            gathered = cell.answer()
        if instead is None:
            instead = await self._text(gathered) or (NO_OUTPUT if cell.status == "ok" else "")
        else:
            gathered.images.clear()
        return IPythonRunCellObservation(
            content=content_of(
                instead, cell.notes, self._shell.cwd, kernel.info().interpreter, extra=action.include_extra
            ),
            code=action.code,
            image_urls=gathered.images or None,
        )

    # Kernels by name.

    def kernels(self) -> list[KernelInfo]:
        return [kernel.info() for kernel in self._kernels.values()]

    def kernel(self, name: str) -> NamedKernel:
        """One of them.

        Raises:
            NoSuchKernel: there is none of that name.
        """
        try:
            return self._kernels[name]
        except KeyError:
            raise NoSuchKernel(f"There is no kernel {name[:100]!r}.") from None

    def record(self, name: str, cell_id: str) -> CellRecord:
        """A cell with what it gave out.

        Raises:
            NoSuchKernel: there is no kernel of that name.
            NoSuchCell: there is no cell of that id, or it is forgotten.
        """
        return self._records.get(self.kernel(name).name, cell_id)

    async def create(self, name: str, spec: str | None, cwd: str | None) -> KernelInfo:
        """Open a kernel.

        Raises:
            KernelExists: the name is taken.
            BadKernel: the name, the kernelspec or the directory cannot be.
            NotebookError: it could not be started.
        """
        kernel = await self._new(name, spec, cwd, unused=True)
        try:
            await kernel.life.begin(cwd)
        except NotebookError:
            await self._remove(kernel)
            raise
        return kernel.info()

    async def end(self, name: str) -> None:
        """End a kernel.

        Raises:
            NoSuchKernel: there is none of that name.
        """
        await self._remove(self.kernel(name))

    async def specs(self) -> list[KernelSpec]:
        """The kernelspecs that are installed."""
        return await self._threads.run(kernelspecs.installed)

    async def _remove(self, kernel: NamedKernel) -> None:
        if self._kernels.get(kernel.name) is kernel:
            del self._kernels[kernel.name]
        await kernel.close()

    async def _new(
        self, name: str, spec: str | None = None, cwd: str | None = None, *, unused: bool = False
    ) -> NamedKernel:
        kernelspecs.check_name(name)
        found = await self._threads.run(self._find, spec or self._options.kernel, cwd)
        if name not in self._kernels:  # looked up again: somebody may have been faster
            self._kernels[name] = self._made(name, found)
        elif unused:
            raise KernelExists(f"There is a kernel {name!r} already.")
        return self._kernels[name]

    def _made(self, name: str, spec: Spec) -> NamedKernel:
        if self._around is None:
            raise NotebookError("The notebook is closed.")
        return NamedKernel(
            name,
            spec,
            around=self._around,
            events=self._events,
            records=self._records,
            memory=self._memory,
            shell=self._shell,
        )

    async def _adopt(self, saved: Saved) -> None:
        try:
            spec = await self._threads.run(self._find, saved.spec, None)
        except BadKernel:  # it was uninstalled, and what runs may go on
            spec = Spec(saved.spec, saved.language, [])
        kernel = self._made(saved.name, spec)
        if await kernel.life.adopt(saved):
            kernel.adopted()
        elif saved.name != MAIN:
            self._memory.forget(saved.name)
            return
        self._kernels[saved.name] = kernel

    async def _end_unknown(self, known: set[str]) -> None:
        """End kernels of an earlier server of which nothing is known any more."""
        for name in self._keeper.names():
            if name.startswith(PROCESS_PREFIX) and name not in known and (left := self._keeper.kept(name)):
                await left.close()

    def _find(self, spec: str, cwd: str | None) -> Spec:
        if cwd is not None and not kernelspecs.is_directory(cwd):
            raise BadKernel(f"{cwd[:200]!r} is not a directory.")
        return kernelspecs.find_spec(spec, self._options.python)

    def _start_code(self) -> list[str]:
        return [*kernelspecs.preparation(), *([kernelspecs.skills_code()] if self._skills else [])]

    async def _text(self, gathered: Gathered) -> str:
        if gathered.length > _LONG:
            return await self._threads.run(gathered.text)
        return gathered.text()
