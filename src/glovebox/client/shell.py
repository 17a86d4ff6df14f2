"""Commands that a runtime runs on its own account, and words that a shell takes exactly as they are."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable

import msgspec

from glovebox.client.protocols import BoxClient
from glovebox.errors import ClientError, GloveboxError
from glovebox.json_codec import decode_json
from glovebox.logs import Mask
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.base import Message
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.protocol.terminal import CommandInfo, SessionInfo

#: What means the same to a shell with and without quotes.
_BARE = re.compile(r"[a-zA-Z0-9_@%+=:,./-]+")
#: What stays as it is between double quotes; `!` is not among it, as an interactive shell expands it.
_PLAIN = re.compile(r"[^$`\"\\!\x00-\x1f\x7f]*")
_TOKENS_OF_URLS = re.compile(r"(?<=://)[^/@\s']+(?=@)")

#: What the box says of a command that has ended, or has taken its shell along.
_ENDED = ("\n[The command completed with exit code", "\n[The shell itself ended")


class Ran(Message):
    """How a command ended: -1 if it did not, or could not be run."""

    exit_code: int
    output: str


async def ran(box: BoxClient, command: str, *, limit: float | None = None) -> Ran:
    """Run a command in the persistent shell."""
    return outcome(await box.execute(CmdRunAction(command=command, timeout=limit)))


async def ran_aside(box: BoxClient, command: str, *, cwd: str | None = None, limit: float = 60.0) -> Ran:
    """Run a command in a shell of its own, whose output is not clipped."""
    action = CmdRunAction(command=command, cwd=cwd, is_static=True, hidden=True, blocking=True, timeout=limit)
    return outcome(await box.execute(action))


async def ran_unattended(box: BoxClient, command: str, *, limit: float) -> Ran:
    """Run a command in the persistent shell. If it asks a question it is ended: nobody is there to answer."""
    deadline = time.monotonic() + limit
    end = await box.execute(CmdRunAction(command=command, timeout=limit))
    text = outcome(end).output
    while isinstance(end, CmdOutputObservation) and _runs_on(end):
        question = await _question(box)
        left = deadline - time.monotonic()
        if question is not None or left <= 0:
            await box.execute(CmdRunAction(command="C-c", is_input=True, timeout=10))
            why = f"It asked: {question}" if question is not None else f"It did not end in {limit:g} seconds."
            return Ran(exit_code=-1, output=f"{text}\n{why}".strip())
        end = await box.execute(CmdRunAction(command="", timeout=left))
        text += outcome(end).output
    return Ran(exit_code=outcome(end).exit_code, output=text)


def outcome(observation: CmdOutputObservation | ErrorObservation) -> Ran:
    """How the command of an observation ended."""
    if isinstance(observation, ErrorObservation):
        return Ran(exit_code=-1, output=observation.content)
    return Ran(exit_code=observation.metadata.exit_code, output=observation.content)


def _runs_on(observation: CmdOutputObservation) -> bool:
    """Whether its command has not ended: one that has may have an exit code that nobody knows."""
    told = observation.metadata
    return told.exit_code == -1 and bool(told.suffix) and not told.suffix.startswith(_ENDED)


async def _question(box: BoxClient) -> str | None:
    """What the running command wants to be told; None if it does not wait, or nobody knows."""
    try:
        session = decode_json(await box.call("GET", "/sessions/main"), SessionInfo)
        if session.command is None:
            return None
        told = await box.call("GET", f"/commands/{session.command}")
    except (GloveboxError, msgspec.DecodeError):  # a box of another kind does not tell
        return None
    command = decode_json(told, CommandInfo)
    return command.prompt if command.state == "waiting_for_input" else None


def bare_or_quoted(value: str) -> str:
    """A word for bash, without quotes where it needs none."""
    return value if _BARE.fullmatch(value) else quoted(value)


def quoted(value: str) -> str:
    """A word for bash, in double quotes if it is plain.

    JSON's quotes, which the contract uses for all values, let a shell expand `$` and back-ticks and keep the
    backslashes of escapes. What is not plain goes into `$'…'`, which has an escape for everything, so
    that also line ends and control characters arrive on one line.

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
    return "$'" + "".join(_escaped(character) for character in value) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    # `!` in its octal form: some versions expand history before they look at quotes.
    return f"\\{ord(character):03o}" if character < " " or character in "!\x7f" else character


def masking(secrets: Iterable[str]) -> Mask:
    """Something that takes these values out of a text."""
    return Mask(secrets)


def without_tokens(text: str) -> str:
    """A text without the names and passwords in its addresses."""
    return _TOKENS_OF_URLS.sub("***", text)
