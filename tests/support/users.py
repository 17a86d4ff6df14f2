"""What other users of the machine can run."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Leads other users, who may not enter a virtual environment of root's, to the packages in it.
PYTHON_PATH = f"{Path(__file__).parents[2] / 'src'}:{sysconfig.get_paths()['purelib']}"


@contextlib.contextmanager
def public_directory() -> Iterator[Path]:
    """A directory that others can enter, whatever pytest does to those above its own."""
    directory = Path(tempfile.mkdtemp(prefix="glovebox-test-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def usable_interpreter(user: str, *modules: str) -> str:
    """A Python that another user can run, and that can import some modules there."""
    identity = pwd.getpwnam(user)
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = subprocess.run(
                [python, "-c", f"import {', '.join(modules)}"],
                env={"PATH": os.environ["PATH"], "PYTHONPATH": PYTHON_PATH},
                cwd="/",
                user=identity.pw_uid,
                group=identity.pw_gid,
                extra_groups=[],
                capture_output=True,
                check=False,
            )
        except OSError:
            continue
        if tried.returncode == 0:
            return python
    pytest.skip(f"no Python with {', '.join(modules)} that {user} can run")
