"""`glovebox inspect`: all that is known of a box."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from glovebox.cli.options import Commands, add_parser, add_target_arguments

if TYPE_CHECKING:
    from glovebox.client.connection.http import Connection

EXAMPLES = """\
examples:
  glovebox inspect build                   what the box build is, and what runs in it
  glovebox inspect                         the box on 127.0.0.1:8000
  glovebox inspect build --json            the same for a program
"""
#: Endpoints of a running box, by the name under which their answers are shown.
_PARTS = {"server": "/server_info", "sessions": "/sessions", "processes": "/processes", "plugins": "/plugins"}


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "inspect",
        help="show all that is known of a box",
        description="Show all that is known of a box: what it is made of, where it answers, its shells, "
        "processes and plugins.",
        examples=EXAMPLES,
    )
    add_target_arguments(parser)
    parser.add_argument("--json", action="store_true", help="One JSON document in place of text.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from glovebox.cli import backends, console

    async def inspect() -> int:
        known = await _known(arguments)
        if arguments.json:
            console.print_json(known)
        else:
            print("\n".join(_lines(known)))
        return 0

    return backends.finish(inspect())


async def _known(arguments: argparse.Namespace) -> dict[str, Any]:
    from msgspec import to_builtins

    from glovebox.cli.backends import box, connected, target_address

    known: dict[str, Any] = {}
    if arguments.name:
        async with box(arguments.name, arguments.backend) as (_, sandbox):
            info = await sandbox.info()
            known = {**to_builtins(info), "ports": {str(port): url for port, url in sandbox.ports.items()}}
            if info.state != "running":
                return known
    address = await target_address(arguments)
    async with connected(address) as connection:
        return {**(known or {"url": address.url}), **await _ask(connection)}


async def _ask(connection: Connection) -> dict[str, Any]:
    """The answers of the box itself."""
    from glovebox.errors import NotFound
    from glovebox.json_codec import decode_json

    answers = {}
    for name, path in _PARTS.items():
        try:
            answers[name] = decode_json(await connection.request("GET", path, limit=10.0), Any)
        except NotFound:  # a box of another version or kind
            continue
    return answers


def _lines(known: dict[str, Any]) -> list[str]:
    shown = {
        name: value
        for name, value in known.items()
        if name not in _PARTS and name != "created" and value not in ("", {}, None)
    }
    if known.get("created"):
        shown["created"] = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(known["created"]))
    if "ports" in shown:
        shown["ports"] = ", ".join(f"{port} at {url}" for port, url in shown["ports"].items())
    lines = [f"{name}: {value}" for name, value in shown.items()]
    if "server" in known:
        lines.append(f"up: {known['server']['uptime']:.0f} s, idle for {known['server']['idle_time']:.0f} s")
    for session in known.get("sessions", ()):
        command = (session.get("command") or {}).get("command") or "idle"
        lines.append(f"session {session['name']}: {_one_line(command)} (in {session['cwd']})")
    for process in known.get("processes", ()):
        lines.append(f"process {process['id']}: {process['state']}: {_one_line(' '.join(process['argv']))}")
    plugins = [f"{one['name']} ({one['state']})" for one in known.get("plugins", ())]
    return [*lines, *([f"plugins: {', '.join(plugins)}"] if plugins else [])]


def _one_line(text: str) -> str:
    return " ".join(text.split())[:100]
