"""The notebook as a plugin: kernels by name, the action that runs cells in them, and their endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.executor import Call, Handler
from glovebox.box.notebook import kernelspecs
from glovebox.box.notebook.cells import Cell, CellLogs
from glovebox.box.notebook.environment import KernelPython, find_base, make_environment
from glovebox.box.notebook.kernel import NamedKernel
from glovebox.box.notebook.kernelspecs import PROCESS_PREFIX, Spec
from glovebox.box.notebook.messages import NO_OUTPUT, ObservedOutput, content_of
from glovebox.box.notebook.process import KernelContext
from glovebox.box.notebook.supervisor import KernelState, Saved
from glovebox.box.plugin import Context, Plugin
from glovebox.box.supervised import end_unknown
from glovebox.errors import BadKernel, KernelExists, NoSuchKernel, NotebookError, PluginFailed
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint, Parameter, Reply, Socket
from glovebox.http.responses import ErrorBody, json_response
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
    #: The interpreter of `python3`, which must have ipykernel; empty for an environment of its own.
    python: str = ""
    #: The virtual environment whose packages that environment begins with; empty for the default.
    packages: str = ""
    #: Sockets in a private directory, or ports on loopback.
    transport: Literal["ipc", "tcp"] = "ipc"
    #: The main kernel starts with the box, or with the first cell.
    start: Literal["background", "on_use"] = "background"


class Notebook:
    """All kernels."""

    def __init__(self, options: JupyterOptions, context: Context) -> None:
        self._options = options
        self._box = context
        self._state = KernelState(context.threads)
        self._records = CellLogs()
        self._kernels: dict[str, NamedKernel] = {}
        #: Set by `open`: the box has a shell by then.
        self._context: KernelContext
        self._python: KernelPython

    async def open(self) -> None:
        """Find the kernels that an earlier server left, and start the main one.

        Raises:
            NotebookError: it could not be started.
        """
        box, oom = self._box, OomWatch()
        await box.threads.run(oom.open)
        self._context = KernelContext(
            keeper=box.keeper,
            shell=box.shell,
            events=box.events,
            threads=box.threads,
            user_threads=box.user_threads,
            oom=oom,
            state=self._state,
            transport=self._options.transport,
            start_code=self._start_code,
        )
        self._python = await self._find_python()
        known = await self._state.open(box.keeper.state_file(_STATE))
        await end_unknown(box.keeper, PROCESS_PREFIX, {saved.process for saved in known})
        for saved in known:
            await self._adopt(saved)
        main = self._kernels.get(MAIN) or await self._new(MAIN)
        await main.life.begin()

    async def close(self) -> None:
        """Disconnect from the kernels: they end with the box, or wait for the next server."""
        await asyncio.gather(*(kernel.disconnect() for kernel in self._kernels.values()))
        self._kernels.clear()
        self._records = CellLogs()
        await self._state.settle()

    async def run_ipython(
        self, action: IPythonRunCellAction, call: Call
    ) -> IPythonRunCellObservation | ErrorObservation:
        try:
            action.code.encode()
        except UnicodeEncodeError as error:
            return ErrorObservation(content=f"The code is not valid Unicode: {error}")
        kernel = self._kernels.get(action.kernel) or await self._new(action.kernel)
        cell = Cell(call, kernel.name, self._records, action.cwd)
        try:
            instead = await kernel.run(cell, action.code, action.timeout)
        finally:
            output, call.cell = cell.answer(), cell.info()
        if instead is None:
            instead = await self._text(output) or (NO_OUTPUT if cell.status == "ok" else "")
        else:
            output.images.clear()
        return IPythonRunCellObservation(
            content=content_of(
                instead,
                cell.notes,
                action.cwd or self._box.shell.cwd,
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
        return await self._box.threads.run(kernelspecs.list_specs)

    async def _remove(self, kernel: NamedKernel) -> None:
        if self._kernels.get(kernel.name) is kernel:
            del self._kernels[kernel.name]
        await kernel.close()

    async def _new(
        self, name: str, spec: str | None = None, cwd: str | None = None, *, unused: bool = False
    ) -> NamedKernel:
        kernelspecs.check_name(name)
        found = await self._box.threads.run(self._find, spec or self._options.kernel, cwd)
        if name not in self._kernels:  # looked up again: another call may have been faster
            self._kernels[name] = NamedKernel(name, found, self._context)
        elif unused:
            raise KernelExists(f"There is a kernel {name!r} already.")
        return self._kernels[name]

    async def _adopt(self, saved: Saved) -> None:
        try:
            spec = await self._box.threads.run(self._find, saved.spec, None)
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
        return kernelspecs.find_spec(spec, self._python)

    async def _find_python(self) -> KernelPython:
        if self._options.python:
            return KernelPython([self._options.python])
        box, variables, identity = (
            self._box,
            self._box.settings.command_environment,
            self._box.services.identity,
        )
        base = await box.threads.run(find_base, self._options.packages)
        environment = await box.user_threads.run(
            make_environment, base, variables, identity.user if identity else None
        )
        return environment.python(variables)

    def _start_code(self) -> list[str]:
        skills = [kernelspecs.skills_code()] if self._box.find("agent_skills") else []
        return [*kernelspecs.preparation(), *skills]

    async def _text(self, output: ObservedOutput) -> str:
        return await self._box.threads.run(output.text) if output.length > _LONG else output.text()


#: Seconds that the main kernel may take to answer while it may run a cell.
_HEALTH_LIMIT = 4.0


class JupyterPlugin(Plugin):
    """Runs cells in IPython, and in other kernels."""

    name = "jupyter"
    options = JupyterOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        options = context.options(JupyterOptions)
        self.starts = options.start
        self.notebook = Notebook(options, context)

    def handlers(self) -> Iterable[Handler]:
        return [self.notebook.run_ipython]

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        return kernel_endpoints(self)

    def gauges(self) -> Mapping[str, float]:
        return {"kernels": len(self.notebook.kernels())}

    async def start(self) -> None:
        await self.notebook.open()

    async def stop(self) -> None:
        await self.notebook.close()

    async def health(self) -> dict[str, Any]:
        kernels = {kernel.name: kernel for kernel in self.notebook.kernels()}
        main = kernels.get(MAIN)
        if main is None or main.state in ("starting", "dead"):  # the next cell starts it
            return {"kernel": main.state if main else "none", "kernels": len(kernels)}
        try:
            async with asyncio.timeout(_HEALTH_LIMIT):
                answers = await self.notebook.kernel(MAIN).answers()
        except TimeoutError:
            answers = False
        if not answers:
            raise PluginFailed(
                f"The kernel (pid {main.pid}) does not answer. POST /kernels/main/restart helps."
            )
        return {"kernel": main.state, "pid": main.pid, "kernels": len(kernels)}

    async def list_kernels(self, request: Request) -> Response:
        return json_response(self.notebook.kernels())

    async def create_kernel(self, request: Request) -> Response:
        asked = await requests.body(request, NewKernel)
        return json_response(await self.notebook.create(asked.name, asked.spec, asked.cwd), 201)

    async def show_kernel(self, request: Request) -> Response:
        return json_response(self._kernel(request).info())

    async def end_kernel(self, request: Request) -> Response:
        await self.notebook.end(request.path_params["name"])
        return Response(status_code=204)

    async def interrupt_kernel(self, request: Request) -> Response:
        kernel = self._kernel(request)
        kernel.interrupt()
        return json_response(kernel.info())

    async def restart_kernel(self, request: Request) -> Response:
        kernel = self._kernel(request)
        await kernel.life.restart()
        return json_response(kernel.info())

    async def list_specs(self, request: Request) -> Response:
        return json_response(await self.notebook.specs())

    async def show_cell(self, request: Request) -> Response:
        return json_response(self.notebook.record(request.path_params["name"], request.path_params["id"]))

    def _kernel(self, request: Request) -> NamedKernel:
        return self.notebook.kernel(request.path_params["name"])


class NewKernel(Message, forbid_unknown_fields=True):
    """A kernel to open; what is left out is as for the main one."""

    name: str
    #: A kernelspec: see `/kernelspecs`.
    spec: str | None = None
    #: Where it starts; by default where the shell is.
    cwd: str | None = None


def kernel_endpoints(own: JupyterPlugin) -> list[Endpoint]:
    """Kernels, cells and kernelspecs over HTTP."""
    text: dict[str, Any] = {"type": "string"}
    path = (Parameter("name", text, "The name of the kernel; cells that name none go to `main`."),)
    cell = (*path, Parameter("id", text, "The id of the cell, which is that of its action."))
    one = Reply("The kernel.", KernelInfo)
    unknown = Reply("No kernel has that name.", ErrorBody)
    failed = Reply("It could not be started.", ErrorBody)
    return [
        Endpoint(
            "GET", "/kernels", own.list_kernels, "The kernels of the box",
            {200: Reply("All of them.", _list_of(KernelInfo))},
        ),
        Endpoint(
            "POST", "/kernels", own.create_kernel, "Open a kernel",
            {201: one, 409: Reply("The name is taken.", ErrorBody),
             413: Reply("The body is too large.", ErrorBody),
             422: Reply("The body is not of the right form, or no kernel can be like that.", ErrorBody),
             500: failed},
            body=NewKernel,
        ),
        Endpoint(
            "GET", "/kernels/{name}", own.show_kernel, "A kernel",
            {200: one, 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "DELETE", "/kernels/{name}", own.end_kernel, "End a kernel and everything it started",
            {204: Reply("It is gone."), 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "POST", "/kernels/{name}/interrupt", own.interrupt_kernel, "Interrupt what a kernel runs",
            {200: one, 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "POST", "/kernels/{name}/restart", own.restart_kernel, "Restart a kernel; its variables are lost",
            {200: one, 404: unknown, 500: failed}, path_parameters=path,
        ),
        Endpoint(
            "GET", "/kernels/{name}/cells/{id}", own.show_cell, "A cell with everything it gave out",
            {200: Reply("The cell.", CellRecord),
             404: Reply("There is no such kernel or cell, or the cell is forgotten.", ErrorBody)},
            path_parameters=cell,
        ),
        Endpoint(
            "GET", "/kernelspecs", own.list_specs, "The kinds of kernels that are installed",
            {200: Reply("All of them.", _list_of(KernelSpec))},
        ),
    ]  # fmt: skip


def _list_of(kind: type) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{kind.__name__}"}}
