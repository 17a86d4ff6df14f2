"""`glovebox run`: a command in a fresh box, or in one that is there."""

from __future__ import annotations

import argparse

from glovebox.cli.console import say
from glovebox.cli.options import USAGE, Commands, add_box_arguments, add_parser, conflict

EXAMPLES = """\
examples:
  glovebox run -- make test                            a command in a fresh box, which is removed then
  glovebox run --workspace . 'make && make check'      a line for the shell, in this directory
  tar c src | glovebox run -- tar t                    what comes through a pipe reaches the command
  glovebox run -- python3                              on a terminal, the command has one, too
  glovebox run --no-tty -- make 2>errors               its two streams apart, on a terminal as well
  glovebox run --backend docker --image alpine -- cat /etc/os-release
                                                       in a container of any image
  glovebox run --memory 2G --network none --backend docker -- ./untrusted
                                                       with limits
  glovebox run --box build --timeout 60 -- pytest -q   in a box that is there, for a minute at most

The exit status is the command's; 128 and the number of a signal if one ended it; 124 if --timeout did; 127 if
there is no such program; 1 if there is no box. Signals are passed on; without a terminal of its own, the
command gets the first Ctrl-C, and the second leaves.
"""


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "run",
        help="run a command in a fresh box",
        description="Run a command in a fresh box, with the standard streams and the terminal of this one, "
        "and remove the box. Without a command, be a shell.",
        examples=EXAMPLES,
    )
    parser.usage = "%(prog)s [FLAGS] [--] COMMAND..."
    add_box_arguments(parser)
    add_command_arguments(parser)
    parser.set_defaults(run=run)


def add_command_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of a command, and the command itself."""
    parser.add_argument(
        "--timeout", type=_seconds, metavar="S", help="End the command after so many seconds."
    )
    parser.add_argument(
        "--no-tty",
        action="store_true",
        help="No terminal for the command, also if there is one here: standard error stays apart.",
    )
    parser.add_argument(
        "--json", action="store_true", help="Events as JSON lines in place of output: started, output, ended."
    )
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="COMMAND...",
        help="The command and its arguments; one word with blanks is a line for the shell.",
    )


def command_words(arguments: argparse.Namespace) -> list[str]:
    """The words of the command."""
    words: list[str] = arguments.words
    return words[1:] if words[:1] == ["--"] else words


def argv_of(words: list[str]) -> list[str]:
    """The program and its arguments: one word with blanks is a line for the shell."""
    return ["bash", "-c", words[0]] if len(words) == 1 and " " in words[0] else words


def run(arguments: argparse.Namespace) -> int:
    words = command_words(arguments)
    problem = conflict(arguments)
    if not problem and not words and (arguments.json or arguments.timeout or arguments.no_tty):
        problem = "--json, --timeout and --no-tty need a command."
    if problem:
        say(problem)
        return USAGE
    if not words:
        from glovebox.cli.commands.shell import run as run_shell

        return run_shell(arguments)
    from glovebox.cli import backends

    return backends.finish(_run(arguments, words))


async def _run(arguments: argparse.Namespace, words: list[str]) -> int:
    from glovebox.cli.backends import cancel_on_signals, open_runtime
    from glovebox.errors import NotFound

    with cancel_on_signals():
        async with open_runtime(arguments, quiet=arguments.json, load="glovebox.cli.program") as runtime:
            from glovebox.cli.program import run_program, wants_terminal
            from glovebox.protocol.processes import ProcessRequest

            terminal = wants_terminal() and not (arguments.no_tty or arguments.json)
            request = ProcessRequest(argv=argv_of(words), timeout=arguments.timeout)
            stays = bool(arguments.box or arguments.keep)
            try:
                return await run_program(
                    runtime, request, as_json=arguments.json, terminal=terminal, forget=stays
                )
            except NotFound:  # a VS Code window has only shells
                from glovebox.cli.session_command import run_in_session

                return await run_in_session(runtime, words, arguments)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds
