"""Variables and the git identity that commands in a box find."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping

from glovebox.client.asking import Asked
from glovebox.client.shell import bare_or_quoted, masking, quoted, ran
from glovebox.errors import ClientError
from glovebox.protocol.actions import IPythonRunCellAction
from glovebox.protocol.observations import ErrorObservation

log = logging.getLogger(__name__)

GIT_USER_NAME = "openhands"
GIT_USER_EMAIL = "openhands@all-hands.dev"
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)


async def setup_initial_env(
    box: Asked,
    initial: Mapping[str, str],
    startup: Mapping[str, str] | None = None,
    *,
    jupyter: bool,
    git_user_name: str = GIT_USER_NAME,
    git_user_email: str = GIT_USER_EMAIL,
) -> None:
    """Give a new box its variables and its git identity.

    Raises:
        ClientError: a variable could not be set.
    """
    await add_env_vars(box, initial, jupyter=jupyter)
    if startup:
        await add_env_vars(box, startup, jupyter=jupyter)
    await set_git_identity(box, git_user_name, git_user_email)


async def set_git_identity(box: Asked, name: str = GIT_USER_NAME, email: str = GIT_USER_EMAIL) -> None:
    """Say who commits. A box without git is none the worse, so a failure is only logged."""
    command = (
        f"git config --global user.name {quoted(name)} && git config --global user.email {quoted(email)}"
    )
    done = await ran(box, command)
    if done.exit_code != 0:
        log.warning("Git config command failed: %s", done.output)


async def add_env_vars(box: Asked, values: Mapping[str, str], *, jupyter: bool) -> None:
    """Set variables, by their upper-cased names, in the shell, in shells to come, and in the kernel.

    A value arrives exactly as it is given, whatever a shell would make of it. One that `~/.bashrc` exports
    already stays there as it is.

    Raises:
        ClientError: a name cannot be one, or a variable could not be set.
    """
    variables = {_checked(name): value for name, value in values.items()}
    words = {name: quoted(value) for name, value in variables.items()}
    if jupyter:
        await _add_to_kernel(box, variables)
    if not variables:
        return
    await _add(
        box, " ".join(f"export {name}={word};" for name, word in words.items()), variables, "environment"
    )
    await _add(box, " ".join(_kept(*variable) for variable in variables.items()), variables, ".bashrc")


def _checked(name: str) -> str:
    upper = name.upper()
    if not _NAME.fullmatch(upper):
        raise ClientError(
            f"{name!r} cannot name a variable: use letters, digits and underscores, and no digit at first."
        )
    return upper


def _kept(name: str, value: str) -> str:
    """What makes shells to come have the variable; the line itself has quotes, which `echo` would lose."""
    line = quoted(f"export {name}={bare_or_quoted(value)}")
    return f'touch ~/.bashrc; grep -q "^export {name}=" ~/.bashrc || printf "%s\\n" {line} >> ~/.bashrc;'


async def _add(box: Asked, command: str, variables: Mapping[str, str], where: str) -> None:
    done = await ran(box, command)
    if done.exit_code != 0:
        raise _failed(variables, where, done.output)


async def _add_to_kernel(box: Asked, variables: Mapping[str, str]) -> None:
    # Every JSON string is a Python string, if no character is escaped as two.
    lines = [
        f'os.environ["{name}"] = {json.dumps(value, ensure_ascii=False)}\n'
        for name, value in variables.items()
    ]
    answer = await box.execute(IPythonRunCellAction(code=f"import os\n{''.join(lines)}\n"))
    if isinstance(answer, ErrorObservation):
        raise _failed(variables, "environment", answer.content)


def _failed(variables: Mapping[str, str], where: str, words: str) -> ClientError:
    shown = masking(variables.values())(words)
    return ClientError(f"Failed to add env vars [{', '.join(variables)}] to {where}: {shown}")
