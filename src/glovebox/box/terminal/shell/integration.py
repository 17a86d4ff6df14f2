"""The server's half of the shell integration: what to type, and what the marks in the output say. No I/O.

`integration.bash` is the other half. A mark is `ESC ] 1807 ; kind ; token BEL`; the end mark carries more
fields after the token. Kinds: `A` and `B` enclose the prompt, `P` says that a line was entered there, `C`
begins and `D` ends a command's output; between `J` and `D` bash itself reports jobs. `H` says that the
user's own hooks, which run after `D`, are over. Between `T` and `C` is what people see in place of the line
that was typed.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
from pathlib import Path

import msgspec

from glovebox.box.terminal.output.rendering import end_column

#: Names in the directory that the server and the shell share.
COMMAND_FILE = "command"
HOOKS_FILE = "hooks"
STARTUP_FILE = "startup"
#: For a shell that is started ahead.
FUNCTIONS_FILE = "functions"
PLACE_FILE = "place"

_PREFIX = b"\x1b]1807;"
_SEPARATOR = b"\x1f"
#: A mark is at most a path in its longest quoted form; anything longer is output that looks like one.
_LONGEST_MARK = 32_768
_MARK_END = re.compile(rb"[\x07\x1b]")
_QUOTED = re.compile(rb"\$'((?:[^'\\]|\\.)*)'|'([^']*)'|\\(.)|([^'\\$]+)", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|(.))", re.DOTALL)
#: Of a longer command, people who watch see the beginning.
_LONGEST_SHOWN = 4_000
#: Control characters; tabs and line ends are shown as they are.
_NOT_SHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


def _wrapped(text: bytes) -> bytes:
    """A pattern for text that readline has printed: at the right margin it goes to the next line itself."""
    return rb"(?: \r|\r\n\r|\r)?".join(re.escape(bytes([byte])) for byte in text)


#: A line that was typed, marks, and what erases it.
_ERASES = b"\x1b[J"
_TYPED = re.compile(
    _wrapped(b" \\__gb ") + rb"[^;\x07\x1b]+" + _wrapped(b';\\eval "$__gb"') + rb"(?:[ \r\n]|\x1b\[C)*"
    rb"((?:\x1b\]1807;[PT];[\w-]+\x07)+)\x1b\[\d+A\x1b\[\d+G" + re.escape(_ERASES)
)
_SIMPLE_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"e": b"\x1b",
    b"E": b"\x1b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}


class ShellMark(msgspec.Struct, frozen=True):
    """One mark, as found in the output."""

    kind: str
    token: str
    fields: tuple[bytes, ...] = ()
    #: What was printed, for a mark that turns out to be no mark of ours.
    raw: bytes = b""


class EndReport(msgspec.Struct, frozen=True):
    """What the shell reports at the end of a command."""

    exit_code: int
    background_pid: int = -1
    username: str = ""
    hostname: str = ""
    working_dir: str = ""
    python: str = ""

    @classmethod
    def parse(cls, mark: ShellMark) -> EndReport | None:
        """Read an end mark; `None` if it is not one of ours after all."""
        if len(mark.fields) != 6:
            return None
        status, background, user, host, directory, python = mark.fields
        return cls(
            exit_code=_number(status),
            background_pid=_number(background),
            username=_text(user),
            hostname=_text(host),
            working_dir=_text(unquote(directory)),
            python=_text(unquote(python)),
        )


def hooks(*, directory: str, session: str, token: str, ahead: bool = False) -> str:
    """The text of the file that teaches a bash to mark its commands."""
    functions, setup = parts()
    if ahead:
        functions = f"declare -F __gb_hook >/dev/null || . {directory}/{FUNCTIONS_FILE}\n"
    return (
        f"__gb_token={token} __gb_count=0\n"
        "[[ ${__gb_session-} ]] && { __gb_arm; return; }\n"  # it has learned all this before
        f"readonly __gb_file={directory}/{COMMAND_FILE} __gb_session={session}\n"
        f"{functions}{setup}"
    )


@functools.cache
def parts() -> tuple[str, str]:
    """The functions of the integration, and what comes after the user's startup files."""
    text = Path(__file__).with_name("integration.bash").read_text(encoding="utf-8")
    functions, _, setup = text.partition("# After the user's own startup files.\n")
    return functions, setup


#: A bash that was started ahead reads its directory, and enters it as if it had begun there: as at any start,
#: the inherited name of the directory is kept if it is a right one.
_ENTER = """\
. {directory}/functions
IFS= read -r -d '' __gb_place <{directory}/place
__gb_place=("$__gb_place" {inherited} ${{OLDPWD+"$OLDPWD"}})
{{ builtin cd -P -- "$__gb_place" || builtin cd -P -- "${{HOME:-/}}" || builtin cd -P /; }} 2>/dev/null
[[ ${{__gb_place[1]}} == /* && ${{__gb_place[1]}} -ef . ]] && builtin cd -L -- "${{__gb_place[1]}}"
unset OLDPWD; export OLDPWD; [[ ${{__gb_place[2]+set}} ]] && OLDPWD=${{__gb_place[2]}}
unset __gb_place; SECONDS=0
"""


def startup(*, directory: str, ahead: bool = False, inherited: str = "") -> str:
    """The text of the rc file: what an interactive bash reads anyway, then the hooks.

    A bash that reads /etc/bash.bashrc, as Debian's does, has done so by then. One that is started `ahead`
    first waits for the directory to be in; `inherited` is what its environment says of that.
    """
    enter = _ENTER.format(directory=directory, inherited=shlex.quote(inherited)) if ahead else ""
    return f"{enter}[[ -f ~/.bashrc ]] && . ~/.bashrc\n. {directory}/{HOOKS_FILE}\n"


def command_line(token: str, file: str = "") -> bytes:
    """The line to type to run the command that waits in the file; short, as readline takes its time.

    `file` is only named if it is another than the shell knows.

    The token is typed because nothing that is typed can be read again: a program that finds the file learns
    nothing from it.
    """
    words = f"{token} {shlex.quote(file)}" if file else token
    return b' \\__gb %s;\\eval "$__gb"' % os.fsencode(words)


def shown_command(text: str, prompt: bytes, columns: int, line: bytes) -> tuple[bytes, bytes]:
    """What the shell prints over the line that was typed, so that people see the command; and that line.

    `prompt` is what was printed before the line, which begins where its last line ends.
    """
    shown = text.strip("\n")
    if len(shown) > _LONGEST_SHOWN:
        shown = f"{shown[:_LONGEST_SHOWN]}…"
    typed = _NOT_SHOWN.sub(lambda match: f"^{chr(ord(match[0]) ^ 0x40)}", shown).encode("utf-8", "replace")
    begin = end_column(prompt) % columns
    if (begin + len(line)) % columns == 0:  # whether the cursor is on the next line then differs
        line += b" "
    up = (begin + len(line)) // columns + 1
    return b"\x1b[%dA\x1b[%dG\x1b[J%b\n" % (up, begin + 1, typed), line


def without_typed_line(data: bytes) -> bytes:
    """What a terminal printed without the lines that were typed, each as far as it is followed by its text.

    A terminal of the same width erases these lines itself.
    """
    return _TYPED.sub(rb"\1", data) if _ERASES in data else data


def signs(name: str, token: str) -> bool:
    """Whether this name of a shell's process is one that its hook has written for the end of a command."""
    return name.startswith(f"bash:{token[:4]}:")


def begins_prompt(raw: bytes) -> bool:
    """Whether this is the mark before a prompt."""
    return raw.startswith(_PREFIX + b"A;")


def report_line(token: str) -> bytes:
    """The line to type when a prompt came without an end mark: the command took our hook away."""
    return b" { \\__gb_end %s; } >/dev/null 2>&1" % token.encode()


def reload_line(directory: str) -> bytes:
    """The line to type at the prompt of a bash that knows nothing of us."""
    return f" . {directory}/{HOOKS_FILE}".encode()


class MarkParser:
    """Separates marks from output, whatever the pieces the bytes arrive in."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes, offset: int = 0) -> list[tuple[bytes | ShellMark, int]]:
        """The output and the marks in `data`, in order, with their offsets; an incomplete mark is held back.

        `offset` is that of the first byte of `data`.
        """
        if self._held:
            offset -= len(self._held)
            data, self._held = self._held + data, b""
        found: list[tuple[bytes | ShellMark, int]] = []
        written = position = 0
        while (start := data.find(_PREFIX, position)) >= 0:
            body = start + len(_PREFIX)
            end = _MARK_END.search(data, body)
            if end is None and len(data) - start <= _LONGEST_MARK:
                self._held = data[start:]
                if start > written:
                    found.append((data[written:start], offset + written))
                return found
            if end is None or data[end.start()] != 0x07:
                position = body  # an imitation without an end; what follows may be real
                continue
            if start > written:
                found.append((data[written:start], offset + written))
            found.append((_mark(data[start : end.end()]), offset + start))
            written = position = end.end()
        kept = _partial_prefix(data, written)
        if len(data) - kept > written:
            found.append((data[written : len(data) - kept], offset + written))
        if kept:
            self._held = data[-kept:]
        return found


def printable(path: str) -> str:
    """A path as text: bytes that are no UTF-8 cannot travel in JSON."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def unquote(text: bytes) -> bytes:
    """What bash's `${name@Q}` stands for."""
    parts: list[bytes] = []
    for escaped, plain, single, bare in _QUOTED.findall(text):
        parts.append(_ESCAPE.sub(_unescape, escaped) if escaped else plain or single or bare)
    return b"".join(parts)


def _mark(raw: bytes) -> ShellMark:
    head, *fields = raw[len(_PREFIX) : -1].split(_SEPARATOR)
    kind, _, token = head.partition(b";")
    return ShellMark(kind.decode("ascii", "replace"), token.decode("ascii", "replace"), tuple(fields), raw)


def _partial_prefix(data: bytes, start: int) -> int:
    """How many bytes at the end of `data` may be the beginning of a mark."""
    escape = data.rfind(b"\x1b", max(start, len(data) - len(_PREFIX) + 1))
    if escape >= 0 and _PREFIX.startswith(data[escape:]):
        return len(data) - escape
    return 0


def _number(text: bytes) -> int:
    try:
        return int(text)
    except ValueError:
        return -1


def _text(data: bytes) -> str:
    """As the file system functions of Python have it, so a path stays usable."""
    return data.decode("utf-8", "surrogateescape")


def _unescape(match: re.Match[bytes]) -> bytes:
    octal, simple = match.groups()
    return bytes([int(octal, 8) & 0xFF]) if octal else _SIMPLE_ESCAPES.get(simple, simple)
