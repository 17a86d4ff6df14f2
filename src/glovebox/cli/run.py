"""`glovebox run`: a command in a fresh box, or in one that is there."""

from __future__ import annotations

import argparse
import shlex

from glovebox.cli.hosting import USAGE, add_box_arguments, conflict

EXAMPLES = """\
examples:
  glovebox run -- make test                            a command in a fresh box, which is removed then
  glovebox run --workspace . 'make && make check'      a line for the shell, in this directory
  glovebox run --backend docker --image alpine -- cat /etc/os-release
                                                       in a container of any image
  glovebox run --memory 2G --cpus 1.5 --network none --backend docker -- ./untrusted
                                                       with limits
  glovebox run --box build --timeout 60 -- pytest -q   in a box that is there, for a minute at most

The exit status is the command's; 128 and the number of a signal if one ended it; 124 if --timeout did; 1 if
there is no box. Ctrl-C interrupts the command, and a second one leaves. A command's input is empty: what asks
questions wants `glovebox shell`.
"""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Give the command line this command."""
    parser = commands.add_parser(
        "run",
        help="run a command in a fresh box",
        description="Run a command in a fresh box, show what it prints while it does, and remove the box. "
        "Without a command, be a shell.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_box_arguments(parser)
    parser.add_argument(
        "--timeout", type=_seconds, metavar="S", help="End the command after so many seconds."
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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from glovebox.cli.showing import say

    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    problem = conflict(arguments)
    if not problem and not words and (arguments.json or arguments.timeout):
        problem = "--json and --timeout need a command."
    if problem:
        say(problem)
        return USAGE
    if not words:
        from glovebox.cli.shell import run as run_shell

        return run_shell(arguments)
    from glovebox.cli import opening

    return opening.finish(_run(arguments, line_of(words)))


def line_of(words: list[str]) -> str:
    """What the shell of the box is given: a line of its language, or a program and its arguments."""
    line = words[0] if len(words) == 1 and " " in words[0] else shlex.join(words)
    # A shell of its own: `exit` and `cd` are its own affair, several lines are fine, and nobody is asked.
    return f"bash -c {shlex.quote(line)} </dev/null"


async def _run(arguments: argparse.Namespace, line: str) -> int:
    from glovebox.cli.fresh import leaving_on_signals, opened

    with leaving_on_signals():
        async with opened(arguments, quiet=arguments.json) as runtime:
            from glovebox.cli import running  # what it needs is loaded while the box starts

            return await running.run(runtime, arguments, line)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds
