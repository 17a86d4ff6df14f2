"""`glovebox attach`: a session of a box in the caller's own terminal."""

from __future__ import annotations

import argparse
import sys

from glovebox import settings
from glovebox.cli.hosting import FAILED, USAGE, add_backend_argument
from glovebox.errors import SettingsError

EXAMPLES = """\
examples:
  glovebox attach                          take over the main shell of the box on 127.0.0.1:8000
  glovebox attach --watch                  only look on; the agent keeps the shell
  glovebox attach play                     the box that is called so, whatever it is made of
  glovebox attach --session build          another session
  SESSION_API_KEY=... glovebox attach --url https://box.example.org
                                           a box elsewhere, with its key

Ctrl-] detaches. The shell and what runs in it go on, and the agent has it again.
"""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Give the command line this command."""
    parser = commands.add_parser(
        "attach",
        help="take over or watch a session of a box",
        description="Attach this terminal to a session of a box. While you have taken it over, an agent's "
        "commands for it are refused.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", default="", metavar="BOX", help="A box by its name.")
    add_backend_argument(parser, default="all of them.")
    parser.add_argument("--url", help="Address of the box. Default: http://127.0.0.1:8000. [GLOVEBOX_URL]")
    parser.add_argument("--session", default="main", metavar="NAME", help="Which session. Default: main.")
    parser.add_argument("--watch", action="store_true", help="Only watch; do not take the session over.")
    parser.add_argument(
        "--session-api-key-file", metavar="FILE", help="A file that holds the key. [SESSION_API_KEY: the key]"
    )
    parser.add_argument(
        "--escape",
        default="^]",
        metavar="KEY",
        type=_escape,
        help="The key that detaches. Default: ^], Ctrl-].",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Attach until detached."""
    if not arguments.watch and not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("glovebox: attach needs a terminal. Without one, use --watch.", file=sys.stderr)
        return USAGE
    if arguments.name and arguments.url:
        print("glovebox: attach takes the name of a box or its --url, not both.", file=sys.stderr)
        return USAGE
    from glovebox.cli import opening

    return opening.finish(_attach(arguments))


async def _attach(arguments: argparse.Namespace) -> int:
    from glovebox.cli.attached import attach

    url, key = await _whereabouts(arguments)
    problem = await attach(
        address_of(url, arguments.session, watch=arguments.watch),
        key,
        session=arguments.session,
        watch=arguments.watch,
        escape=arguments.escape,
    )
    if problem:
        print(f"glovebox: {problem}", file=sys.stderr)
    return FAILED if problem else 0


async def _whereabouts(arguments: argparse.Namespace) -> tuple[str, str]:
    """The address and the key of the box."""
    if not arguments.name:
        return settings.client(arguments.url, arguments.session_api_key_file)
    from glovebox.cli import opening

    async with opening.box(arguments.name, arguments.backend, opening.settings()) as (_, sandbox):
        return sandbox.address.url, sandbox.address.key


def _escape(text: str) -> bytes:
    """The byte of a key: one character, or ^ and one for a key pressed with Ctrl."""
    if len(text) == 2 and text[0] == "^" and "@" <= text[1].upper() <= "_":
        return bytes([ord(text[1].upper()) & 0x1F])
    if len(text) == 1 and text.isascii():
        return text.encode()
    raise argparse.ArgumentTypeError(f"{text!r} is not a key; write for example ^] for Ctrl-]")


def address_of(url: str, session: str, *, watch: bool) -> str:
    """Where a session is attached to.

    Raises:
        SettingsError: the address is none of a box.
    """
    from urllib.parse import quote, urlsplit

    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(f"{url!r} is not an address of a box; write for example http://127.0.0.1:8000")
    scheme = "wss" if parts.scheme == "https" else "ws"
    path = f"{parts.path.rstrip('/')}/sessions/{quote(session, safe='')}/attach"
    return f"{scheme}://{parts.netloc}{path}" + ("" if watch else "?take=true")
