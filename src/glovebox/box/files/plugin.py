"""Files and the editor as a plugin."""

from __future__ import annotations

from collections.abc import Iterable

from glovebox.box.executor import Handler
from glovebox.box.files.actions.content import FileActions
from glovebox.box.files.actions.paths import PathActions
from glovebox.box.files.actions.search import SearchActions
from glovebox.box.files.disk.local_files import LocalFiles
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
        settings, shell, threads = context.settings, context.shell, context.user_threads
        files = LocalFiles(threads, owner=context.services.user_id)
        self._content = FileActions(
            files,
            shell=shell,
            workspace=lambda: settings.working_dir,
            max_read_bytes=settings.max_read_size,
        )
        self._paths = PathActions(files, shell=shell)
        self._search = SearchActions(shell=shell, threads=threads, identity=context.services.identity)

    def handlers(self) -> Iterable[Handler]:
        return [*self._content.handlers(), *self._search.handlers(), *self._paths.handlers()]

    def endpoints(self) -> Iterable[Endpoint]:
        """Uploads, downloads and lists of files."""
        return transfer_endpoints(self.context.settings, self.context.user_threads)

    async def stop(self) -> None:
        """Remove the history of edits."""
        await self._content.close()
