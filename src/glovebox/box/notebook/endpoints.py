"""`/kernels` and `/kernelspecs`: kernels by name, and their cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from glovebox.box.notebook.notebook import Notebook
from glovebox.http import parameters
from glovebox.http.endpoints import Answer, Endpoint, Parameter
from glovebox.http.responses import ErrorBody, json_response
from glovebox.protocol.base import Message
from glovebox.protocol.notebook import CellRecord, KernelInfo, KernelSpec


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
        """Every kernel."""
        return json_response(self._notebook().kernels())

    async def create(self, request: Request) -> Response:
        """Open a kernel."""
        asked = await parameters.body(request, NewKernel)
        return json_response(await self._notebook().create(asked.name, asked.spec, asked.cwd), 201)

    async def info(self, request: Request) -> Response:
        """One kernel."""
        return json_response(self._notebook().kernel(request.path_params["name"]).info())

    async def end(self, request: Request) -> Response:
        """End a kernel and all it started."""
        await self._notebook().end(request.path_params["name"])
        return Response(status_code=204)

    async def interrupt(self, request: Request) -> Response:
        """Interrupt what it runs."""
        kernel = self._notebook().kernel(request.path_params["name"])
        kernel.interrupt()
        return json_response(kernel.info())

    async def restart(self, request: Request) -> Response:
        """Begin anew."""
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
    one = Answer("The kernel.", KernelInfo)
    unknown = Answer("No kernel has that name.", ErrorBody)
    failed = Answer("It could not be started.", ErrorBody)
    return [
        Endpoint(
            "GET", "/kernels", own.all, "The kernels of the box",
            {200: Answer("All of them.", _listed(KernelInfo))},
        ),
        Endpoint(
            "POST", "/kernels", own.create, "Open a kernel",
            {201: one, 409: Answer("The name is taken.", ErrorBody),
             413: Answer("The body is too large.", ErrorBody),
             422: Answer("The body is not of the right form, or no kernel can be like that.", ErrorBody),
             500: failed},
            body=NewKernel,
        ),
        Endpoint(
            "GET", "/kernels/{name}", own.info, "A kernel",
            {200: one, 404: unknown}, path_parameters=path,
        ),
        Endpoint(
            "DELETE", "/kernels/{name}", own.end, "End a kernel and everything it started",
            {204: Answer("It is gone."), 404: unknown}, path_parameters=path,
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
            {200: Answer("The cell.", CellRecord),
             404: Answer("There is no such kernel or cell, or the cell is forgotten.", ErrorBody)},
            path_parameters=cell,
        ),
        Endpoint(
            "GET", "/kernelspecs", own.specs, "The kinds of kernels that are installed",
            {200: Answer("All of them.", _listed(KernelSpec))},
        ),
    ]  # fmt: skip


def _listed(kind: type) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{kind.__name__}"}}
