"""A process that is killed while it changes files leaves the old content or the new one of each."""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from pathlib import Path

from glovebox.box.files.disk.safe_directory import PART_PREFIX
from glovebox.box.files.transfer.unzip import SMALL

WRITER = """
import itertools, sys
from glovebox.box.files.editor.editor import Editor, EditorCommand
from glovebox.box.files.disk.local_files import LocalFiles
from glovebox.box.files.machine import complete
from tests.box.files.editing import write_file

path, editor = sys.argv[1], Editor(LocalFiles())
print("ready", flush=True)
for letter in itertools.cycle("ab"):
    write_file(path, letter * 100_000, 0, -1)
    insert = EditorCommand(command="insert", path=path, insert_line=1, new_str=letter.upper() * 50_000)
    complete(editor.run, insert)
"""


def kill_at_work(script: str, *arguments: str, after: float) -> None:
    """Run a script that never ends by itself, and kill it so many seconds after it began to work."""
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as working:
        assert working.stdout is not None
        assert working.stdout.readline() == "ready\n"
        try:
            working.wait(timeout=after)
        except subprocess.TimeoutExpired:
            working.kill()


def test_a_kill_at_any_moment_leaves_the_old_content_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("a" * 100_000 + "\n")
    whole = {f"{letter * 100_000}\n" for letter in "ab"}
    whole |= {f"{letter * 100_000}\n{letter.upper() * 50_000}\n" for letter in "ab"}
    moments = random.Random(4711)
    for _ in range(12):
        kill_at_work(WRITER, str(path), after=moments.uniform(0.0, 0.05))
        assert path.read_text() in whole


UNPACKER = """
import itertools, sys
from glovebox.box.files.transfer.unzip import unpack
from glovebox.box.files.disk.safe_directory import Landing, UnpackLimits

print("ready", flush=True)
for path in itertools.cycle(sys.argv[2:]):
    with open(path, "rb") as file, Landing(sys.argv[1]) as landing:
        unpack(file, landing, UnpackLimits())
"""


def test_a_kill_while_unpacking_leaves_no_file_of_which_a_part_is_missing(tmp_path: Path) -> None:
    sizes = {f"d{number % 3}/{number}": 40_000 + number for number in range(12)} | {"large": SMALL + 1}
    archives = []
    for letter in "ab":
        archives.append(tmp_path / f"{letter}.zip")
        with zipfile.ZipFile(archives[-1], "w") as zipped:
            for name, size in sizes.items():
                zipped.writestr(name, letter * size)
    moments = random.Random(4712)
    inside = tmp_path / "in"
    for _ in range(8):
        kill_at_work(UNPACKER, str(inside), *map(str, archives), after=moments.uniform(0.0, 0.05))
        for path in inside.rglob("*"):
            if path.is_file() and not path.name.startswith(PART_PREFIX):
                size = sizes[str(path.relative_to(inside))]
                assert path.read_text() in ("a" * size, "b" * size)
