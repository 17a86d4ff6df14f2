"""What goes wrong around a box is told, and neither loses data nor leaves anything behind."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.running import RunningBox, running_box, wait_until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk here: {mounted.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def test_a_full_disk_is_told_and_keeps_the_old_file(shared_box: RunningBox, small_disk: Path) -> None:
    path, big = small_disk / "a.txt", "x" * 6_000_000
    path.write_text("old\n")
    body = {"action": {"action": "write", "args": {"path": str(path), "content": big}}}
    answer = shared_box.client.post("/execute_action", json=body)
    assert "No space left" in answer.text
    edit = shared_box.execute("edit", path=str(path), command="str_replace", old_str="old", new_str=big)
    assert "No space left" in edit["content"]
    upload = shared_box.client.post(
        "/upload_file", params={"destination": str(small_disk)}, files={"file": ("a.txt", big.encode())}
    )
    assert upload.status_code == 500
    assert "No space left" in upload.json()["detail"]
    assert path.read_text() == "old\n"
    assert names(small_disk) == ["a.txt"]


def test_a_file_that_cannot_be_read_is_told(shared_box: RunningBox) -> None:
    body = {"action": {"action": "read", "args": {"path": "/proc/self/mem"}}}
    answer = shared_box.client.post("/execute_action", json=body)
    assert "[Errno" in answer.text or answer.json()["observation"] == "error"
    assert shared_box.run("echo still here") == "still here"


def test_a_shell_that_is_killed_is_replaced(box: RunningBox) -> None:
    killed = box.execute("run", command="kill -9 $$")
    assert killed["extras"]["metadata"]["exit_code"] != 0
    assert box.run("echo back") == "back"


class Traffic:
    """One client on one connection, asking all sorts of things in a fixed random order."""

    def __init__(self, box: RunningBox, directory: Path, seed: int) -> None:
        where = urlsplit(box.url)
        self.connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
        self.key = box.key
        self.directory = directory / str(seed)
        self.directory.mkdir()
        self.random = random.Random(seed)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        sent = {"X-Session-API-Key": self.key, "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, body, sent)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def act(self, action: str, **args: Any) -> None:
        body = json.dumps({"action": {"action": action, "args": args}}).encode()
        status, answer = self.ask("POST", "/execute_action", body)
        assert status in (200, 500), answer

    def step(self) -> None:
        file = str(self.directory / f"{self.random.randrange(5)}.txt")
        kind = self.random.randrange(12)
        if kind == 0:
            self.act("write", path=file, content="some\ntext")
        elif kind == 1:
            self.act("edit", path=file, command="insert", insert_line=1, new_str="more")
        elif kind == 2:
            self.act("edit", path=file, command="undo_edit")
        elif kind == 3:
            self.act("read", path=file, impl_source="oh_aci")
        elif kind == 4:
            self.act("glob", pattern="*.txt", path=str(self.directory))
        elif kind == 5:
            self.act("grep", pattern="text", path=str(self.directory))
        elif kind == 6:
            self.act("delete", path=file, missing_ok=True)
        elif kind == 7:
            self.ask("POST", "/list_files", json.dumps({"path": str(self.directory)}).encode())
        elif kind == 8:
            self.upload()
        elif kind == 9:
            assert self.ask("GET", f"/download_files?path={self.directory}")[0] == 200
        elif kind == 10:
            self.ask("POST", "/execute_action", self.random.randbytes(20))
        else:
            self.act("read", path=file)

    def upload(self) -> None:
        body = (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="up.txt"\r\n\r\n'
            + b"x" * self.random.randrange(2000)
            + b"\r\n--b--\r\n"
        )
        path = f"/upload_file?destination={self.directory}"
        status, answer = self.ask("POST", path, body, Content_Type="multipart/form-data; boundary=b")
        assert status == 200, answer

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.connection.close()


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts descriptors below /proc")
@pytest.mark.timeout(900)
def test_ten_thousand_mixed_requests_leave_no_descriptor_thread_or_temporary_file(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with running_box(tmp_path / "ws", environment={"TMPDIR": str(temporary)}) as box:
        pid, clients = box.process.pid, 8

        def traffic(round_number: int, steps: int) -> None:
            users = [Traffic(box, tmp_path, round_number * clients + number) for number in range(clients)]
            with concurrent.futures.ThreadPoolExecutor(clients) as pool:
                list(pool.map(lambda user: user.run(steps), users))

        traffic(0, 60)  # everything that is opened once is open now
        before = open_files(pid), names(temporary)
        assert threads(pid) < 40
        started = threads(pid)
        traffic(1, 10_000 // clients)
        wait_until(lambda: open_files(pid) <= before[0], what="descriptors to be closed")
        assert names(temporary) == before[1]
        assert threads(pid) <= max(started, 40)
        left = [name for _, _, files in os.walk(tmp_path / "8") for name in files]
        assert all(name.endswith(".txt") for name in left)
    assert names(temporary) == []
