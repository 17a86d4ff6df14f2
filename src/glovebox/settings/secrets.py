"""Takes secrets out of the environment of a server, so that no other process can read them there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from glovebox.errors import SettingsError
from glovebox.secret_environment import erase_secrets, is_secret

#: Names the descriptor of a pipe with secret variables, as the kernel shows an environment.
SECRETS_DESCRIPTOR = "GLOVEBOX_SECRETS_FD"


def take_environment() -> dict[str, str]:
    """The environment with its secrets; afterwards they are neither in it nor to be seen from outside.

    Where the kernel does not let a process erase them, the program is started again, without them.

    Raises:
        SettingsError: secrets were handed over in a way that does not work.
    """
    secrets = _handed_over(os.environ.pop(SECRETS_DESCRIPTOR, ""))
    found = {name: value for name, value in os.environ.items() if is_secret(name)}
    for name in found:
        del os.environ[name]
    secrets |= found
    if found and not erase_secrets():
        _start_again(secrets)
    return {**os.environ, **secrets}


def hand_over(secrets: Mapping[str, str]) -> int:
    """A descriptor that a program reads secret variables from, once, if `SECRETS_DESCRIPTOR` names it.

    Raises:
        SettingsError: they are longer than what a pipe holds.
    """
    block = b"\0".join(os.fsencode(f"{name}={value}") for name, value in secrets.items())
    reads, writes = os.pipe()
    try:
        os.set_blocking(writes, False)
        whole = os.write(writes, block) == len(block)
    except BlockingIOError:
        whole = False
    finally:
        os.close(writes)
    if not whole:
        os.close(reads)
        raise SettingsError(f"The secret variables are too long together: {', '.join(secrets)}")
    return reads


def _handed_over(descriptor: str) -> dict[str, str]:
    if not descriptor:
        return {}
    try:
        with open(int(descriptor), "rb") as file:
            entries = os.fsdecode(file.read()).split("\0")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{SECRETS_DESCRIPTOR}: secrets cannot be read from {descriptor!r}") from error
    return {name: value for name, _, value in (entry.partition("=") for entry in entries) if name}


def _start_again(secrets: Mapping[str, str]) -> None:
    """Become the same program with an environment that has no secrets; returns if that cannot be done."""
    try:
        descriptor = hand_over(secrets)
        os.set_inheritable(descriptor, True)
        environment = {**os.environ, SECRETS_DESCRIPTOR: str(descriptor)}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606
    except (OSError, SettingsError):
        return
