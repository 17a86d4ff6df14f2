"""`glovebox exec`: a command in a box that is there."""

from __future__ import annotations

import argparse

from glovebox.cli.commands.run import add_command_arguments, argv_of, command_words
from glovebox.cli.options import Commands, add_backend_argument, add_parser, environment_of, parse_variable

EXAMPLES = """\
examples:
  glovebox exec build -- make test                   a command in the box build
  glovebox exec build 'cd src && make'               a line for the shell
  echo 'print(6 * 7)' | glovebox exec build python3  what comes through a pipe reaches the command
  glovebox exec build bash                           a shell of your own, with colours, on a terminal
  glovebox exec --user root --workdir /tmp build id  as another user, elsewhere

The exit status is the command's, as of glovebox run. The command has no part of the sessions of the box; to
take over one of these, use glovebox attach.
"""


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "exec",
        help="run a command in a box that is there",
        description="Run a command in a box that is there. One that is stopped or paused goes on.",
        examples=EXAMPLES,
    )
    parser.usage = "%(prog)s [FLAGS] BOX [--] COMMAND..."
    parser.add_argument("box", metavar="BOX", help="Which box.")
    add_backend_argument(parser, default="all of them.")
    env = "A variable for the command; without a value, that of here; may be repeated."
    parser.add_argument(
        "-e", "--env", metavar="NAME[=VALUE]", type=parse_variable, action="append", default=[], help=env
    )
    parser.add_argument("-u", "--user", default="", help="Who it runs as. Default: the user of the box.")
    parser.add_argument(
        "-w", "--workdir", default="", metavar="PATH", help="Where it runs. Default: the workspace."
    )
    add_command_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    words = command_words(arguments)
    if not words:
        arguments.parser.error("there is no command. For a shell: glovebox exec BOX bash")
    from glovebox.cli import backends

    return backends.finish(_exec(arguments, words))


async def _exec(arguments: argparse.Namespace, words: list[str]) -> int:
    from glovebox.cli.backends import cancel_on_signals, existing_box
    from glovebox.cli.program import run_program, wants_terminal
    from glovebox.protocol.processes import ProcessRequest
    from glovebox.settings import host

    request = ProcessRequest(
        argv=argv_of(words),
        cwd=arguments.workdir,
        env=environment_of(arguments.env, host.load().environment),
        user=arguments.user,
        timeout=arguments.timeout,
    )
    terminal = wants_terminal() and not (arguments.no_tty or arguments.json)
    with cancel_on_signals():
        async with existing_box(arguments.box, arguments.backend) as runtime:
            return await run_program(runtime, request, as_json=arguments.json, terminal=terminal)
