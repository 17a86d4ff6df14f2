"""What commands share: help texts, exit statuses, the flags of boxes, and the spec of these flags."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

if TYPE_CHECKING:
    from glovebox.client.spec import BoxSpec, Mount
    from glovebox.settings.host import HostSettings

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

FAILED = 1
USAGE = 2
#: The exit status of a server that cannot start, as the contract has it.
STARTUP_FAILED = 3
INTERRUPTED = 130
TERMINATED = 143

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_MULTIPLES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LEAST_MEMORY = 64 << 20
_DEFAULT_BACKEND = "[GLOVEBOX_BACKEND], else docker if an engine answers and has an image, else process."

#: Those flags of a fresh box that mean nothing to one that is there already.
FRESH_ONLY = (
    "image", "build", "name", "workspace", "volume", "env", "memory", "cpus", "pids", "network", "runtime",
    "isolation", "port", "plugin", "user", "browser", "keep",
)  # fmt: skip


class Parser(argparse.ArgumentParser):
    """A parser with a short usage line, which says what was probably meant."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n{self.format_usage()}All flags: {self.prog} --help\n")

    def refuse(self, word: str) -> NoReturn:
        """Refuse a word of the command line that nothing takes."""
        if not word.startswith("-"):
            self.error(f"{word!r} is one word too many.")
        flags = [flag for action in self._actions for flag in action.option_strings]
        self.error(f"there is no flag {word!r}.{did_you_mean(word.partition('=')[0], flags)}")

    def format_usage(self) -> str:
        self._shorten()
        return super().format_usage()

    def format_help(self) -> str:
        self._shorten()
        return super().format_help()

    def _shorten(self) -> None:
        """Leave flags out of the usage line: the help lists them."""
        if self.usage is None:
            formatter = self._get_formatter()
            words = [
                formatter._format_args(action, action.dest)
                for action in self._actions
                if not action.option_strings
            ]
            self.usage = " ".join(["%(prog)s [FLAGS]", *words])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices if choice]
            reason = f"{value!r} is none of {', '.join(known)}.{did_you_mean(str(value), known)}"
            raise argparse.ArgumentError(action, reason)


class HelpText(argparse.HelpFormatter):
    """Wraps paragraphs; an example that is too long for the terminal has its explanation below it."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap

        lines: list[str] = []
        for block in re.split(r"\n(?=\n|  )|(?<=:)\n", text.rstrip("\n")):
            if not block.startswith("  "):
                blank = "\n" if block.startswith("\n") else ""
                lines.append(blank + textwrap.fill(block.strip(), width))
                continue
            command, _, explanation = block.strip().partition("  ")
            if block.startswith(" " * 10):  # the explanation of the line above
                lines.append(f"      {command}")
            elif len(block) <= width or not explanation:
                lines.append(block)
            else:
                lines += [f"  {command}", f"      {explanation.strip()}"]
        return "\n".join(lines)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question with the known word that is most like this one; empty if none is."""
    import difflib

    found = difflib.get_close_matches(word, list(known), 1, 0.5)
    return f" Did you mean {found[0]}?" if found else ""


def add_parser(commands: Commands, name: str, *, help: str, description: str, examples: str) -> Parser:
    """A command with its help text, to which examples are added as they are written."""
    parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=examples,
        formatter_class=HelpText,
    )
    parser.set_defaults(parser=parser)
    return parser


class _NameOrAddress(argparse.Action):
    """An address in place of a name is the value of `--url`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, "url" if "://" in values else self.dest, values)


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """A box that is there: by its name, or by its address."""
    parser.add_argument(
        "name",
        nargs="?",
        default="",
        metavar="BOX",
        action=_NameOrAddress,
        help="A box by its name, or by its address as with --url. Default: the one at --url.",
    )
    add_backend_argument(parser, default="all of them.")
    parser.add_argument("--url", help="Address of the box. Default: http://127.0.0.1:8000. [GLOVEBOX_URL]")
    parser.add_argument(
        "--session-api-key-file", metavar="FILE", help="A file that holds the key. [SESSION_API_KEY: the key]"
    )


def add_backend_argument(parser: argparse._ActionsContainer, *, default: str) -> None:
    """The flag that says where boxes live."""
    parser.add_argument(
        "--backend",
        default="",
        metavar="BACKEND",
        help="Where boxes live: process, docker, remote, the address of a box, or one that a package adds. "
        f"Default: {default}",
    )


def add_box_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that say what a box should be like, and which one to use."""
    add_backend_argument(parser, default=_DEFAULT_BACKEND)
    parser.add_argument("--box", default="", metavar="BOX", help="Use a box that is there; it stays.")
    parser.add_argument("--name", default="", help="What a fresh box is called. Default: one is made up.")
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--keep", action="store_true", help="The box stays when the command has ended.")
    ends.add_argument("--rm", action="store_true", help="Remove the fresh box afterwards. The default.")
    _add_contents(parser)
    _add_limits(parser)


def add_place_arguments(parser: argparse.ArgumentParser) -> None:
    """Of the flags that say what a box should be like, those that say where it lives."""
    group = parser.add_argument_group("where the box lives")
    add_backend_argument(group, default=_DEFAULT_BACKEND)
    _add_image(group)
    _add_isolation(group)


def _add_image(group: argparse._ActionsContainer) -> None:
    image = "The image of a container. Any Linux image will do. [GLOVEBOX_IMAGE]"
    group.add_argument("--image", default="", help=image)


def _add_isolation(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--isolation",
        default="",
        choices=["bubblewrap", "none"],
        metavar="KIND",
        help="What keeps a process away from this machine: bubblewrap, or none, and its commands can do all "
        "that you can. Default: [GLOVEBOX_ISOLATION], else bubblewrap.",
    )


def _add_contents(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is in a fresh box")
    directory: Any = {"default": "", "metavar": "DIR", "type": _directory}
    many: Any = {"action": "append", "default": []}
    _add_image(group)
    group.add_argument("--build", help="Build the image from the Dockerfile in this directory.", **directory)
    workspace = "The directory to work in. Default: a fresh one that ends with the box."
    group.add_argument("--workspace", help=workspace, **directory)
    volume = "Another directory or volume that the box sees; MODE is rw, ro or overlay."
    group.add_argument("--volume", metavar="HOST:BOX[:MODE]", help=volume, **many)
    env = "What commands find in their environment; without a value, that of here."
    group.add_argument("--env", metavar="NAME[=VALUE]", type=parse_variable, help=env, **many)
    plugin = "A plugin to load: jupyter, agent_skills, ..."
    group.add_argument("--plugin", metavar="PLUGIN", help=plugin, **many)
    group.add_argument("--browser", action="store_true", help="With a browser.")
    group.add_argument(
        "--user", default="", help="Who commands run as. Default: the user who serves the box."
    )
    port = "A port of the box that this machine can reach. Default: any free port here."
    group.add_argument("--port", metavar="BOX[:HOST]", type=_port, help=port, **many)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what a fresh box may do")
    group.add_argument("--memory", type=_memory, metavar="SIZE", help="Memory it may use, such as 2G.")
    group.add_argument("--cpus", type=_cpus, metavar="N", help="CPUs it may use, such as 1.5.")
    group.add_argument("--pids", type=_count, metavar="N", help="Processes it may have.")
    group.add_argument("--network", default="", help="The network of a container; none for no network.")
    group.add_argument("--runtime", default="", help="What runs a container, such as runsc.")
    _add_isolation(group)


def spec_of(arguments: argparse.Namespace, settings: HostSettings) -> BoxSpec:
    """The box that the flags describe.

    Raises:
        BadSpec: there can be no such box.
    """
    from glovebox.client.spec import BoxSpec, checked_name

    return BoxSpec(
        name=checked_name(arguments.name) if arguments.name else "",
        image=arguments.image,
        build=arguments.build,
        workspace=arguments.workspace,
        volumes=_volumes(arguments.volume),
        env={**settings.sandbox_env, **environment_of(arguments.env, settings.environment)},
        plugins=tuple(arguments.plugin),
        browser=arguments.browser,
        user=arguments.user,
        memory=arguments.memory,
        cpus=arguments.cpus,
        pids=arguments.pids,
        network=arguments.network,
        runtime=arguments.runtime,
        isolation=arguments.isolation,
        ports=dict(arguments.port),
        keep=arguments.keep,
    )


def conflict(arguments: argparse.Namespace) -> str:
    """What is wrong with the flags together; empty if nothing is."""
    if arguments.box:
        given = [name for name in FRESH_ONLY if _given(getattr(arguments, name))]
        if given:
            return f"--{given[0]} is for a fresh box, and --box {arguments.box} is there already."
    return ""


def _given(value: Any) -> bool:
    return value is not None and value != "" and value != [] and value is not False


def _volumes(given: list[str]) -> tuple[Mount, ...]:
    from glovebox.client.spec import parse_volumes
    from glovebox.errors import BadSpec

    mounts: list[Mount] = []
    for text in given:
        try:
            mounts += parse_volumes(_expanded(text))
        except BadSpec:
            raise BadSpec(f"--volume {text}: write HOST:BOX[:MODE], for example ./data:/data:ro") from None
    return tuple(mounts)


def _expanded(volume: str) -> str:
    """A path relative to here becomes absolute; a bare name stays the name of a volume."""
    source, colon, rest = volume.partition(":")
    if source.startswith("~"):
        source = os.path.expanduser(source)
    elif source.startswith("."):
        source = os.path.abspath(source)
    return f"{source}{colon}{rest}"


def environment_of(given: list[str], own: Mapping[str, str]) -> dict[str, str]:
    """The variables of flags; one without a value has the one of here, if there is one."""
    values = {}
    for text in given:
        name, equals, value = text.partition("=")
        if equals:
            values[name] = value
        elif name in own:
            values[name] = own[name]
    return values


def parse_variable(text: str) -> str:
    """A flag that sets a variable."""
    if not _VARIABLE.fullmatch(text.partition("=")[0]):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return text


def _directory(text: str) -> str:
    if text and not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"there is no directory {text!r}")
    return os.path.abspath(text) if text else ""


def _memory(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write for example 512M or 2G")
    size = int(float(match[1]) * _MULTIPLES[match[2].lower()])
    if size < _LEAST_MEMORY:
        raise argparse.ArgumentTypeError(f"{text!r} is too little for a box; give at least 64M")
    return size


def _cpus(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of CPUs; write for example 1.5")
    return number


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes")
    return int(text)


def _port(text: str) -> tuple[int, int]:
    in_box, _, here = text.partition(":")
    ports = [int(port) if port.isdecimal() else -1 for port in (in_box, here or "0")]
    if not 1 <= ports[0] <= 65_535 or not 0 <= ports[1] <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form BOX or BOX:HOST, two port numbers")
    return ports[0], ports[1]
