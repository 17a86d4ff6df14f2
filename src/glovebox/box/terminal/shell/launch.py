"""Shells, started or found again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from glovebox.box.terminal.account import Account
from glovebox.box.terminal.shell.bash import Bash
from glovebox.box.terminal.shell.channel import Channel, Connect, Receiver
from glovebox.box.terminal.shell.command_file import Delivery
from glovebox.box.terminal.shell.run import Identity, Run, Typed
from glovebox.box.threads import Threads
from glovebox.errors import StartupError

#: How long the user's startup files may take.
_START_LIMIT = 20.0


async def start_bash(
    connect: Connect, account: Account, *, cwd: str, log: str, threads: Threads
) -> tuple[Bash, Identity]:
    """Start a shell in a directory and wait for its first prompt.

    Raises:
        StartupError: there is no bash, or it does not come to a prompt even without the user's files.
    """
    for user_files in (True, False):
        shell = Bash(threads)
        identity: Identity | None = None
        try:
            async with asyncio.timeout(_START_LIMIT):
                identity = await _begin(shell, connect, account, cwd, log, threads, user_files=user_files)
        except TimeoutError:
            pass
        except OSError as error:
            raise StartupError(f"bash could not be started: {error}") from error
        finally:  # also when whoever waits has given up
            if identity is None:
                await shell.close()
        if identity is not None:
            return shell, identity
    raise StartupError("bash did not come to a prompt")


async def _begin(
    shell: Bash,
    connect: Connect,
    account: Account,
    cwd: str,
    log: str,
    threads: Threads,
    *,
    user_files: bool,
) -> Identity | None:
    delivery = await threads.run(
        Delivery,
        session=shell.session_token,
        token=shell.start_token,
        group=account.gid if account.switch else None,
    )
    rcfile = delivery.startup if user_files else delivery.hooks
    position = 0

    async def open_terminal(receiver: Receiver) -> Channel:
        nonlocal position
        channel = await connect(rcfile=rcfile, token=shell.start_token, cwd=cwd, log=log, receiver=receiver)
        position = channel.position
        return channel

    if not await shell.begin(delivery, open_terminal):
        return None
    return Identity(
        number=shell.channel.number,
        session_token=shell.session_token,
        start_token=shell.start_token,
        directory=delivery.path,
        position=position,
        signs=shell.signs,
    )


def restore_bash(
    identity: Identity,
    delivery: Delivery,
    adopt: Callable[[Receiver, int], Channel],
    *,
    end: int,
    typed: Typed | None,
    threads: Threads,
) -> tuple[Bash, Run]:
    """A shell that an earlier server started, and what it does now: that is in its log, up to `end`.

    `typed` is the last command it was given, if any; without one the log is gone through from its start.
    """
    shell = Bash(threads, identity.session_token, identity.start_token, signs=identity.signs)
    if typed is not None:
        shell.remember(typed)
    position = identity.position if typed is None else typed.position
    return shell, shell.go_on(delivery, adopt, position, end)
