"""`glovebox mcp`: a box as an MCP server on its standard streams, for clients that start their servers."""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from glovebox import logs, settings
from glovebox.cli.console import Progress, say
from glovebox.cli.options import STARTUP_FAILED, USAGE, Commands, add_parser, add_place_arguments
from glovebox.errors import GloveboxError, SettingsError, StartupError
from glovebox.secret_environment import forbid_inspection
from glovebox.server import port
from glovebox.settings import host
from glovebox.settings.secrets import take_environment

if TYPE_CHECKING:
    from glovebox.box.mcp.server.server import BoxServer
    from glovebox.box.mcp.server.stdio import Pipes
    from glovebox.box.startup import Startup
    from glovebox.client.spec import BoxSpec
    from glovebox.settings import Settings
    from glovebox.settings.host import HostSettings

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

The client starts the box, and the box ends with the client. It is a container if Docker or Podman is there,
else a process that bubblewrap isolates: it sees that directory, and little else of this machine.
"""
#: Settings that the spec of a box has fields for.
_IN_SPEC = frozenset({"working_dir", "plugins", "enable_browser", "username", "user_id"})
#: Backends whose boxes exist already.
_STARTED = ("remote", "vscode")


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "mcp",
        help="be an MCP server on the standard streams",
        description="A box as an MCP server on its standard streams: shells, files and more as tools, the "
        "files of the working directory as resources.",
        examples=EXAMPLES,
    )
    add_place_arguments(parser)
    settings.add_arguments(parser, without=NOT_OFFERED)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client leaves."""
    gc.disable()  # as when serving over HTTP
    from glovebox.box.startup import Startup

    startup = Startup()
    try:
        environment = take_environment()
        # Nothing listens, so no key is required.
        chosen = settings.load({**vars(arguments), "host": "127.0.0.1"}, environment)
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
    place = host.load(environment)
    if _is_here(arguments, place):
        from glovebox.backends.process.backend import NOT_ISOLATED

        say(NOT_ISOLATED)
        work = _serve_box(chosen, startup, pipes)
    else:
        work = _serve_elsewhere(arguments, chosen, place, pipes)
    try:
        port.run(_serve(work))
    except GloveboxError as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return STARTUP_FAILED
    return 0


def _is_here(arguments: argparse.Namespace, place: HostSettings) -> bool:
    """Whether the box is this process, which is not isolated."""
    backend = arguments.backend or place.backend
    isolation = arguments.isolation or ("" if place.image and not backend else place.isolation)
    return isolation == "none" and backend in ("", "process") and not arguments.image


async def _serve(work: Coroutine[Any, Any, None]) -> None:
    """Run until it has ended, or a signal asks for the end."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)
    serving = asyncio.create_task(work)
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


async def _serve_elsewhere(
    arguments: argparse.Namespace, chosen: Settings, place: HostSettings, pipes: Pipes
) -> None:
    """Start a box where the flags say, and pass messages on to it."""
    from glovebox.backends.startup import finish
    from glovebox.box.mcp.config import RemoteServer
    from glovebox.box.mcp.server import stdio
    from glovebox.box.mcp.transports import open_streamable
    from glovebox.client import registry
    from glovebox.client.connection.http import is_loopback

    spec, report = _spec(arguments, chosen, place), Progress(quiet=True)
    loading = asyncio.create_task(_load())  # takes a second; the box starts meanwhile
    async with AsyncExitStack() as stack:
        backend = await registry.choose(arguments.backend, place, spec, report)
        stack.push_async_callback(backend.close)
        sandbox = await backend.start(spec, report)
        stack.push_async_callback(lambda: finish(sandbox.delete()))
        await loading
        address = sandbox.address
        server = RemoteServer(name="box", url=f"{address.url}/mcp/box", transport="http", api_key=address.key)
        log.info("passing messages on to the box %s (%s)", sandbox.name, backend.name)
        async with open_streamable(server, use_proxy=not is_loopback(address.url)) as streams:
            await stdio.relay(pipes, streams)


def _spec(arguments: argparse.Namespace, chosen: Settings, place: HostSettings) -> BoxSpec:
    """The box that the flags and the settings describe."""
    from glovebox.client import registry
    from glovebox.client.spec import BoxSpec, same_place

    backend, _ = registry.resolve(arguments.backend or place.backend, place)
    if backend in _STARTED:
        return BoxSpec(image=arguments.image, isolation=arguments.isolation)
    try:
        os.makedirs(chosen.working_dir, exist_ok=True)
    except OSError as error:
        raise StartupError(f"The working directory {chosen.working_dir} cannot be made: {error}") from error
    return BoxSpec(
        image=arguments.image,
        isolation=arguments.isolation,
        workspace=chosen.working_dir,
        workspace_in_box=same_place(chosen.working_dir),
        env=dict(place.sandbox_env),
        plugins=chosen.plugins,
        browser=chosen.enable_browser,
        user=chosen.username,
        user_id=chosen.user_id,
        arguments=tuple(settings.as_flags(chosen, without=NOT_OFFERED | _IN_SPEC)),
    )


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
