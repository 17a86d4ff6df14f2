"""The kernels of a box by name, and the action that runs cells in them."""

from __future__ import annotations

import asyncio
from typing import Literal

from glovebox.box.executor import Call
from glovebox.box.notebook import kernelspecs
from glovebox.box.notebook.cells import Cell, CellLogs
from glovebox.box.notebook.kernel import NamedKernel
from glovebox.box.notebook.kernelspecs import PROCESS_PREFIX, Spec
from glovebox.box.notebook.messages import NO_OUTPUT, ObservedOutput, content_of
from glovebox.box.notebook.process import KernelContext
from glovebox.box.notebook.supervisor import KernelState, Saved
from glovebox.box.oom import OomWatch
from glovebox.box.plugin import Context
from glovebox.box.supervised import end_unknown
from glovebox.errors import BadKernel, KernelExists, NoSuchKernel, NotebookError
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
    #: The interpreter of `python3`, which must have ipykernel; empty for that of the box.
    python: str = ""
    #: Sockets in a private directory, or ports on loopback.
    transport: Literal["ipc", "tcp"] = "ipc"


class Notebook:
    """All kernels."""

    def __init__(self, options: JupyterOptions, context: Context, state: KernelState) -> None:
        self._options = options
        self._keeper = context.keeper
        self._threads = context.threads
        self._state = state
        self._skills = context.find("agent_skills") is not None
        self._oom = OomWatch()
        self._kernels: dict[str, NamedKernel] = {}
        self._context = KernelContext(
            keeper=context.keeper,
            shell=context.shell,
            events=context.events,
            threads=context.threads,
            oom=self._oom,
            records=CellLogs(),
            state=state,
            transport=options.transport,
            start_code=self._start_code,
        )

    async def open(self) -> None:
        """Find the kernels that an earlier server left, and start the main one.

        Raises:
            NotebookError: it could not be started.
        """
        await self._threads.run(self._oom.open)
        known = await self._state.open(self._keeper.state_file(_STATE))
        await end_unknown(self._keeper, PROCESS_PREFIX, {saved.process for saved in known})
        for saved in known:
            await self._adopt(saved)
        main = self._kernels.get(MAIN) or await self._new(MAIN)
        await main.life.begin()

    async def close(self) -> None:
        """Disconnect from the kernels; whether they end is up to their keeper."""
        await asyncio.gather(*(kernel.disconnect() for kernel in self._kernels.values()))
        self._kernels.clear()
        await self._state.settle()

    async def run_ipython(
        self, action: IPythonRunCellAction, call: Call
    ) -> IPythonRunCellObservation | ErrorObservation:
        try:
            action.code.encode()
        except UnicodeEncodeError as error:
            return ErrorObservation(content=f"The code is not valid Unicode: {error}")
        kernel = self._kernels.get(action.kernel) or await self._new(action.kernel)
        cell = Cell(call, kernel.name, self._context.records)
        try:
            instead = await kernel.run(cell, action.code, action.timeout)
        finally:
            output = cell.answer()
        if instead is None:
            instead = await self._text(output) or (NO_OUTPUT if cell.status == "ok" else "")
        else:
            output.images.clear()
        return IPythonRunCellObservation(
            content=content_of(
                instead,
                cell.notes,
                self._context.shell.cwd,
                kernel.info().interpreter,
                extra=action.include_extra,
            ),
            code=action.code,
            image_urls=output.images or None,
        )

    def kernels(self) -> list[KernelInfo]:
        return [kernel.info() for kernel in self._kernels.values()]

    def kernel(self, name: str) -> NamedKernel:
        """The kernel of a name.

        Raises:
            NoSuchKernel: there is none of that name.
        """
        try:
            return self._kernels[name]
        except KeyError:
            raise NoSuchKernel(f"There is no kernel {name[:100]!r}.") from None

    def record(self, name: str, cell_id: str) -> CellRecord:
        """A cell with its outputs.

        Raises:
            NoSuchKernel: there is no kernel of that name.
            NoSuchCell: there is no cell of that id, or it is forgotten.
        """
        return self._context.records.get(self.kernel(name).name, cell_id)

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
        return await self._threads.run(kernelspecs.list_specs)

    async def _remove(self, kernel: NamedKernel) -> None:
        if self._kernels.get(kernel.name) is kernel:
            del self._kernels[kernel.name]
        await kernel.close()

    async def _new(
        self, name: str, spec: str | None = None, cwd: str | None = None, *, unused: bool = False
    ) -> NamedKernel:
        kernelspecs.check_name(name)
        found = await self._threads.run(self._find, spec or self._options.kernel, cwd)
        if name not in self._kernels:  # looked up again: another call may have been faster
            self._kernels[name] = NamedKernel(name, found, self._context)
        elif unused:
            raise KernelExists(f"There is a kernel {name!r} already.")
        return self._kernels[name]

    async def _adopt(self, saved: Saved) -> None:
        try:
            spec = await self._threads.run(self._find, saved.spec, None)
        except BadKernel:  # it was uninstalled, and what runs may go on
            spec = Spec(saved.spec, saved.language, [])
        kernel = NamedKernel(saved.name, spec, self._context)
        if await kernel.life.adopt(saved):
            kernel.wait_until_free()
        elif saved.name != MAIN:
            self._state.forget(saved.name)
            return
        self._kernels[saved.name] = kernel

    def _find(self, spec: str, cwd: str | None) -> Spec:
        if cwd is not None and not kernelspecs.is_directory(cwd):
            raise BadKernel(f"{cwd[:200]!r} is not a directory.")
        return kernelspecs.find_spec(spec, self._options.python)

    def _start_code(self) -> list[str]:
        return [*kernelspecs.preparation(), *([kernelspecs.skills_code()] if self._skills else [])]

    async def _text(self, output: ObservedOutput) -> str:
        return await self._threads.run(output.text) if output.length > _LONG else output.text()
