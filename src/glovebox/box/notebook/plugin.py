"""The notebook as a plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from glovebox.box.executor import Call, Handler
from glovebox.box.notebook.endpoints import kernel_endpoints
from glovebox.box.notebook.memory import Memory
from glovebox.box.notebook.notebook import MAIN, JupyterOptions, Notebook
from glovebox.box.plugin import Context, Plugin
from glovebox.errors import PluginFailed
from glovebox.http.endpoints import Endpoint, Socket
from glovebox.protocol.actions import IPythonRunCellAction
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
        self._memory = Memory(context.threads)
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
        """`run_ipython`."""
        return [self.run_ipython]

    def endpoints(self) -> Iterable[Endpoint | Socket]:
        """Kernels and their cells."""
        return kernel_endpoints(lambda: self.notebook)

    def gauges(self) -> Mapping[str, float]:
        """How many kernels there are."""
        return {"kernels": len(self._notebook.kernels()) if self._notebook else 0}

    async def run_ipython(
        self, action: IPythonRunCellAction, call: Call
    ) -> IPythonRunCellObservation | ErrorObservation:
        """Run a cell."""
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
