"""Files and the editor as a plugin."""

from __future__ import annotations

from collections.abc import Iterable

from glovebox.box.executor import Handler
from glovebox.box.files.actions.content import FileActions
from glovebox.box.files.actions.paths import PathActions
from glovebox.box.files.actions.search import SearchActions
from glovebox.box.files.disk.local_files import LocalFiles
from glovebox.box.files.endpoints.archives import archive_endpoints
from glovebox.box.files.endpoints.content import content_endpoints
from glovebox.box.files.endpoints.paths import path_endpoints
from glovebox.box.files.endpoints.request_paths import RequestPaths, default_home
from glovebox.box.files.endpoints.watch import WatchEndpoint, watch_endpoint
from glovebox.box.files.transfer.endpoints import transfer_endpoints
from glovebox.box.plugin import Context, Plugin
from glovebox.http.endpoints import Endpoint, all_active


class FilesPlugin(Plugin):
    """Reading, writing, editing, searching, uploads and downloads."""

    name = "files"
    needs = ("terminal",)
    starts = "first"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        settings, shell, threads = context.settings, context.shell, context.user_threads
        files = self._files = LocalFiles(
            threads, owner=context.services.user_id, reads_memory=context.services.identity is None
        )
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
        settings, threads = self.context.settings, self.context.user_threads
        identity = self.context.services.identity
        user, environment = identity and identity.user, settings.command_environment
        workspace = RequestPaths(
            settings.working_dir, lambda: default_home(user, environment.get("HOME", "")), threads
        )
        files = [
            *content_endpoints(workspace, self._files.locks, settings.max_upload_size),
            *path_endpoints(workspace, self._files),
            *archive_endpoints(workspace, settings.max_upload_size),
            watch_endpoint(WatchEndpoint(workspace, self.context.closing).__call__),
        ]
        # The contract counts actions only, not these transfers.
        return [*transfer_endpoints(settings, threads), *all_active(files)]

    async def stop(self) -> None:
        """Remove the history of edits."""
        await self._content.close()
