"""Files and the editor as a plugin."""

from __future__ import annotations

from collections.abc import Iterable

from glovebox.box.executor import Handler
from glovebox.box.files.actions.content import FileActions
from glovebox.box.files.actions.paths import PathActions
from glovebox.box.files.transfer.endpoints import transfer_endpoints
from glovebox.box.plugin import Context, Plugin
from glovebox.http.endpoints import Endpoint


class FilesPlugin(Plugin):
    """Reading, writing, editing, searching, uploads and downloads."""

    name = "files"
    needs = ("terminal",)
    starts = "first"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._files = FileActions(
            shell=context.shell,
            working_dir=context.settings.working_dir,
            user_id=context.services.user_id,
            threads=context.user_threads,
            max_read_bytes=context.settings.max_read_size,
        )
        self._paths = PathActions(
            shell=context.shell, threads=context.user_threads, identity=context.services.identity
        )

    def handlers(self) -> Iterable[Handler]:
        return [*self._files.handlers(), *self._paths.handlers()]

    def endpoints(self) -> Iterable[Endpoint]:
        """What moves files in and out."""
        return transfer_endpoints(self.context.settings, self.context.user_threads)

    async def stop(self) -> None:
        """Forget the history of edits."""
        await self._files.close()
