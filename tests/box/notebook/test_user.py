"""Kernels are the sandbox user's, like its shells."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tests.box.notebook.cells import Cells
from tests.support.running import running_box
from tests.support.users import PYTHON_PATH, usable_interpreter

USER = "nobody"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")
def test_a_kernel_runs_as_the_sandbox_user(tmp_path: Path) -> None:
    python = usable_interpreter(USER, "ipykernel", "glovebox")
    tmp_path.chmod(0o755)
    secret = tmp_path / "secret"
    secret.write_text("for root only")
    secret.chmod(0o600)
    flags = ("--username", USER, "--plugins", "jupyter", "agent_skills",
             "--plugin-options", f"jupyter.python={python}")  # fmt: skip
    environment = {"PYTHONPATH": PYTHON_PATH}
    with running_box(tmp_path / "ws", *flags, environment=environment) as box:
        cells = Cells(box)
        assert cells.run("import getpass, os; print(getpass.getuser(), os.geteuid())").split() == [
            USER, str(pwd.getpwnam(USER).pw_uid),
        ]  # fmt: skip
        assert "PermissionError" in cells.run(f"open({str(secret)!r}).read()")
        told = cells.run(f"print(file_editor(command='view', path={str(secret)!r}))")
        assert "Permission denied" in told
        made = box.workspace / "made.txt"
        assert "File created successfully" in cells.run(
            f"print(file_editor(command='create', path={str(made)!r}, file_text='x'))"
        )
        assert made.owner() == USER
        connection = cells.run(
            "from ipykernel.connect import get_connection_file; import stat\n"
            "path = get_connection_file(); print(oct(stat.S_IMODE(os.stat(path).st_mode)),"
            " oct(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode)))"
        )
        assert connection.split() == ["0o600", "0o700"]
