"""A process that is killed while it changes a file leaves the old content or the new one."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

WRITER = """
import itertools, sys
from glovebox.box.files.editor.editor import Editor, EditorCommand
from glovebox.box.files.locks import PathLocks
from glovebox.box.files.writer import write_file

path, locks = sys.argv[1], PathLocks()
editor = Editor(working_dir="/", owner=None, locks=locks)
print("ready", flush=True)
for letter in itertools.cycle("ab"):
    write_file(path, letter * 100_000, 0, -1, owner=None, locks=locks)
    editor.run(EditorCommand(command="insert", path=path, insert_line=1, new_str=letter.upper() * 50_000))
"""


def test_a_kill_at_any_moment_leaves_the_old_content_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("a" * 100_000 + "\n")
    whole = {f"{letter * 100_000}\n" for letter in "ab"}
    whole |= {f"{letter * 100_000}\n{letter.upper() * 50_000}\n" for letter in "ab"}
    moments = random.Random(4711)
    for _ in range(12):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        try:
            writer.wait(timeout=moments.uniform(0.0, 0.05))  # it never ends by itself
        except subprocess.TimeoutExpired:
            writer.kill()
        writer.wait()
        writer.stdout.close()
        assert path.read_text() in whole
