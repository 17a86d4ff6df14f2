"""`glovebox mcp`: a box as an MCP server on its standard streams, for clients that start their servers."""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import logging
import signal
import sys
from typing import TYPE_CHECKING

from glovebox import logs, settings
from glovebox.cli.options import STARTUP_FAILED, USAGE, Commands, add_parser
from glovebox.errors import SettingsError, StartupError
from glovebox.secret_environment import forbid_inspection
from glovebox.server import port
from glovebox.settings.secrets import take_environment

if TYPE_CHECKING:
    from glovebox.box.mcp.server.server import BoxServer
    from glovebox.box.mcp.server.stdio import Pipes
    from glovebox.box.startup import Startup
    from glovebox.settings import Settings

log = logging.getLogger(__name__)

#: Settings that only mean something to a box behind HTTP.
NOT_OFFERED = frozenset({
    "port", "host", "insecure", "session_api_key", "max_upload_size", "max_body_size", "max_header_size",
    "max_url_size", "request_head_seconds", "connections_per_peer", "allowed_hosts", "cors_origins",
    "viewer_url_file", "browsergym_eval_env",
})  # fmt: skip

EXAMPLES = """\
Paste this into the configuration of an MCP client:

  {"mcpServers": {"sandbox": {"command": "glovebox", "args": ["mcp", "--working-dir", "/path/to/project"]}}}

The client starts the box, and the box ends with the client. Commands run as you, in that directory.
"""


def add_command(commands: Commands) -> None:
    """Add this command."""
    parser = add_parser(
        commands,
        "mcp",
        help="be an MCP server on the standard streams",
        description="A box as an MCP server on its standard streams: shells, files and more as tools, the "
        "files of the working directory as resources. Nothing listens on a port.",
        examples=EXAMPLES,
    )
    settings.add_arguments(parser, without=NOT_OFFERED)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client leaves."""
    gc.disable()  # as when serving over HTTP
    from glovebox.box.startup import Startup

    startup = Startup()
    try:
        # Nothing listens, so no key is required.
        chosen = settings.load({**vars(arguments), "host": "127.0.0.1"}, take_environment())
    except SettingsError as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return USAGE
    if sys.stdin is None or sys.stdout is None:
        print("glovebox: mcp needs a standard input and a standard output.", file=sys.stderr)
        return USAGE
    if sys.stdin.isatty():
        print("An MCP client starts this, and talks to it. End with Ctrl-D.", file=sys.stderr)
    from glovebox.box.mcp.server import stdio

    pipes = stdio.claim()
    logs.configure(level=chosen.log_level, as_json=chosen.log_json)
    try:
        port.run(_serve(chosen, startup, pipes))
    except (SettingsError, StartupError) as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return STARTUP_FAILED
    return 0


async def _serve(chosen: Settings, startup: Startup, pipes: Pipes) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)
    serving = asyncio.create_task(_serve_box(chosen, startup, pipes))
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not serving.done():
        serving.cancel()
        await asyncio.wait([serving])
    if not serving.cancelled():
        serving.result()


async def _serve_box(chosen: Settings, startup: Startup, pipes: Pipes) -> None:
    from glovebox.box.box import Box
    from glovebox.box.mcp.plugin import McpPlugin
    from glovebox.box.mcp.server import stdio

    loading = asyncio.create_task(_load())  # takes a second; the box opens meanwhile
    async with Box(chosen, startup) as box:
        kind = await loading
        own = kind(box.toolbox, box.services)
        plugin = box.plugins.find(McpPlugin.name)
        if isinstance(plugin, McpPlugin):
            plugin.router.listen(own.tools_changed)
        gc.freeze()
        gc.enable()
        log.info("serving %s as an MCP server (ready in %.0f ms)", chosen.working_dir, startup.ready())
        box.begin()
        await box.threads.run(forbid_inspection)
        try:
            await stdio.serve(own.server, pipes)
        finally:
            own.close()


async def _load() -> type[BoxServer]:
    from glovebox.box.mcp.transports import load_sdk
    from glovebox.box.threads import Threads

    threads = Threads("glovebox-import", 1)
    try:
        await threads.run(load_sdk)
        module = await threads.run(importlib.import_module, "glovebox.box.mcp.server.server")
    finally:
        threads.close()
    kind: type[BoxServer] = module.BoxServer
    return kind
