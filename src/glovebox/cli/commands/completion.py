"""`glovebox completion`: a script with which a shell completes this command line.

By hand: the licence of shtab is not permissive, and argcomplete starts Python at every Tab.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from glovebox.cli.options import Commands, add_parser

EXAMPLES = """\
examples:
  source <(glovebox completion bash)                       in ~/.bashrc
  source <(glovebox completion zsh)                        in ~/.zshrc, after compinit
  glovebox completion fish > ~/.config/fish/completions/glovebox.fish
"""
SHELLS = ("bash", "zsh", "fish")
_BACKENDS = "all process docker remote vscode"
#: Errors are hidden: it runs while the user types.
_BOXES = "glovebox ls --names 2>/dev/null"
#: How bash, zsh and fish complete an argument, by its name in the usage line.
_COMPLETIONS = {
    "BOX": (f'_glovebox_reply -W "$({_BOXES})"', "_glovebox_boxes", f"-a '({_BOXES})'"),
    "BACKEND": (f"_glovebox_reply -W '{_BACKENDS}'", f"({_BACKENDS})", f"-a '{_BACKENDS}'"),
    "DIR": ("compopt -o filenames; _glovebox_reply -d", "_files -/", "-a '(__fish_complete_directories)'"),
    "FILE": ("compopt -o filenames; _glovebox_reply -f", "_files", "-F"),
    # In bash not as names of files if there are boxes: the colon after a box would be quoted.
    "PLACE": (
        f'_glovebox_reply -S : -W "$({_BOXES})"; compopt -o nospace; '
        '[[ $COMPREPLY ]] || compopt -o filenames; COMPREPLY+=($(compgen -f -- "$current"))',
        "_glovebox_places",
        f"-F -a '({_BOXES} | string replace -r \"\\$\" :)'",
    ),
    "COMMAND...": ("_glovebox_reply -c", "_normal", "-a '(__fish_complete_command)'"),
}
_BASH = """\
# Lets bash complete glovebox: source <(glovebox completion bash)
_glovebox_reply() { COMPREPLY=($(compgen "$@" -- "$current")); }
_glovebox() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command= i
    COMPREPLY=()
    # The two sides of --flag=value are words of their own, and so is what is between them.
    if [[ $current == = ]]; then
        current=
    elif [[ $previous == = ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            _glovebox_reply -c
            return
        elif [[ -z $command && ${COMP_WORDS[i]} != -* ]]; then
            command=${COMP_WORDS[i]}
        fi
    done
    case "$command $previous" in
FLAGS
    esac
    case "$command $current" in
COMMANDS
    esac
}
complete -o bashdefault -F _glovebox glovebox
"""
_ZSH = """\
#compdef glovebox
# Lets zsh complete glovebox: source <(glovebox completion zsh)
_glovebox_boxes() { compadd -- ${(f)"$(BOXES)"} }
_glovebox_places() { compadd -S : -q -- ${(f)"$(BOXES)"}; _files }
_glovebox() {
    integer dashes=$words[(i)--]
    if (( dashes < CURRENT )); then
        shift dashes words
        (( CURRENT -= dashes ))
        _normal
        return
    elif (( CURRENT == 2 )) && [[ $words[2] == -* ]]; then
        compadd -- --help --version
        return
    elif (( CURRENT == 2 )); then
        local -a commands=(SUMMARIES)
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
COMMANDS
    esac
}
if [[ $funcstack[1] == _glovebox ]]; then _glovebox "$@"; else compdef _glovebox glovebox; fi
"""
_FISH = """\
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
complete -c glovebox -n __fish_use_subcommand -s h -l help -d 'show this help message and exit'
complete -c glovebox -n __fish_use_subcommand -l version
complete -c glovebox -a '(__glovebox_program)'
COMMANDS
"""


class CompletedCommand(NamedTuple):
    """A command with its flags, and the first argument after these."""

    name: str
    help: str
    flags: list[argparse.Action]
    argument: argparse.Action | None


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "completion",
        help="print a script that lets a shell complete commands",
        description="Print a script with which a shell completes commands, flags and the names of boxes.",
        examples=EXAMPLES,
    )
    parser.add_argument("shell", choices=SHELLS, help="Which shell.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from glovebox.cli.main import build_parser, summaries

    found = next(one for one in build_parser()._actions if isinstance(one, argparse._SubParsersAction))
    helps = summaries()
    commands = []
    for name, parser in found.choices.items():
        flags = [action for action in parser._actions if action.option_strings]
        argument = next((action for action in parser._actions if not action.option_strings), None)
        commands.append(CompletedCommand(name, helps.get(name, ""), flags, argument))
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell](commands), end="")
    return 0


def _complete(action: argparse.Action | None, shell: str) -> str:
    """How a shell completes an argument; empty if it cannot."""
    if action is not None and action.choices:
        words = " ".join(str(choice) for choice in action.choices if choice)
        return {"bash": f"_glovebox_reply -W '{words}'", "zsh": f"({words})", "fish": f"-a '{words}'"}[shell]
    known = _COMPLETIONS.get(action.metavar) if action and isinstance(action.metavar, str) else None
    return known[SHELLS.index(shell)] if known else ""


def _help(flag: argparse.Action) -> str:
    return (flag.help or "").partition(". ")[0].rstrip(".")


def _bash(commands: list[CompletedCommand]) -> str:
    values, words = [], []
    for name, _, flags, argument in commands:
        for flag in flags:
            if flag.nargs != 0:
                patterns = "|".join(f"'{name} {option}'" for option in flag.option_strings)
                values.append(f"        {patterns}) {_complete(flag, 'bash') or ':'}; return ;;")
        options = " ".join(option for flag in flags for option in flag.option_strings)
        words.append(f"        '{name} -'*) _glovebox_reply -W '{options}' ;;")
        words.append(f"        '{name} '*) {_complete(argument, 'bash') or ':'} ;;")
    names = " ".join(command.name for command in commands)
    words.append(f"        ' '*) _glovebox_reply -W '{names} --help --version' ;;")
    return _BASH.replace("FLAGS", "\n".join(values)).replace("COMMANDS", "\n".join(words))


def _zsh(commands: list[CompletedCommand]) -> str:
    lines = []
    for name, _, flags, argument in commands:
        parts = [part for flag in flags for part in _zsh_flag(flag)]
        if argument is not None and (completion := _complete(argument, "zsh")):
            many = "*::" if argument.nargs == argparse.REMAINDER else "*:"
            parts.append(f"{many}{argument.dest}:{completion}")
        lines.append(f"        {name}) _arguments {' '.join(map(shlex.quote, parts))} ;;")
    summaries = " ".join(shlex.quote(f"{command.name}:{command.help}") for command in commands)
    script = _ZSH.replace("BOXES", _BOXES).replace("SUMMARIES", summaries)
    return script.replace("COMMANDS", "\n".join(lines))


def _zsh_flag(flag: argparse.Action) -> Iterator[str]:
    text = _help(flag)
    for special in "\\[]:":
        text = text.replace(special, f"\\{special}")
    many = "*" if isinstance(flag, argparse._AppendAction) else ""
    for name in flag.option_strings:
        if flag.nargs == 0:
            yield f"{many}{name}[{text}]"
        else:  # the value may be a word of its own, or a part of this one
            joint = "=" if name.startswith("--") else "+"
            yield f"{many}{name}{joint}[{text}]:{flag.dest}:{_complete(flag, 'zsh') or ' '}"


def _fish(commands: list[CompletedCommand]) -> str:
    lines = []
    for name, summary, flags, argument in commands:
        lines.append(f"complete -c glovebox -n __fish_use_subcommand -a {name} -d {_fish_quote(summary)}")
        condition = f"complete -c glovebox -n '__glovebox_is {name}'"
        lines += [f"{condition} {_fish_flag(flag)}" for flag in flags]
        if completion := _complete(argument, "fish"):
            lines.append(f"{condition} {completion}")
    return _FISH.replace("COMMANDS", "\n".join(lines))


def _fish_flag(flag: argparse.Action) -> str:
    options = flag.option_strings
    words = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in options]
    words.append(f"-d {_fish_quote(_help(flag))}")
    if flag.nargs != 0:
        completion = _complete(flag, "fish")
        # Without -f, paths would be offered along with the rest.
        words += ["-r", "" if "-F" in completion else "-f", completion]
    return " ".join(filter(None, words))


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
