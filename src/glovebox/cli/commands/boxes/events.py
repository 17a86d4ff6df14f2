"""`glovebox events`: what happens in a box."""

from __future__ import annotations

import argparse
import time
from typing import Any

from glovebox.cli.options import Commands, add_parser, add_target_arguments

EXAMPLES = """\
examples:
  glovebox events build                    what has happened so far: the newest 10,000 events
  glovebox events -f build                 and what is to come, until Ctrl-C
  glovebox events -f --kinds started,finished --json
                                           actions of the box on 127.0.0.1:8000, for a program
"""
#: What is shown of an event, the most telling first.
_TELLING = ("action", "text", "what", "state", "reason", "observation", "error", "missed")


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "events",
        help="show what happens in a box",
        description="Show the events of a box: actions, their output, commands that end, sessions, kernels, "
        "plugins.",
        examples=EXAMPLES,
    )
    add_target_arguments(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="Go on until the box ends, or Ctrl-C.")
    parser.add_argument("--kinds", default="", metavar="KIND,...", help="Only events of these kinds.")
    parser.add_argument("--json", action="store_true", help="Each event as a line of JSON.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from glovebox.cli import backends, console
    from glovebox.client.connection.events import server_sent_events
    from glovebox.json_codec import decode_json

    query = {"follow": "true" if arguments.follow else "false", "kinds": arguments.kinds}

    async def print_events() -> int:
        address = await backends.target_address(arguments)
        async with backends.connected(address) as connection:
            async for event in server_sent_events(connection, "/events", query=query):
                data = decode_json(event.data, dict[str, Any])
                if arguments.json:
                    console.print_json({"event": event.event, **data})
                else:
                    print(_line(event.event, data), flush=arguments.follow)
        return 0

    return backends.finish(print_events())


def _line(kind: str, data: dict[str, Any]) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(data.get("time", time.time())))
    return f"{when}  {kind:<13} {_told(data)}".rstrip()


def _told(data: dict[str, Any]) -> str:
    """What an event says, on one line, without anything that a terminal would obey."""
    command = data.get("command")
    parts = [command["command"], _ending(command)] if isinstance(command, dict) else []
    if isinstance(process := data.get("process"), dict):
        parts = [" ".join(process["argv"]), _ending(process)]
    parts += [data[name] for name in ("session", "kernel", "plugin") if isinstance(data.get(name), str)]
    parts += [str(data[name]) for name in _TELLING if data.get(name)]
    if "seconds" in data:
        parts.append(f"{data['seconds']:.2f} s")
    text = " ".join("  ".join(filter(None, parts)).split())[:200]
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _ending(command: dict[str, Any]) -> str:
    """The exit code of a command or process, else its signal or state."""
    code = command.get("exit_code")
    return str(command.get("signal") or command.get("state", "")) if code is None else f"exit {code}"
