"""The notebook as a plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.executor import Call, Handler
from glovebox.box.notebook.notebook import MAIN, JupyterOptions, Notebook
from glovebox.box.notebook.state_file import KernelState
from glovebox.box.plugin import Context, Plugin
from glovebox.errors import PluginFailed
from glovebox.http import requests
from glovebox.http.endpoints import Endpoint, Parameter, Reply, Socket
from glovebox.http.responses import ErrorBody, json_response
from glovebox.protocol.actions import IPythonRunCellAction
from glovebox.protocol.base import Message
from glovebox.protocol.notebook import CellRecord, KernelInfo, KernelSpec
from glovebox.protocol.observations import ErrorObservation, IPythonRunCellObservation

#: How long the main kernel may take to answer beside what it does.
_HEALTH_LIMIT = 4.0


class JupyterPlugin(Plugin):
    """Runs cells in IPython, and in other kernels."""

    name = "jupyter"
    options = JupyterOptions
    starts = "background"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._options = context.options(JupyterOptions)
        self._memory = KernelState(context.threads)
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
        return kernel_endpoints(lambda: self.notebook)

    def gauges(self) -> Mapping[str, float]:
        """How many kernels there are."""
        return {"kernels": len(self._notebook.kernels()) if self._notebook else 0}

    async def run_ipython(
        self, action: IPythonRunCellAction, call: Call
    ) -> IPythonRunCellObservation | ErrorObservation:
        return await self.notebook.run_ipython(action, call)

    async def start(self) -> None:
        """Have the main kernel: a new one, or the one of an earlier server."""
        self._notebook = Notebook(
            self._options,
            keeper=self.context.keeper,
            shell=self.context.shell,
            events=self.context.events,
            threads=self.context.threads,
            memory=self._memory,
            skills=self.context.find("agent_skills") is not None,
        )
        await self._notebook.open()

    async def health(self) -> dict[str, Any]:
        """The main kernel, which is asked."""
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
        """Leave the kernels: they end with the box, or wait for the next server."""
        if self._notebook is not None:
            notebook, self._notebook = self._notebook, None
            await notebook.close()


class NewKernel(Message, forbid_unknown_fields=True):
    """A kernel to open; what is left out is as for the main one."""

    name: str
    #: A kernelspec: see `/kernelspecs`.
    spec: str | None = None
    #: Where it starts; by default where the shell is.
    cwd: str | None = None


class KernelEndpoints:
    """The endpoints."""

    def __init__(self, notebook: Callable[[], Notebook]) -> None:
        self._notebook = notebook

    async def all(self, request: Request) -> Response:
        return json_response(self._notebook().kernels())

    async def create(self, request: Request) -> Response:
        asked = await requests.body(request, NewKernel)
        return json_response(await self._notebook().create(asked.name, asked.spec, asked.cwd), 201)

    async def info(self, request: Request) -> Response:
        return json_response(self._notebook().kernel(request.path_params["name"]).info())

    async def end(self, request: Request) -> Response:
        """End a kernel and all it started."""
        await self._notebook().end(request.path_params["name"])
        return Response(status_code=204)

    async def interrupt(self, request: Request) -> Response:
        kernel = self._notebook().kernel(request.path_params["name"])
        kernel.interrupt()
        return json_response(kernel.info())

    async def restart(self, request: Request) -> Response:
        kernel = self._notebook().kernel(request.path_params["name"])
        await kernel.life.restart()
        return json_response(kernel.info())

    async def specs(self, request: Request) -> Response:
        """The kernelspecs that are installed."""
        return json_response(await self._notebook().specs())

    async def cell(self, request: Request) -> Response:
        """A cell with what it gave out."""
        name, cell_id = request.path_params["name"], request.path_params["id"]
        return json_response(self._notebook().record(name, cell_id))


def kernel_endpoints(notebook: Callable[[], Notebook]) -> list[Endpoint]:
    """What is served of kernels."""
    own = KernelEndpoints(notebook)
    text: dict[str, Any] = {"type": "string"}
    path = (Parameter("name", text, "The name of the kernel; cells that name none go to `main`."),)
    cell = (*path, Parameter("id", text, "The id of the cell, which is that of its action."))
    one = Reply("The kernel.", KernelInfo)
    unknown = Reply("No kernel has that name.", ErrorBody)
    failed = Reply("It could not be started.", ErrorBody)
    return [
        Endpoint(
            "GET", "/kernels", own.all, "The kernels of the box",
            {200: Reply("All of them.", _listed(KernelInfo))},
        ),
        Endpoint(
            "POST", "/kernels", own.create, "Open a kernel",
            {201: one, 409: Reply("The name is taken.", ErrorBody),
             413: Reply("The body is too large.", ErrorBody),
             422: Reply("The body is not of the right form, or no kernel can be like that.", ErrorBody),
             500: failed},
            body=NewKernel,
        ),
        Endpoint(
            "GET", "/kernels/{name}", own.info, "A kernel",
            {200: one, 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "DELETE", "/kernels/{name}", own.end, "End a kernel and everything it started",
            {204: Reply("It is gone."), 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "POST", "/kernels/{name}/interrupt", own.interrupt, "Interrupt what a kernel runs",
            {200: one, 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "POST", "/kernels/{name}/restart", own.restart, "Restart a kernel; its variables are lost",
            {200: one, 404: unknown, 500: failed}, path_parameters=path,
        ),
        Endpoint(
            "GET", "/kernels/{name}/cells/{id}", own.cell, "A cell with everything it gave out",
            {200: Reply("The cell.", CellRecord),
             404: Reply("There is no such kernel or cell, or the cell is forgotten.", ErrorBody)},
            path_parameters=cell,
        ),
        Endpoint(
            "GET", "/kernelspecs", own.specs, "The kinds of kernels that are installed",
            {200: Reply("All of them.", _listed(KernelSpec))},
        ),
    ]  # fmt: skip


def _listed(kind: type) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{kind.__name__}"}}
