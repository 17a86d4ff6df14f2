"""The notebook as a plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.executor import Call, Handler
from glovebox.box.notebook.kernel import NamedKernel
from glovebox.box.notebook.notebook import MAIN, JupyterOptions, Notebook
from glovebox.box.notebook.supervisor import KernelState
from glovebox.box.plugin import Context, Plugin
from glovebox.errors import PluginFailed
from glovebox.http import parameters
from glovebox.http.endpoints import Endpoint, Parameter, Reply, Socket
from glovebox.http.responses import ErrorBody, json_response
from glovebox.protocol.actions import IPythonRunCellAction
from glovebox.protocol.base import Message
from glovebox.protocol.notebook import CellRecord, KernelInfo, KernelSpec
from glovebox.protocol.observations import ErrorObservation, IPythonRunCellObservation

#: Seconds that the main kernel may take to answer while it may run a cell.
_HEALTH_LIMIT = 4.0


class JupyterPlugin(Plugin):
    """Runs cells in IPython, and in other kernels."""

    name = "jupyter"
    options = JupyterOptions
    starts = "background"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._options = context.options(JupyterOptions)
        self._state = KernelState(context.threads)
        self._notebook: Notebook | None = None

    @property
    def notebook(self) -> Notebook:
        """The kernels.

        Raises:
            PluginFailed: the plugin is not started.
        """
        if self._notebook is None:
            raise PluginFailed("Plugin jupyter is not started.")
        return self._notebook

    def handlers(self) -> Iterable[Handler]:
        return [self.run_ipython]

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        return kernel_endpoints(self)

    def gauges(self) -> Mapping[str, float]:
        return {"kernels": len(self._notebook.kernels()) if self._notebook else 0}

    async def run_ipython(
        self, action: IPythonRunCellAction, call: Call
    ) -> IPythonRunCellObservation | ErrorObservation:
        return await self.notebook.run_ipython(action, call)

    async def start(self) -> None:
        """Start the main kernel, or adopt that of an earlier server."""
        self._notebook = Notebook(self._options, self.context, self._state)
        await self._notebook.open()

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

    async def stop(self) -> None:
        """Disconnect from the kernels: they end with the box, or wait for the next server."""
        if self._notebook is not None:
            notebook, self._notebook = self._notebook, None
            await notebook.close()

    async def list_kernels(self, request: Request) -> Response:
        return json_response(self.notebook.kernels())

    async def create_kernel(self, request: Request) -> Response:
        asked = await parameters.body(request, NewKernel)
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
