"""`glovebox url`, `open` and `env`: where a box answers, for people, web browsers and programs."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from glovebox.cli.options import Commands, add_parser, add_target_arguments

if TYPE_CHECKING:
    from glovebox.client.backend import Address

URL_EXAMPLES = """\
examples:
  glovebox url build                       where the box build answers
  glovebox url build --port 3000           where this machine reaches what listens on port 3000 of the box
"""
OPEN_EXAMPLES = """\
examples:
  glovebox open build                      the pages of the box build, in a web browser
  glovebox open                            those of the box on 127.0.0.1:8000
  glovebox open build --port 3000          what listens on port 3000 of the box
  glovebox open build --print              only print the link, which works once
"""
ENV_EXAMPLES = """\
examples:
  eval "$(glovebox env build)"             then:
  curl "$GLOVEBOX_URL/sessions" -H "X-Session-API-Key: $SESSION_API_KEY"
"""
_LIMIT = 10.0


def add_command(commands: Commands) -> None:
    descriptions = {
        "open": (
            "open a box in a web browser",
            "Open the pages of a box in a web browser, which is logged in by a link that works once; or what "
            "listens on a port of the box.",
            OPEN_EXAMPLES,
        ),
        "url": (
            "print where a box answers",
            "Print the address of a box, or where this machine reaches a port of it.",
            URL_EXAMPLES,
        ),
        "env": (
            "print what to export for curl and others",
            "Print the address and the key of a box as lines for a shell. The key is a secret.",
            ENV_EXAMPLES,
        ),
    }  # fmt: skip
    for name, (summary, description, examples) in descriptions.items():
        parser = add_parser(commands, name, help=summary, description=description, examples=examples)
        add_target_arguments(parser)
        if name != "env":
            parser.add_argument("--port", type=int, metavar="PORT", help="A port of the box.")
        if name == "open":
            parser.add_argument("--print", action="store_true", help="Print the link; open nothing.")
        parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the address, or open it."""
    from glovebox.cli import backends

    work = {"url": _url, "open": _open, "env": _env}[arguments.command]
    return backends.finish(work(arguments))


async def _url(arguments: argparse.Namespace) -> int:
    print(await _port_url(arguments) if arguments.port else (await _address(arguments)).url)
    return 0


async def _env(arguments: argparse.Namespace) -> int:
    address = await _address(arguments)
    print(f"export GLOVEBOX_URL={shlex.quote(address.url)}")
    print(f"export SESSION_API_KEY={shlex.quote(address.key)}" if address.key else "unset SESSION_API_KEY")
    if sys.stdout.isatty():
        command = " ".join(["glovebox", "env", *([arguments.name] if arguments.name else [])])
        print(f'# To set them: eval "$({command})"')
    return 0


async def _open(arguments: argparse.Namespace) -> int:
    import asyncio
    import webbrowser

    link = await _port_url(arguments) if arguments.port else await _login_link(await _address(arguments))
    if arguments.print or not await asyncio.to_thread(webbrowser.open, link):
        print(link)
    return 0


async def _address(arguments: argparse.Namespace) -> Address:
    from glovebox.cli.backends import target_address

    return await target_address(arguments)


async def _port_url(arguments: argparse.Namespace) -> str:
    from glovebox.cli.backends import box
    from glovebox.errors import BadSpec

    if not arguments.name:
        raise BadSpec("--port needs the name of a box.")
    async with box(arguments.name, arguments.backend) as (backend, sandbox):
        port: int = arguments.port
        if port in sandbox.ports:
            return sandbox.ports[port]
        if backend.name == "process":  # it shares the ports of this machine
            return f"http://127.0.0.1:{port}"
    raise BadSpec(
        f"Port {port} of the box {arguments.name} is not reached from here. Ports are chosen when a box "
        f"starts: glovebox run --port {port}"
    )


async def _login_link(address: Address) -> str:
    from glovebox.cli.backends import connected
    from glovebox.errors import NotFound
    from glovebox.json_codec import decode_json

    url = address.url.rstrip("/")
    async with connected(address) as connection:
        try:
            answer = await connection.request("POST", "/login/links", limit=_LIMIT)
        except NotFound:  # an older box
            return f"{url}/docs"
    return url + decode_json(answer, dict[str, str])["path"]
