"""Shell commands that the client itself runs in a box: quoting, results, and environment variables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from glovebox.client.backend import BoxClient
from glovebox.errors import ClientError
from glovebox.logs import Mask
from glovebox.protocol.actions import CmdRunAction, IPythonRunCellAction
from glovebox.protocol.base import Message
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation

#: What means the same to a shell with and without quotes.
_BARE = re.compile(r"[a-zA-Z0-9_@%+=:,./-]+")
#: What stays as it is between double quotes; `!` is not among it, as an interactive shell expands it.
_PLAIN = re.compile(r"[^$`\"\\!\x00-\x1f\x7f]*")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)


class ShellResult(Message):
    """How a command ended: -1 if it did not, or could not be run."""

    exit_code: int
    output: str


async def run_in_shell(box: BoxClient, command: str) -> ShellResult:
    """Run a command in the persistent shell."""
    return shell_result(await box.execute(CmdRunAction(command=command)))


async def run_separately(box: BoxClient, command: str, *, cwd: str | None = None) -> ShellResult:
    """Run a command in a shell of its own, whose output is not clipped."""
    action = CmdRunAction(command=command, cwd=cwd, is_static=True, hidden=True, blocking=True, timeout=60.0)
    return shell_result(await box.execute(action))


def shell_result(observation: CmdOutputObservation | ErrorObservation) -> ShellResult:
    """The result of the command of an observation."""
    if isinstance(observation, ErrorObservation):
        return ShellResult(exit_code=-1, output=observation.content)
    return ShellResult(exit_code=observation.metadata.exit_code, output=observation.content)


def quote_word(value: str) -> str:
    """A word for bash, in double quotes if it is plain.

    JSON's quotes, which the contract uses for all values, let a shell expand `$` and back-ticks and keep the
    backslashes of escapes. What is not plain goes into `$'…'`, which has an escape for everything, so
    that line ends and control characters arrive on one line.

    Raises:
        ClientError: no shell can have such a word.
    """
    if "\0" in value:
        raise ClientError("A value with a NUL character cannot be given to a shell.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ClientError("A value that is not Unicode text cannot be given to a shell.") from None
    if _PLAIN.fullmatch(value):
        return json.dumps(value, ensure_ascii=False)
    return "$'" + "".join(_escape(character) for character in value) + "'"


def _escape(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    # `!` in its octal form: some versions expand history before they look at quotes.
    return f"\\{ord(character):03o}" if character < " " or character in "!\x7f" else character


async def add_env_vars(box: BoxClient, values: Mapping[str, str], *, jupyter: bool) -> None:
    """Set variables, by their upper-cased names, in the shell, in later shells, and in the kernel.

    Values arrive exactly as given. A variable that `~/.bashrc` exports already is left unchanged there.

    Raises:
        ClientError: a name is not valid, or a variable could not be set.
    """
    variables = {_checked_name(name): value for name, value in values.items()}
    exports = " ".join(f"export {name}={quote_word(value)};" for name, value in variables.items())
    if jupyter:
        await _add_to_kernel(box, variables)
    if not variables:
        return
    lasting = " ".join(_bashrc_command(*variable) for variable in variables.items())
    for command, where in ((exports, "environment"), (lasting, ".bashrc")):
        result = await run_in_shell(box, command)
        if result.exit_code != 0:
            raise _failure(variables, where, result.output)


def _checked_name(name: str) -> str:
    upper = name.upper()
    if not _VARIABLE.fullmatch(upper):
        raise ClientError(
            f"{name!r} cannot name a variable: use letters, digits and underscores, and no digit at first."
        )
    return upper


def _bashrc_command(name: str, value: str) -> str:
    """Adds the variable to `~/.bashrc`; the line is quoted once more, because `echo` would drop quotes."""
    line = quote_word(f"export {name}={value if _BARE.fullmatch(value) else quote_word(value)}")
    return f'touch ~/.bashrc; grep -q "^export {name}=" ~/.bashrc || printf "%s\\n" {line} >> ~/.bashrc;'


async def _add_to_kernel(box: BoxClient, variables: Mapping[str, str]) -> None:
    # Every JSON string is a Python string, if no character is escaped as two.
    lines = [
        f'os.environ["{name}"] = {json.dumps(value, ensure_ascii=False)}\n'
        for name, value in variables.items()
    ]
    answer = await box.execute(IPythonRunCellAction(code=f"import os\n{''.join(lines)}\n"))
    if isinstance(answer, ErrorObservation):
        raise _failure(variables, "environment", answer.content)


def _failure(variables: Mapping[str, str], where: str, output: str) -> ClientError:
    shown = Mask(variables.values())(output)
    return ClientError(f"Failed to add env vars [{', '.join(variables)}] to {where}: {shown}")
