"""`glovebox completion`: what a shell needs to complete this command line."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable
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
class CompletedCommand:
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
    from glovebox.cli.main import build_parser

    print(SCRIPTS[arguments.shell](described(build_parser())), end="")
    return 0


def described(parser: argparse.ArgumentParser) -> list[CompletedCommand]:
    """The commands of a parser."""
    found = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {choice.dest: choice.help or "" for choice in found._choices_actions}
    return [_command(name, summaries.get(name, ""), sub) for name, sub in found.choices.items()]


def _command(name: str, summary: str, parser: argparse.ArgumentParser) -> CompletedCommand:
    flags = tuple(_flag(action) for action in parser._actions if action.option_strings)
    positional = next((action for action in parser._actions if not action.option_strings), None)
    kind = _kind(positional) if positional else ""
    words = tuple(map(str, positional.choices or ())) if positional else ()
    return CompletedCommand(name=name, help=summary, flags=flags, kind=kind, words=words)


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


_BACKENDS = "all process docker remote vscode"
#: Quick, and silent when something is wrong: it runs while somebody types.
_BOXES = "glovebox ls --names 2>/dev/null"
_WITH_COLON = f'({_BOXES} | string replace -r "\\$" :)'
_FISH_BEGIN = """\
# Lets fish complete glovebox: glovebox completion fish | source
function __glovebox_is
    set -l words (commandline -opc)
    set -q words[2]; and test $words[2] = $argv[1]; and not contains -- -- $words
end
function __glovebox_program
    set -l words (commandline -opc)
    set -l dashes (contains -i -- -- $words); or return
    set -l typed (string escape -- $words[(math $dashes + 1)..]) (commandline -ct)
    complete -C "$typed"
end
complete -c glovebox -f
complete -c glovebox -n __fish_use_subcommand -s h -l help -d {own}
complete -c glovebox -n __fish_use_subcommand -l version
complete -c glovebox -a '(__glovebox_program)'"""


def bash(commands: list[CompletedCommand]) -> str:
    """For bash."""
    lines = [
        "# Lets bash complete glovebox: source <(glovebox completion bash)",
        "_glovebox() {",
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}",
        "    local command= words= i",
        "    COMPREPLY=()",
        "    # The two sides of --flag=value are words of their own, and so is what is between them.",
        "    if [[ $current == = ]]; then",
        "        current=",
        "    elif [[ $previous == = ]]; then",
        "        previous=${COMP_WORDS[COMP_CWORD - 2]}",
        "    fi",
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        "        if [[ ${COMP_WORDS[i]} == -- ]]; then",
        '            COMPREPLY=($(compgen -c -- "$current"))',
        "            return",
        "        elif [[ -z $command && ${COMP_WORDS[i]} != -* ]]; then",
        "            command=${COMP_WORDS[i]}",
        "        fi",
        "    done",
        '    case "$command $previous" in',
    ]
    for command in commands:
        for flag in command.flags:
            if flag.takes:
                patterns = "|".join(f"'{command.name} {name}'" for name in flag.names)
                lines.append(f"        {patterns}) {_bash_reply(flag.kind, flag.words)}; return ;;")
    lines += ["    esac", "    case $command in"]
    for command in commands:
        flags = " ".join(name for flag in command.flags for name in flag.names)
        lines += [
            f"        {command.name})",
            f"            if [[ $current == -* ]]; then words={shlex.quote(flags)}; else",
            f"                {_bash_reply(command.kind, command.words)}; return",
            "            fi ;;",
        ]
    names = " ".join(command.name for command in commands)
    lines += [
        f"        '') words={shlex.quote(names + ' --help --version')} ;;",
        "    esac",
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        "complete -o bashdefault -F _glovebox glovebox",
    ]
    return "\n".join(lines) + "\n"


def _bash_reply(kind: str, words: tuple[str, ...]) -> str:
    if words:
        given = f"-W {shlex.quote(' '.join(words))}"
    elif kind == "places":
        # Not as names of files if there are boxes: the colon after a box would be quoted.
        boxes = f'COMPREPLY=($(compgen -S : -W "$({_BOXES})" -- "$current"))'
        files = 'COMPREPLY+=($(compgen -f -- "$current"))'
        return f"{boxes}; compopt -o nospace; [[ $COMPREPLY ]] || compopt -o filenames; {files}"
    elif kind == "directories":
        return 'compopt -o filenames; COMPREPLY=($(compgen -d -- "$current"))'
    elif kind == "files":
        return 'compopt -o filenames; COMPREPLY=($(compgen -f -- "$current"))'
    else:
        given = {"boxes": f'-W "$({_BOXES})"', "backends": f"-W '{_BACKENDS}'", "programs": "-c"}.get(
            kind, "-W ''"
        )
    return f'COMPREPLY=($(compgen {given} -- "$current"))'


def zsh(commands: list[CompletedCommand]) -> str:
    """For zsh."""
    lines = [
        "#compdef glovebox",
        "# Lets zsh complete glovebox: source <(glovebox completion zsh)",
        f'_glovebox_boxes() {{ compadd -- ${{(f)"$({_BOXES})"}} }}',
        f'_glovebox_places() {{ compadd -S : -q -- ${{(f)"$({_BOXES})"}}; _files }}',
        "_glovebox() {",
        "    integer dashes=$words[(i)--]",
        "    if (( dashes < CURRENT )); then",
        "        shift dashes words",
        "        (( CURRENT -= dashes ))",
        "        _normal",
        "        return",
        "    elif (( CURRENT == 2 )) && [[ $words[2] == -* ]]; then",
        "        compadd -- --help --version",
        "        return",
        "    elif (( CURRENT == 2 )); then",
        "        local -a commands=(",
        *(f"            {shlex.quote(f'{command.name}:{command.help}')}" for command in commands),
        "        )",
        "        _describe command commands",
        "        return",
        "    fi",
        "    local command=$words[2]",
        "    shift words",
        "    (( CURRENT-- ))",
        "    case $command in",
    ]
    for command in commands:
        parts = [part for flag in command.flags for part in _zsh_flag(flag)]
        if command.kind or command.words:
            many = "*::" if command.kind == "programs" else "*:"
            parts.append(f"{many}{command.kind or 'choice'}:{_zsh_action(command.kind, command.words)}")
        lines += [f"        {command.name}) _arguments {' '.join(map(shlex.quote, parts))} ;;"]
    lines += [
        "    esac",
        "}",
        'if [[ $funcstack[1] == _glovebox ]]; then _glovebox "$@"; else compdef _glovebox glovebox; fi',
    ]
    return "\n".join(lines) + "\n"


def _zsh_flag(flag: Flag) -> Iterable[str]:
    said = flag.help
    for special in "\\[]:":
        said = said.replace(special, f"\\{special}")
    for name in flag.names:
        value = f":{flag.kind or 'value'}:{_zsh_action(flag.kind, flag.words)}" if flag.takes else ""
        # The value may be a word of its own, or a part of this one.
        joint = ("=" if name.startswith("--") else "+") if flag.takes else ""
        yield f"{'*' if flag.many else ''}{name}{joint}[{said}]{value}"


def _zsh_action(kind: str, words: tuple[str, ...]) -> str:
    if words:
        return f"({' '.join(words)})"
    return {
        "boxes": "_glovebox_boxes",
        "places": "_glovebox_places",
        "backends": f"({_BACKENDS})",
        "directories": "_files -/",
        "files": "_files",
        "programs": "_normal",
    }.get(kind, " ")


def fish(commands: list[CompletedCommand]) -> str:
    """For fish."""
    lines = [_FISH_BEGIN.format(own=_fish("show this help message and exit"))]
    for command in commands:
        lines.append(
            f"complete -c glovebox -n __fish_use_subcommand -a {command.name} -d {_fish(command.help)}"
        )
        seen = f"complete -c glovebox -n {_fish(f'__glovebox_is {command.name}')}"
        lines += [f"{seen} {_fish_flag(flag)}" for flag in command.flags]
        if action := _fish_action(command.kind, command.words):
            lines.append(f"{seen} {action}")
    return "\n".join(lines) + "\n"


def _fish_flag(flag: Flag) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names]
    words = [*names, f"-d {_fish(flag.help)}"]
    if flag.takes:
        # Without -f, paths would be offered along with the rest.
        paths = "" if flag.kind in ("files", "places") else "-f"
        words += ["-r", paths, _fish_action(flag.kind, flag.words)]
    return " ".join(filter(None, words))


def _fish_action(kind: str, words: tuple[str, ...]) -> str:
    if words:
        return f"-a {_fish(' '.join(words))}"
    return {
        "boxes": f"-a {_fish(f'({_BOXES})')}",
        "places": f"-F -a {_fish(_WITH_COLON)}",
        "backends": f"-a {_fish(_BACKENDS)}",
        "directories": f"-a {_fish('(__fish_complete_directories)')}",
        "files": "-F",
        "programs": f"-a {_fish('(__fish_complete_command)')}",
    }.get(kind, "")


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SCRIPTS: dict[str, Callable[[list[CompletedCommand]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
