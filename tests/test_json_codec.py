"""A type that many threads use first at once is decoded by all of them: msgspec alone would crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import glovebox

ROOT = Path(glovebox.__file__).parents[2]
PROCESSES = 20

PROGRAM = """
import pathlib, sys, threading
from glovebox.backends.process.records import BoxDirectory
from glovebox.bundle import pythons
from glovebox.box.terminal.survival import journal
from glovebox.client.connection.answers import decode, error_of
from glovebox.client.connection.events import ServerSentEvent, decode_event
from glovebox.json_codec import convert, decode_json, json_decoder, msgpack_decoder
from glovebox.errors import GloveboxError
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.observations import CmdOutputObservation
from glovebox.protocol.openhands import Codec, decode_observation
from glovebox.protocol.terminal import CommandInfo, SessionInfo
from glovebox.protocol.window import Told as WindowTold

directory = pathlib.Path(sys.argv[1])
codec = Codec([CmdRunAction], [CmdOutputObservation])
WAYS = [
    lambda: codec.decode_action({"action": "run", "args": {"command": "true"}}),
    lambda: decode_observation({"observation": "run", "extras": {"command": "true"}}, [CmdOutputObservation]),
    lambda: journal.load(str(directory / "journal"), str(directory)),
    lambda: BoxDirectory(directory).read(),
    lambda: decode(b"{}", SessionInfo),
    lambda: error_of(500, {}, b'{"detail": "broken"}'),
    lambda: decode_event(ServerSentEvent("state", b'{"command": "1"}', "1")),
    lambda: decode_event(ServerSentEvent("output", b"{}", "1")),
    lambda: decode_json(b"[]", list[CommandInfo]),
    lambda: json_decoder(pythons.Python),
    lambda: convert({}, WindowTold),
    lambda: msgpack_decoder(CommandInfo | SessionInfo),
]
barrier = threading.Barrier(16)

def work():
    for way in WAYS:
        barrier.wait()
        try:
            way()
        except (GloveboxError, ValueError):
            pass  # it is not what was asked for, but it was looked at

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=work) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("all answered")
"""


def test_threads_that_decode_a_type_first_at_once_do_not_crash(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text('{"type": "begun"}\n')
    (tmp_path / "box.json").write_text("{}")
    for _ in range(PROCESSES):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, "all answered\n"), done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "return msgspec.json.decode(data, type=int)",
        "return msgspec.convert(data, int)",
        "return msgspec.json.Decoder(int).decode(data)",
        "return msgspec.msgpack.decode(data, type=int)",
        "return msgspec.msgpack.Decoder(int).decode(data)",
    ],
)
@pytest.mark.parametrize("place", ["src/glovebox/new.py", "src/glovebox/settings/new.py"])
def test_lint_refuses_what_could_crash(line: str, place: str) -> None:
    source = f'"""New."""\n\nimport msgspec\n\n\ndef read(data: bytes) -> int:\n    """Read."""\n    {line}\n'
    command = [sys.executable, "-m", "ruff", "check", "--stdin-filename", place, "-"]
    done = subprocess.run(command, cwd=ROOT, input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "glovebox.json_codec" in done.stdout
