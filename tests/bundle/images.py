"""A file system with nothing in it but the bundle, and programs that run in there as in a container."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running import KEY, RunningBox, announced, wait_until
from tests.support.waiting import LIMIT

#: Its own mounts, devices and processes; the network is the machine's, so a box in there can be reached.
ENTER = """
set -e
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/dev"
mknod -m 666 "$1/dev/null" c 1 3
mknod -m 666 "$1/dev/urandom" c 1 9
mknod -m 666 "$1/dev/tty" c 5 0
ln -s /proc/self/fd "$1/dev/fd"
mkdir "$1/dev/pts" "$1/dev/shm"
chmod 1777 "$1/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
ln -s pts/ptmx "$1/dev/ptmx"
exec "$0" "$@"
"""


class EmptyImage:
    """An image that has no C library, no shell and no users: only the runtime."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def command(self, *command: str) -> list[str]:
        """What runs a program in there, as the first process."""
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        chroot = shutil.which("chroot", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "chroot"
        return [*namespaces, "sh", "-c", ENTER, chroot, str(self.root), *command]

    def run(self, *command: str, **environment: str) -> str:
        """What a program in there prints."""
        variables = {"PATH": "/usr/bin:/bin", **environment}
        done = subprocess.run(
            self.command(*command), env=variables, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def box(self, *flags: str, **environment: str) -> Iterator[RunningBox]:
        """A box that runs in there."""
        variables = {"PATH": "/usr/bin:/bin", "SESSION_API_KEY": KEY, **environment}
        serve = ["/opt/glovebox/bin/glovebox", "serve", "0", "--working-dir", "/workspace", *flags]
        with subprocess.Popen(
            self.command(*serve), stdout=subprocess.PIPE, text=True, env=variables
        ) as process:
            try:
                box = RunningBox(process, announced(process), KEY, self.root / "workspace")
                with box.client:
                    yield box
            finally:
                first = first_process(process)
                os.kill(first, 15)
                try:
                    assert process.wait(LIMIT) == 0
                finally:
                    process.kill()


def first_process(unshare: subprocess.Popen[str]) -> int:
    """The first process of a namespace, by its number outside."""
    children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
    wait_until(lambda: bool(children.read_text().split()), what="the first process")
    return int(children.read_text().split()[0])


def make_empty_image(root: Path, bundle: Path) -> EmptyImage:
    """Unpack the runtime where it belongs, below a directory."""
    if os.geteuid() != 0:
        pytest.skip("only root can enter another file system")
    for name in ("proc", "dev", "tmp", "etc", "opt/glovebox"):
        (root / name).mkdir(parents=True)
    root.chmod(0o755)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    subprocess.run(["tar", "-xf", str(bundle), "-C", str(root / "opt/glovebox")], check=True)
    return EmptyImage(root)
