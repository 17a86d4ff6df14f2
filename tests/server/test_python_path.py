"""A server that is started amid another Python's libraries uses its own; commands see what they are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from glovebox import Box
from tests.box.browser.pages import Browser
from tests.box.notebook.cells import Cells
from tests.support.running import running_box

NAMES = ("argparse", "asyncio", "json", "msgspec", "playwright", "starlette", "traitlets", "uvicorn", "zmq")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Packages that cannot be imported, as those that were compiled for another Python."""
    directory = tmp_path / "foreign"
    for name in NAMES:
        (directory / name).mkdir(parents=True)
        (directory / name / "__init__.py").write_text(f"raise RuntimeError('{name} of another Python')\n")
    (directory / "theirs.py").write_text("answer = 42\n")
    return directory


def test_a_foreign_python_path_is_for_commands_and_not_for_the_server(tmp_path: Path, foreign: Path) -> None:
    flags = ("--plugins", "jupyter", "agent_skills")
    with running_box(tmp_path / "ws", *flags, environment={"PYTHONPATH": str(foreign)}) as box:
        assert box.run("echo $PYTHONPATH") == str(foreign)
        assert "json of another Python" in box.run(f"{sys.executable} -c 'import json' 2>&1 || true")
        cells = Cells(box)
        assert cells.run("import json, zmq, theirs; print(theirs.answer)") == "42"
        assert cells.run("open_file.__name__") == "'open_file'"
        assert cells.run("!echo $PYTHONPATH") == str(foreign)


def test_a_directory_that_a_server_is_started_in_is_not_for_it(tmp_path: Path, foreign: Path) -> None:
    enter = ("env", "-C", str(foreign))
    with running_box(tmp_path / "ws", "--plugins", "jupyter", prefix=enter) as box:
        assert Cells(box).run("6 * 7") == "42"


@pytest.mark.browser
def test_a_foreign_python_path_is_not_for_the_browser(tmp_path: Path, foreign: Path) -> None:
    with running_box(tmp_path / "ws", environment={"PYTHONPATH": str(foreign)}) as box:
        box.run(f"cd {foreign}")
        assert not Browser(box).act('goto("about:blank")').error


def test_a_server_that_a_client_starts_loads_no_customization_of_another_python(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "theirs.py").write_text("answer = 42\n")
    for name in ("sitecustomize", "usercustomize"):
        note = f"open({str(tmp_path / name)!r}, 'w').close()\n"
        (foreign / f"{name}.py").write_text(note)
    place = {"PYTHONPATH": str(foreign), "PYTHONHOME": "/nowhere"}
    with Box(isolation="none", env=place, notebook=True) as box:
        assert box.run("echo $PYTHONPATH $PYTHONHOME").output.split() == [str(foreign), "/nowhere"]
        assert box.notebook.run("import theirs; theirs.answer").value == 42
        assert not list(tmp_path.glob("*customize"))
        assert "pip " in box.notebook.run("!pip --version").output
        assert (tmp_path / "sitecustomize").exists()


def test_every_command_line_starts_amid_foreign_libraries(foreign: Path) -> None:
    for program in ([sys.executable, "-m", "glovebox"], [str(Path(sys.executable).parent / "glovebox")]):
        done = subprocess.run(
            [*program, "--version"],
            env={"PYTHONPATH": str(foreign)},
            cwd=foreign,
            capture_output=True,
            check=True,
        )
        assert done.stdout.startswith(b"glovebox ")
