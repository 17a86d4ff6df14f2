"""`glovebox shell`: a shell in a fresh box, or in one that is there."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from glovebox.cli.options import FAILED, USAGE, Commands, add_box_arguments, add_parser, conflict

if TYPE_CHECKING:
    from glovebox.client.runtime import Runtime

EXAMPLES = """\
examples:
  glovebox shell                           a shell in a fresh box, which is removed when it ends
  glovebox shell --workspace .             in this directory
  glovebox shell --name play --keep        in a box that stays; glovebox rm play removes it
  glovebox shell --box play                in a box that is there

`exit` ends the shell. Ctrl-] leaves it; a fresh box is removed then, too, unless it is kept.
"""

_ESCAPE = b"\x1d"


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "shell",
        help="be a shell in a fresh box",
        description="An interactive shell in a fresh box, which is removed when the shell ends.",
        examples=EXAMPLES,
    )
    add_box_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Until the shell ends or is left."""
    from glovebox.cli import backends
    from glovebox.cli.console import say

    problem = conflict(arguments)
    if not problem and not (sys.stdin.isatty() and sys.stdout.isatty()):
        problem = "a shell needs a terminal. Without one, use: glovebox run -- COMMAND"
    if problem:
        say(problem)
        return USAGE
    return backends.finish(_shell(arguments))


async def _shell(arguments: argparse.Namespace) -> int:
    from glovebox.cli.backends import cancel_on_signals, open_runtime

    with cancel_on_signals():
        async with open_runtime(arguments, quiet=False) as runtime:
            return await _attach(runtime)


async def _attach(runtime: Runtime) -> int:
    from glovebox.cli.commands.attach import address_of, attach
    from glovebox.cli.console import say

    await _ensure_shell(runtime)
    address = address_of(runtime.url, "main", watch=False)
    key = runtime.session_api_key or ""
    problem = await attach(address, key, session="main", watch=False, escape=_ESCAPE, until_exit=True)
    if problem:
        say(problem)
    return FAILED if problem else 0


async def _ensure_shell(runtime: Runtime) -> None:
    """Make sure that there is a shell, without which keys are lost.

    A box answers before its shell is ready, and replaces a shell that has ended only when it is needed.
    """
    from glovebox.json_codec import decode_json
    from glovebox.protocol.actions import CmdRunAction
    from glovebox.protocol.terminal import SessionInfo

    answer = await runtime.call("GET", "/sessions/main")
    if decode_json(answer, SessionInfo).pid is None:
        await runtime.execute(CmdRunAction(command=":"))
