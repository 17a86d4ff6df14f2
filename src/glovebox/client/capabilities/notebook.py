"""The notebook of a box: IPython and other kernels."""

from __future__ import annotations

import ast
import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from glovebox.client.connection.link import Link
from glovebox.client.connection.streaming import ActionStream
from glovebox.errors import CellFailed, NotebookError, UnsupportedAction
from glovebox.protocol.actions import IPythonRunCellAction
from glovebox.protocol.events import Output
from glovebox.protocol.notebook import CellRecord, CellStatus, KernelInfo
from glovebox.protocol.observations import ErrorObservation

#: Seconds for a cell that has no limit of its own.
_NO_LIMIT = 7 * 24 * 3600.0
_MISSING = "This box has no notebook: start it with Box(notebook=True) or `glovebox serve --plugins jupyter`."


@dataclass(frozen=True)
class CellOutcome:
    """How a cell ended, and what it gave out."""

    code: str
    #: `ok`, `error`, `interrupted` (its time was over, or it was asked to stop), or `died` with its kernel.
    status: CellStatus
    #: What was printed and shown, as text, with the traceback if there is one.
    output: str
    #: Its result: the value if that is a number, a text, a list or the like, else as text; None without one.
    value: Any
    #: The name of the exception that it raised, or why it was interrupted or died.
    error: str | None
    #: The PNG and JPEG images that it has shown.
    images: list[bytes] = field(default_factory=list)
    #: Everything it has shown, by media type: `{"text/html": "...", "text/plain": "..."}`.
    displays: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the cell came to its end without an exception."""
        return self.status == "ok"

    def check(self) -> Self:
        """The outcome itself if the cell did not fail.

        Raises:
            CellFailed: it did; the text has the traceback.
        """
        if not self.ok:
            raise CellFailed(f"The cell failed: {self.error or self.status}\n{self.output[-2000:]}".rstrip())
        return self

    def save_image(self, path: str | Path, number: int = 0) -> Path:
        """Write one of the images to a file of this machine; its path.

        Raises:
            IndexError: the cell has shown no such image.
        """
        Path(path).write_bytes(self.images[number])
        return Path(path)

    def __str__(self) -> str:
        return self.output

    def __repr__(self) -> str:
        what = f" {self.error}" if self.error else "" if self.value is None else f" {self.value!r:.40}"
        shown = f", {len(self.images)} images" if self.images else ""
        return f"<CellOutcome {self.status}{what}{shown}>"


class AsyncBoxNotebook:
    """`box.notebook`: runs cells in kernels, which keep their variables."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    async def run(
        self,
        code: str,
        *,
        timeout: float | None = None,
        kernel: str = "main",
        on_output: Callable[[str], object] | None = None,
    ) -> CellOutcome:
        """Run a cell to its end. After `timeout` seconds it is interrupted, and variables survive.

        A kernel that does not exist is started. `on_output` gets text as it is printed.
        """
        connection = await self._link.connection()
        action = IPythonRunCellAction(code=code, kernel=kernel, include_extra=False, timeout=timeout)
        stream = ActionStream(connection, action, _NO_LIMIT)
        try:
            async for item in stream:
                if isinstance(item, Output) and on_output is not None:
                    on_output(item.text)
        except UnsupportedAction as error:
            raise NotebookError(_MISSING) from error
        if isinstance(stream.observation, ErrorObservation):
            raise NotebookError(stream.observation.content)
        path = f"/kernels/{quote(kernel, safe='')}/cells/{quote(stream.id, safe='')}"
        record = await self._link.ask(CellRecord, "GET", path)
        content = "" if stream.observation is None else stream.observation.content
        return _outcome(code, content, record)

    async def kernels(self) -> list[KernelInfo]:
        """The kernels of the box."""
        return await self._link.ask_list(KernelInfo, "/kernels")

    async def interrupt(self, kernel: str = "main") -> None:
        """Stop the cell that runs; variables survive."""
        await self._link.send("POST", f"/kernels/{quote(kernel, safe='')}/interrupt")

    async def restart(self, kernel: str = "main") -> None:
        """Begin anew: variables are lost."""
        await self._link.send("POST", f"/kernels/{quote(kernel, safe='')}/restart")


def _outcome(code: str, content: str, record: CellRecord) -> CellOutcome:
    cell = record.cell
    displays = [output.data for output in record.outputs if output.data]
    results = [output.data for output in record.outputs if output.kind == "execute_result"]
    return CellOutcome(
        code=code,
        status=cell.status or "died",
        output=content,
        value=_value(results[-1].get("text/plain", "")) if results else None,
        error=cell.error,
        images=[
            base64.b64decode(data[kind])
            for data in displays
            for kind in ("image/png", "image/jpeg")
            if isinstance(data.get(kind), str)
        ],
        displays=displays,
        seconds=max((cell.ended or 0) - (cell.started or 0), 0.0),
    )


def _value(text: str) -> Any:
    """The value that Python shows as this text, if it can be read back."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return text if "..." in text and not isinstance(value, str) else value  # a long one is not shown whole
