"""`glovebox completion`: what a shell needs to complete this command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

EXAMPLES = """\
examples:
  source <(glovebox completion bash)                       in ~/.bashrc
  source <(glovebox completion zsh)                        in ~/.zshrc, after compinit
  glovebox completion fish > ~/.config/fish/completions/glovebox.fish
"""

#: What stands for an argument in a usage line tells what completes it.
_KINDS = {
    "BOX": "boxes",
    "BACKEND": "backends",
    "DIR": "directories",
    "FILE": "files",
    "PLACE": "places",
    "COMMAND...": "programs",
}


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of a command."""

    names: tuple[str, ...]
    help: str
    #: Whether a value follows, and whether it may be given again.
    takes: bool
    many: bool
    kind: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its flags, and what follows these."""

    name: str
    help: str
    flags: tuple[Flag, ...]
    kind: str
    words: tuple[str, ...]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Give the command line this command."""
    parser = commands.add_parser(
        "completion",
        help="print a script that lets a shell complete commands",
        description="Print a script with which a shell completes commands, flags and the names of boxes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="Which shell.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from glovebox.cli import completing
    from glovebox.cli.main import build_parser

    print(completing.SCRIPTS[arguments.shell](described(build_parser())), end="")
    return 0


def described(parser: argparse.ArgumentParser) -> list[Command]:
    """The commands of a parser."""
    found = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {choice.dest: choice.help or "" for choice in found._choices_actions}
    return [_command(name, summaries.get(name, ""), sub) for name, sub in found.choices.items()]


def _command(name: str, summary: str, parser: argparse.ArgumentParser) -> Command:
    flags = tuple(_flag(action) for action in parser._actions if action.option_strings)
    positional = next((action for action in parser._actions if not action.option_strings), None)
    kind = _kind(positional) if positional else ""
    words = tuple(map(str, positional.choices or ())) if positional else ()
    return Command(name=name, help=summary, flags=flags, kind=kind, words=words)


def _flag(action: argparse.Action) -> Flag:
    return Flag(
        names=tuple(action.option_strings),
        help=(action.help or "").partition(". ")[0].rstrip("."),
        takes=action.nargs != 0,
        many=isinstance(action, argparse._AppendAction),
        kind=_kind(action),
        words=tuple(str(choice) for choice in action.choices or () if choice),
    )


def _kind(action: argparse.Action) -> str:
    return _KINDS.get(action.metavar if isinstance(action.metavar, str) else "", "")
