"""What a caller wants to start: checked, and turned into a program and a record of it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import signal
import time
import uuid

import msgspec

from glovebox.box.services import ProgramSpec
from glovebox.errors import BadProcess
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Message
from glovebox.protocol.processes import ProcessRequest
from glovebox.protocol.terminal import Limits

#: Bytes of the first standard input, of one argument or variable, and of all of them.
MOST_STDIN = 16 << 20
_LONGEST_WORD = 131_071
_MOST_WORDS = 1 << 20
_LONGEST_TAG = 200
_LONGEST_TIMEOUT = 10 * 365 * 86_400.0
_LARGEST_TERMINAL = 10_000


class ProcessRecord(Message):
    """What the next server has to know of a process."""

    id: str
    argv: list[str]
    cwd: str
    user: str
    tag: str
    started: float
    pty: bool = False
    detached: bool = False
    limits: Limits | None = None
    key: str = ""
    fingerprint: str = ""


decode_record = json_decoder(ProcessRecord).decode


def prepare(
    asked: ProcessRequest, *, user: str, working_dir: str, keep: int, key: str, fingerprint: str
) -> tuple[ProgramSpec, ProcessRecord]:
    """The program to start, and what is remembered of it.

    Raises:
        BadProcess: no process can be like that.
    """
    argv = _arguments(asked)
    _check(asked, argv)
    record = ProcessRecord(
        id=uuid.uuid4().hex,
        argv=argv,
        cwd=asked.cwd or working_dir,
        user=asked.user or user,
        tag=asked.tag,
        started=time.time(),
        pty=asked.pty is not None,
        detached=asked.detached,
        limits=asked.limits,
        key=key,
        fingerprint=fingerprint,
    )
    spec = ProgramSpec(
        name=record.id,
        arguments=argv,
        cwd=asked.cwd,
        environment=asked.env,
        bare=asked.clear_env,
        user=asked.user,
        stdin=_first_stdin(asked),
        # A terminal stays open unless all of its input is there.
        stdin_open=asked.stdin_open or (asked.pty is not None and asked.stdin is None),
        timeout=asked.timeout,
        limits=asked.limits,
        size=(asked.pty.rows, asked.pty.columns) if asked.pty else None,
        keep=keep,
        label=msgspec.json.encode(record).decode(),
    )
    return spec, record


def fingerprint_of(asked: ProcessRequest) -> str:
    """What two requests with one idempotency key have to have in common."""
    fields = {
        name: getattr(asked, name) for name in ProcessRequest.__struct_fields__ if name != "idempotency_key"
    }
    return hashlib.sha256(msgspec.json.encode(fields)).hexdigest()


def _arguments(asked: ProcessRequest) -> list[str]:
    if (asked.argv is None) == (asked.shell is None):
        raise BadProcess("Say what to run: either `argv`, a list of words, or `shell`, a text for bash.")
    if asked.shell is not None:
        return ["bash", "-c", asked.shell]
    if not asked.argv or not asked.argv[0]:
        raise BadProcess("`argv` is empty; its first word is the program.")
    return asked.argv


def _check(asked: ProcessRequest, argv: list[str]) -> None:
    """Raises BadProcess for what no process can have."""
    words = [*argv, *(f"{name}={value}" for name, value in asked.env.items()), asked.cwd, asked.user]
    sizes = [len(word.encode("utf-8", "surrogatepass")) for word in words]
    if any("\0" in word for word in words):
        raise BadProcess("Arguments, variables, names and paths cannot contain NUL.")
    if any("\ud800" <= character <= "\udfff" for word in words for character in word if not word.isascii()):
        raise BadProcess("Arguments, variables, names and paths have to be valid Unicode.")
    if max(sizes) > _LONGEST_WORD:
        raise BadProcess(
            f"An argument or variable has more than {_LONGEST_WORD:,} bytes; use stdin or a file."
        )
    if sum(sizes) > _MOST_WORDS:
        raise BadProcess(f"Arguments and variables have more than {_MOST_WORDS:,} bytes together.")
    if any(not name or "=" in name for name in asked.env):
        raise BadProcess("The name of a variable is not empty and contains no `=`.")
    if len(asked.tag) > _LONGEST_TAG:
        raise BadProcess(f"A tag has at most {_LONGEST_TAG} characters.")
    if asked.timeout is not None and not 0 < asked.timeout <= _LONGEST_TIMEOUT:
        raise BadProcess("The timeout must be a number of seconds greater than 0.")
    if asked.limits is not None:
        _check_limits(asked.limits)
    if asked.pty is not None:
        check_size(asked.pty.rows, asked.pty.columns)


def _check_limits(limits: Limits) -> None:
    for name in limits.__struct_fields__:
        value = getattr(limits, name)
        if value is not None and not (math.isfinite(value) and 0 < value < 2**63):
            raise BadProcess(f"The limit {name} must be a number greater than 0 and less than 2^63.")


def check_size(rows: int, columns: int) -> None:
    """Raises BadProcess if no terminal is so large."""
    if not (0 < rows <= _LARGEST_TERMINAL and 0 < columns <= _LARGEST_TERMINAL):
        raise BadProcess(f"A terminal has 1 to {_LARGEST_TERMINAL:,} rows and columns.")


def _first_stdin(asked: ProcessRequest) -> bytes:
    text = asked.stdin or ""
    if asked.stdin_encoding == "utf-8":
        stdin = text.encode("utf-8", "surrogatepass")
    else:
        try:
            stdin = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadProcess(f"`stdin` is not base64: {error}") from None
    if len(stdin) > MOST_STDIN:
        raise BadProcess(
            f"`stdin` has more than {MOST_STDIN:,} bytes. Set `stdin_open`, and write to /processes/ID/stdin."
        )
    return stdin


def signal_name(number: int) -> str:
    """What a signal is called."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def signal_number(name: str) -> int:
    """A signal by its name or number.

    Raises:
        BadProcess: there is no such signal.
    """
    text = name.upper()
    if text.isascii() and text.isdigit() and len(text) < 3 and 0 < int(text) < signal.NSIG:
        return int(text)
    try:
        return signal.Signals["SIG" + text.removeprefix("SIG")].value
    except KeyError:
        raise BadProcess(f"There is no signal {name!r}.") from None
