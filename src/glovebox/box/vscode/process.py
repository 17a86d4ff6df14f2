"""The process of VS Code's server, which runs as the sandbox user."""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING

import msgspec

from glovebox.box.services import Keeper, ServiceProcess
from glovebox.box.supervised import Streams, connect, keep_process, until_ready
from glovebox.box.vscode.installation import ServerProgram
from glovebox.errors import PluginFailed
from glovebox.settings import Settings

if TYPE_CHECKING:
    from glovebox.box.vscode.plugin import VSCodeOptions

NAME = "vscode"
_SOCKET = "s"
_TOKEN_FILE = "token"  # noqa: S105
_SETTINGS = "settings.json"
_ASK_LIMIT = 4.0
_LONGEST_ANSWER = 1 << 16
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LAST_LINES = 5
#: What a workspace without settings of its own gets, as the contract has it.
WORKSPACE_SETTINGS = {
    "workbench.colorTheme": "Default Dark Modern",
    "workbench.startupEditor": "none",
    "chat.commandCenter.enabled": False,
}
#: Runs as the sandbox user, so that nothing can be written that this user could not write. Arguments: the
#: process' own directory, the workspace, the directories for data and extensions, and the server.
_STARTER = """
own=$1 workspace=$2 data=$3 extensions=$4; shift 4
if ! [ -e "$workspace/.vscode/settings.json" ] && ! [ -L "$workspace/.vscode/settings.json" ]; then
  mkdir -p "$workspace/.vscode" && cp "$own/settings.json" "$workspace/.vscode/settings.json" &&
    chmod 0666 "$workspace/.vscode/settings.json"
fi
data=${data:-${XDG_DATA_HOME:-$HOME/.local/share}/glovebox/vscode-data}
mkdir -p "$data" && [ -w "$data" ] || data=$own/data
exec "$@" --server-data-dir "$data" --extensions-dir "${extensions:-$data/extensions}"
"""


class ServerProcess:
    """A server that runs."""

    def __init__(self, kept: ServiceProcess, base_path: str) -> None:
        self.kept = kept
        self._base_path = base_path

    @classmethod
    async def start(
        cls,
        keeper: Keeper,
        program: ServerProgram,
        token: str,
        base_path: str,
        settings: Settings,
        options: VSCodeOptions,
    ) -> ServerProcess:
        """Start one and wait until it answers.

        Raises:
            PluginFailed: it does not start.
        """
        workspace = settings.workspace_base or settings.working_dir
        files = {_TOKEN_FILE: token.encode(), _SETTINGS: _workspace_settings()}
        command = _arguments(program, base_path, workspace, options)
        try:
            kept = await keep_process(keeper, NAME, command, cwd=settings.working_dir, files=files)
        except OSError as error:
            raise PluginFailed(f"VS Code's server could not be started: {error}") from error
        process = cls(kept, base_path)
        await until_ready(process.wait(options.start_limit), kept.close)
        return process

    async def wait(self, limit: float) -> None:
        """Wait until it takes connections.

        Raises:
            PluginFailed: it does not.
        """
        try:
            _, writer = await connect(self.kept, _SOCKET, limit)
        except OSError as error:
            raise PluginFailed(await self._describe_failure(limit)) from error
        writer.close()

    async def connect(self) -> Streams:
        """Connect to it.

        Raises:
            OSError: it takes no connection.
        """
        return await asyncio.open_unix_connection(os.path.join(self.kept.directory, _SOCKET))

    async def version(self) -> str:
        """The version that it answers with over HTTP.

        Raises:
            PluginFailed: it does not answer.
        """
        try:
            async with asyncio.timeout(_ASK_LIMIT):
                status, body = await self._get(f"{self._base_path}/version")
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise PluginFailed(
                f"VS Code's server (pid {self.kept.pid}) does not answer: {error!r}"
            ) from error
        if status != 200:
            raise PluginFailed(f"VS Code's server (pid {self.kept.pid}) answers with status {status}.")
        return body.strip()

    async def _get(self, path: str) -> tuple[int, str]:
        reader, writer = await self.connect()
        try:
            writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            answer = await reader.read(_LONGEST_ANSWER)
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), body.decode("utf-8", "replace")

    async def last_output(self) -> str:
        lines = _COLOURS.sub("", await self.kept.printed(8000)).splitlines()
        return "\n".join([line for line in lines if line.strip()][-_LAST_LINES:]) or "nothing"

    async def _describe_failure(self, limit: float) -> str:
        """Why it takes no connections."""
        printed = await self.last_output()
        if "ermission denied" in printed:
            printed += (
                "\nThe sandbox user cannot run it: install it where all users may read, for example with "
                "glovebox vscode install --to /opt/vscode, and set GLOVEBOX_VSCODE=/opt/vscode."
            )
        if not self.kept.exited.done():
            return f"VS Code's server did not answer within {limit:.0f} s. It printed: {printed}"
        return f"VS Code's server did not start. It printed: {printed}"


def _arguments(program: ServerProgram, base_path: str, workspace: str, options: VSCodeOptions) -> list[str]:
    """The command line, which has no secret on it."""
    flags = ["--socket-path", "{directory}/" + _SOCKET]
    flags += ["--connection-token-file", "{directory}/" + _TOKEN_FILE]
    flags += ["--accept-server-license-terms", "--disable-workspace-trust"]
    flags += ["--telemetry-level", "off", "--reconnection-grace-time", str(options.grace)]
    if base_path:
        flags += ["--server-base-path", base_path]
    starter = ["/bin/sh", "-c", _STARTER, "sh", "{directory}", workspace]
    return [*starter, options.data_dir, options.extensions_dir, *program.command, *flags]


def _workspace_settings() -> bytes:
    return msgspec.json.format(msgspec.json.encode(WORKSPACE_SETTINGS), indent=2)
