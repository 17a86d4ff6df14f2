"""`glovebox attach`: a session of a box in the caller's own terminal."""

from __future__ import annotations

import argparse
import sys

from glovebox import settings
from glovebox.errors import SettingsError

FAILED = 1
USAGE = 2

EXAMPLES = """\
examples:
  glovebox attach                          take over the main shell of the box on 127.0.0.1:8000
  glovebox attach --watch                  only look on; the agent keeps the shell
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
    try:
        url, key = settings.client(arguments.url, arguments.session_api_key_file)
        address = _address(url, arguments.session, arguments.watch)
    except SettingsError as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return USAGE
    from glovebox.cli.attached import attach

    problem = attach(address, key, session=arguments.session, watch=arguments.watch, escape=arguments.escape)
    if problem:
        print(f"glovebox: {problem}", file=sys.stderr)
    return FAILED if problem else 0


def _escape(text: str) -> bytes:
    """The byte of a key: one character, or ^ and one for a key pressed with Ctrl."""
    if len(text) == 2 and text[0] == "^" and "@" <= text[1].upper() <= "_":
        return bytes([ord(text[1].upper()) & 0x1F])
    if len(text) == 1 and text.isascii():
        return text.encode()
    raise argparse.ArgumentTypeError(f"{text!r} is not a key; write for example ^] for Ctrl-]")


def _address(url: str, session: str, watch: bool) -> str:
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
