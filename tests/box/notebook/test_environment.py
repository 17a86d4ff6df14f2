"""The environment of kernels: what it begins with, and that cells change it and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from glovebox.settings import kernel_packages
from tests.box.notebook.cells import Cells
from tests.support.running import running_box
from tests.support.users import PYTHON_PATH, public_directory, usable_interpreter

JUPYTER = ("--plugins", "jupyter")
SERVER_PACKAGES = Path(sysconfig.get_paths()["purelib"])
USER = "nobody"


def make_wheel(directory: Path, name: str) -> Path:
    """A package that can be installed without a network."""
    path = directory / f"{name}-1-py3-none-any.whl"
    about = f"{name}-1.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "answer = 42\n")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    path.chmod(0o644)
    return path


def listing() -> list[str]:
    return sorted(os.listdir(SERVER_PACKAGES))


def restart(cells: Cells) -> None:
    assert cells.box.client.post("/kernels/main/restart").status_code == 200
    assert "it was restarted" in cells.run("pass")  # said once


@pytest.mark.parametrize("install", ["%pip install", "!pip install", "!python -m pip install"])
def test_cells_install_packages_for_kernels_and_never_for_the_server(tmp_path: Path, install: str) -> None:
    wheel, before = make_wheel(tmp_path, "mine"), listing()
    with running_box(tmp_path / "ws", *JUPYTER) as box:
        cells = Cells(box)
        assert "ModuleNotFoundError" in cells.run("import mine")
        assert "Successfully installed mine-1" in cells.run(f"{install} --no-index {wheel}")
        assert cells.run("import mine; print(mine.answer, mine.__file__.startswith(sys.prefix))") == "42 True"
        assert Cells(box, "another").run("import mine; print(mine.answer)") == "42"
        restart(cells)
        assert cells.run("import mine; print(mine.answer)") == "42"
        assert "Successfully uninstalled mine-1" in cells.run("%pip uninstall -y mine")
    assert listing() == before
    with running_box(tmp_path / "ws", *JUPYTER) as box:
        assert "ModuleNotFoundError" in Cells(box).run("import mine")


def test_packages_of_the_server_are_not_replaced_by_those_of_cells(tmp_path: Path) -> None:
    wheel, before = make_wheel(tmp_path, "msgspec"), listing()
    flags = (*JUPYTER, "--plugin-options", f"jupyter.packages={sys.prefix}")
    with running_box(tmp_path / "ws", *flags) as box:
        cells = Cells(box)
        assert cells.run("import msgspec; print(hasattr(msgspec, 'Struct'))") == "True"
        assert "Successfully installed msgspec-1" in cells.run(
            f"%pip install --force-reinstall --no-index {wheel}"
        )
        restart(cells)
        assert cells.run("import msgspec; print(hasattr(msgspec, 'Struct'), msgspec.answer)") == "False 42"
    assert listing() == before


@pytest.mark.skipif(not kernel_packages(), reason="`make setup` has not made .venv-kernel")
def test_kernels_have_pandas_numpy_and_matplotlib_and_no_package_of_the_server(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", *JUPYTER, "agent_skills") as box:
        cells = Cells(box)
        assert cells.run("import numpy, pandas; print(pandas.Series(numpy.arange(4)).sum())") == "6"
        drawn = cells.observation("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
        assert drawn["extras"]["image_urls"][0].startswith("data:image/png;base64,")
        assert "ModuleNotFoundError" in cells.run("import starlette")
        made = tmp_path / "a.txt"
        assert "File created" in cells.run(f"print(file_editor('create', {str(made)!r}, file_text='é'))")
        assert made.read_text(encoding="utf-8") == "é"


def test_an_environment_that_was_removed_is_made_again(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", *JUPYTER) as box:
        cells = Cells(box)
        prefix = Path(cells.run("print(sys.prefix)"))
        assert prefix.parent == tmp_path / ".local/share/glovebox"
        shutil.rmtree(prefix)
        restart(cells)
        assert cells.run("print(sys.prefix)") == str(prefix)


def test_a_home_that_cannot_be_written_is_not_needed(tmp_path: Path) -> None:
    environment = {"HOME": "/proc/nowhere", "TMPDIR": str(tmp_path)}
    with running_box(tmp_path / "ws", *JUPYTER, environment=environment) as box:
        assert (
            Cells(box)
            .run("print(sys.prefix.rpartition('/')[0])")
            .endswith(f"/glovebox-kernels-{os.geteuid()}")
        )


def test_a_directory_that_is_no_environment_is_refused(tmp_path: Path) -> None:
    flags = (*JUPYTER, "--plugin-options", f"jupyter.packages={tmp_path}")
    with running_box(tmp_path / "ws", *flags) as box:
        answer = box.client.post(
            "/execute_action", json={"action": {"action": "run_ipython", "args": {"code": "1"}}}
        )
        assert f"{tmp_path} is not a virtual environment" in answer.json()["detail"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")
def test_the_sandbox_user_installs_packages(tmp_path: Path) -> None:
    python = usable_interpreter(USER, "ipykernel", "pip")
    with public_directory() as directory:
        wheel, base = make_wheel(directory, "mine"), directory / "base"
        subprocess.run([python, "-m", "venv", "--without-pip", base], check=True)
        packages = next(base.glob("lib/python3.*")) / "site-packages"
        (packages / "others.pth").write_text(PYTHON_PATH.replace(":", "\n"))
        flags = ("--username", USER, *JUPYTER, "agent_skills", "--plugin-options", f"jupyter.packages={base}")
        temporary = directory / "tmp"  # this account has no home
        temporary.mkdir()
        temporary.chmod(0o1777)
        with running_box(directory / "ws", *flags, environment={"TMPDIR": str(temporary)}) as box:
            cells = Cells(box)
            cells.run("os.environ['SHELL'] = '/bin/sh'")  # that of this account refuses everything
            assert "Successfully installed mine-1" in cells.run(f"%pip install --no-index {wheel}")
            assert (
                cells.run("import mine; print(os.stat(mine.__file__).st_uid == os.getuid() != 0)") == "True"
            )
            cells.run("%pip uninstall -y mine")


def test_files_in_the_directory_of_the_shell_are_no_part_of_a_starting_kernel(tmp_path: Path) -> None:
    for name in ("json", "asyncio", "zmq", "traitlets", "pathlib"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('from the workspace')\n")
    (tmp_path / "own.py").write_text("answer = 42\n")
    with running_box(tmp_path / "ws", *JUPYTER) as box:
        box.run(f"cd {tmp_path}")
        assert Cells(box, "here").run("import own; print(own.answer)") == "42"
