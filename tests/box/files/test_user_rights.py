"""A root server with a sandbox user: what that user plants is followed with its own rights."""

from __future__ import annotations

import io
import os
import pwd
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from glovebox.box.credentials import assume_user, identity_of
from glovebox.box.events import EventLog
from glovebox.box.executor import Executor
from glovebox.box.files.actions.search import SearchActions
from glovebox.box.files.search import line_search
from glovebox.box.ripgrep import ripgrep
from glovebox.box.threads import Threads
from glovebox.protocol.files import GrepAction, GrepObservation
from tests.box.files.acting import Acting, QuietShell
from tests.support.running import KEY, RunningBox, running_box

USER = "nobody"
SECRET = "what only root may know"

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can serve a sandbox of another user"),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the workspace and what is root's: a secret, a closed directory, one that all may look into."""
    base = tmp_path_factory.mktemp("rights")
    base.chmod(0o755)
    (base / "secret").write_text(f"{SECRET}\n")
    (base / "secret").chmod(0o600)
    for name, mode in (("closed", 0o700), ("roots", 0o755)):
        (base / name).mkdir()
        (base / name / "file.txt").write_text(
            f"{SECRET}, in {name}\n" if name == "closed" else "open to all\n"
        )
        (base / name).chmod(mode)
    return base


@pytest.fixture(scope="module")
def box(base: Path) -> Iterator[RunningBox]:
    with running_box(base / "ws", "--no-enable-browser", "--username", USER) as box:
        yield box


@pytest.fixture
def place(box: RunningBox, base: Path, request: pytest.FixtureRequest) -> Path:
    """A fresh directory of the sandbox user's, with its shell in it."""
    place = base / "ws" / f"test-{abs(hash(request.node.name))}"
    box.run(f"mkdir -p {place} && cd {place} && touch mine.txt")
    return place


def attempted(box: RunningBox, action: str, **args: Any) -> str:
    """All that an action is answered with, whatever the status."""
    return box.client.post("/execute_action", json={"action": {"action": action, "args": args}}).text


def downloaded(box: RunningBox, path: str) -> str:
    """An archive; nothing if it is broken off because files vanish."""
    try:
        return box.client.get("/download_files", params={"path": path}).text
    except httpx.RemoteProtocolError:
        return ""


def tree(directory: Path) -> dict[str, tuple[str, int, int]]:
    """Every file below a directory: content, owner, mode."""
    return {
        str(path): (path.read_text() if path.is_file() else "", path.lstat().st_uid, path.lstat().st_mode)
        for path in sorted(directory.rglob("*"))
    }


@pytest.mark.parametrize("target", ["secret", "closed/file.txt"])
def test_a_planted_link_is_not_read(box: RunningBox, place: Path, base: Path, target: str) -> None:
    box.run(f"ln -s {base / target} link; ln -s {base / target} link.gif")
    link = str(place / "link")
    answers = [
        attempted(box, "read", path=link),
        attempted(box, "read", path="link"),
        attempted(box, "read", path="link.gif"),
        attempted(box, "read", path=link, impl_source="oh_aci"),
        attempted(box, "edit", path=link, command="view"),
        attempted(box, "edit", path=link, command="str_replace", old_str="only", new_str="also"),
        attempted(box, "edit", path=link, command="insert", insert_line=0, new_str="x"),
        attempted(box, "grep", pattern="root", path=link),
        attempted(box, "grep", pattern="root", path=str(place)),
        box.client.get("/download_files", params={"path": link}).text,
    ]
    for answer in answers:
        assert SECRET not in answer
    assert "Permission denied" in answers[0]
    assert "Permission denied" in answers[3]
    assert SECRET in (base / target).read_text()


def test_an_archive_of_the_workspace_has_nothing_that_links_lead_to(
    box: RunningBox, place: Path, base: Path
) -> None:
    box.run(f"ln -s {base / 'secret'} a; ln -s {base / 'closed'} b; ln -s {base / 'closed/file.txt'} c")
    answer = box.client.get("/download_files", params={"path": str(place)})
    assert answer.status_code == 200
    assert zipfile.ZipFile(io.BytesIO(answer.content)).namelist() == ["mine.txt"]


def test_the_environment_of_the_server_stays_closed(box: RunningBox, place: Path) -> None:
    server = box.process.pid
    box.run(f"ln -s /proc/{server}/environ env; ln -s /proc/{server} proc; ln -s /proc/self/environ self")
    for path in (
        f"/proc/{server}/environ",
        str(place / "env"),
        str(place / "proc/environ"),
        str(place / "self"),
    ):
        for answer in (
            attempted(box, "read", path=path),
            attempted(box, "read", path=os.path.relpath(path, place)),
            attempted(box, "grep", pattern=".", path=path),
            box.client.get("/download_files", params={"path": path}).text,
        ):
            assert KEY not in answer
            assert "SESSION_API_KEY" not in answer
    assert "ermission denied" in attempted(box, "read", path=f"/proc/{server}/environ")


def test_nothing_is_written_through_a_planted_link(box: RunningBox, place: Path, base: Path) -> None:
    before = tree(base / "roots"), tree(base / "closed"), (base / "secret").read_text()
    roots = base / "roots"
    box.run(f"ln -s {base / 'secret'} secret; ln -s {roots / 'file.txt'} file; ln -s {roots / 'new'} new")
    box.run(f"ln -s {roots} out; ln -s {base / 'closed'} closed")
    for path in ("secret", "file", "new", "out/new", "out/deep/new", "closed/file.txt"):
        attempted(box, "write", path=str(place / path), content="changed")
        attempted(box, "write", path=str(place / path), content="changed", start=1, end=1)
        attempted(box, "edit", path=str(place / path), command="create", file_text="changed")
        attempted(box, "edit", path=str(place / path), command="insert", insert_line=0, new_str="changed")
    for path in ("out/file.txt", "closed/file.txt", "out", "closed"):
        attempted(box, "move", source=str(place / path), destination=str(place / "taken"))
        attempted(box, "move", source=str(place / "mine.txt"), destination=f"{place / path}/", overwrite=True)
        attempted(box, "move", source=str(place / "mine.txt"), destination=str(place / path / "given"))
    for path in ("out/file.txt", "closed/file.txt", "out/made", "closed/made"):
        attempted(box, "mkdir", path=str(place / path))
        attempted(box, "delete", path=str(place / path), recursive=True)
    attempted(box, "delete", path=str(roots), recursive=True)
    attempted(box, "delete", path=str(base / "closed"), recursive=True)
    assert (tree(roots), tree(base / "closed"), (base / "secret").read_text()) == before


def test_uploads_do_not_land_where_links_lead(box: RunningBox, place: Path, base: Path) -> None:
    before = tree(base / "roots"), (base / "secret").read_text()
    box.run(
        f"ln -s {base / 'roots'} out; ln -s {base / 'secret'} up.txt; mkdir in; ln -s {base / 'roots'} in/out"
    )
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as entries:
        entries.writestr("file.txt", "changed")
        entries.writestr("out/file.txt", "changed")
    for destination in ("out", "out/deep", "", "in"):
        for name, content in (("file.txt", b"changed"), ("up.txt", b"mine"), ("a.zip", archive.getvalue())):
            box.client.post(
                "/upload_file",
                params={"destination": str(place / destination)},
                files={"file": (name, content)},
            )
    assert (tree(base / "roots"), (base / "secret").read_text()) == before
    assert (place / "up.txt").read_text() == "mine", "the link was replaced, not followed"


def test_closed_directories_are_not_listed(box: RunningBox, place: Path, base: Path) -> None:
    box.run(f"ln -s {base / 'closed'} closed")
    for path in (str(place / "closed"), str(base / "closed")):
        assert box.client.post("/list_files", json={"path": path}).json() == []
        assert "file.txt" not in attempted(box, "glob", pattern="**", path=path)
        assert "file.txt" not in attempted(box, "read", path=path, impl_source="oh_aci")
        assert "permission_denied" in attempted(box, "stat", path=f"{path}/file.txt")


def test_a_directory_that_is_swapped_for_a_link_leads_nowhere(
    box: RunningBox, place: Path, base: Path
) -> None:
    """While directories are walked, they become links to what is root's and back, all the time."""
    before = tree(base / "roots"), tree(base / "closed")
    swap = """
import os, sys
while True:
    for target in sys.argv[1:]:
        try:
            os.makedirs("real", exist_ok=True)
            open("real/file.txt", "w").close()
            os.rename("real", "d")
            os.rename("d", "real")
            os.symlink(target, "d")
            os.unlink("d")
        except OSError:
            pass  # what is at "d" was deleted or moved
"""
    swapping = subprocess.Popen(
        ["python3", "-c", swap, str(base / "roots"), str(base / "closed")],
        cwd=place,
        user=pwd.getpwnam(USER).pw_uid,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        for _ in range(40):
            answers = [
                attempted(box, "delete", path=str(place / "d"), recursive=True),
                attempted(box, "write", path=str(place / "d/file.txt"), content="changed"),
                attempted(box, "move", source=str(place / "d/file.txt"), destination=str(place / "moved")),
                attempted(box, "read", path=str(place / "d/file.txt")),
                attempted(box, "grep", pattern="root", path=str(place / "d")),
                downloaded(box, str(place)),
            ]
            assert SECRET not in "".join(answers)
            assert (tree(base / "roots"), tree(base / "closed")) == before
    finally:
        swapping.kill()
        swapping.wait()


def test_what_the_user_may_do_works_and_is_the_users(box: RunningBox, place: Path) -> None:
    nobody = pwd.getpwnam(USER).pw_uid
    box.execute("write", path=str(place / "deep/new.txt"), content="one")
    box.execute("edit", path=str(place / "created.txt"), command="create", file_text="one\ntwo\n")
    box.execute(
        "edit", path=str(place / "created.txt"), command="str_replace", old_str="one", new_str="three"
    )
    assert box.execute("read", path=str(place / "created.txt"))["content"] == "three\ntwo\n"
    box.execute("edit", path=str(place / "created.txt"), command="undo_edit")
    assert (place / "created.txt").read_text() == "one\ntwo\n"
    box.execute("mkdir", path=str(place / "made/below"))
    box.execute("move", source=str(place / "mine.txt"), destination=str(place / "made/mine.txt"))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as entries:
        entries.writestr("unpacked/inside.txt", "x")
    for name, content in (("up.txt", b"x"), ("a.zip", archive.getvalue())):
        sent = box.client.post(
            "/upload_file", params={"destination": str(place / "landed")}, files={"file": (name, content)}
        )
        assert sent.status_code == 200, sent.text
    found = [place, *place.rglob("*")]
    assert {path.stat().st_uid for path in found} == {nobody}
    assert {path.name for path in found} >= {
        "new.txt",
        "created.txt",
        "below",
        "mine.txt",
        "up.txt",
        "inside.txt",
    }
    assert box.execute("grep", pattern="tw.", path=str(place))["extras"]["matches"]
    assert box.execute("delete", path=str(place / "made"), recursive=True)["extras"]["removed"] == 3


def test_a_file_of_the_user_in_another_group_is_replaced_in_one_step_and_keeps_it(
    box: RunningBox, place: Path
) -> None:
    path = place / "grouped.txt"
    path.write_text("old\n")
    os.chown(path, pwd.getpwnam(USER).pw_uid, 12345)
    before = path.stat().st_ino
    box.execute("write", path=str(path), content="new")
    assert path.read_text() == "new\n"
    assert path.stat().st_gid == 12345
    assert path.stat().st_ino != before


async def test_ripgrep_has_the_rights_of_the_user(base: Path) -> None:
    """Also where the walk that found a file had more."""
    threads = Threads("root", 1)
    actions = SearchActions(
        shell=QuietShell(str(base)),
        threads=threads,
        identity=identity_of(pwd.getpwnam(USER).pw_uid),
    )
    try:
        found = await Executor(actions.handlers(), EventLog()).execute(
            GrepAction(pattern="open|only", path=str(base))
        )
    finally:
        threads.close()
    assert isinstance(found, GrepObservation)
    assert {Path(match.path).parent.name for match in found.matches} == {"roots"}


async def test_ripgrep_runs_where_the_user_could_not_find_it(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chmod(tmp_path, 0o700)
    shutil.copy(ripgrep(), tmp_path / "rg")
    descriptor = os.open(tmp_path / "rg", os.O_RDONLY)
    monkeypatch.setattr(line_search, "ripgrep_descriptor", lambda: descriptor)
    try:
        await test_ripgrep_has_the_rights_of_the_user(base)
    finally:
        os.close(descriptor)


async def test_ripgrep_has_nothing_of_the_servers_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSION_API_KEY", KEY)
    program = tmp_path / "rg"
    program.write_text(f"#!/bin/sh\n/usr/bin/env > {tmp_path}/seen\n")
    program.chmod(0o755)
    monkeypatch.setattr(line_search, "ripgrep", lambda: str(program))
    acting = Acting(tmp_path)
    await acting.answer(GrepAction(pattern="x"))
    acting.close()
    names = {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert names <= {"PATH", "PWD", "_", "SHLVL", "OLDPWD"}
    assert "PATH" in names


def test_the_rights_of_a_user_are_assumed_where_the_system_lacks_ids_of_the_file_system(base: Path) -> None:
    """gVisor does: `setfsuid` and `setfsgid` fail there."""
    script = f"""
import ctypes, os, struct, sys, threading
from glovebox.box.credentials import assume_user, own_rights
library = ctypes.CDLL(None, use_errno=True)
code = b"".join(struct.pack("HBBI", *one) for one in (
    (0x20, 0, 0, 0), (0x15, 1, 0, 122), (0x15, 0, 1, 123), (6, 0, 0, 0x50000 | 38), (6, 0, 0, 0x7FFF0000)))
held = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 5, ctypes.addressof(held)))
assert library.prctl(38, 1, 0, 0, 0) == 0 and library.prctl(22, 2, program, 0, 0) == 0
def look():
    assume_user(65534)
    for _ in range(2):
        try:
            open({str(base / "secret")!r})
        except PermissionError:
            print("refused")
        with own_rights():
            print(open({str(base / "secret")!r}).read().strip())
thread = threading.Thread(target=look)
thread.start()
thread.join()
print(os.geteuid())
"""
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers of system calls are those of x86-64")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["refused", SECRET, "refused", SECRET, "0", ""]


async def test_modules_are_imported_where_only_the_server_can_read_them(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "closed" / "late_module.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(base / "closed"))
    threads = Threads("nobody", 1, initializer=partial(assume_user, pwd.getpwnam(USER).pw_uid))
    try:
        assert await threads.run(_late) == 7
    finally:
        threads.close()


def _late() -> int:
    from glovebox.box.credentials import own_rights

    with own_rights():
        import late_module  # type: ignore[import-not-found]
    assert threading.current_thread().name.startswith("nobody")
    return int(late_module.value)


def refused(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.headers["x-glovebox-error"]) == (403, "permission_denied")


def test_the_file_endpoints_have_the_rights_of_the_user(box: RunningBox, place: Path, base: Path) -> None:
    box.run(f"ln -s {base / 'secret'} link; ln -s {base / 'closed'} away; echo old > own.txt")
    before = tree(base / "closed")
    client = box.client
    for path in (base / "secret", place / "link", place / "away/file.txt"):
        assert refused(client.get("/files/content", params={"path": str(path)}))
        assert refused(client.put("/files/content", params={"path": str(path)}, content=b"x"))
    for path in (base / "closed/new", place / "away/new", base / "roots/new"):
        assert refused(client.put("/files/content", params={"path": str(path)}, content=b"x"))
        assert refused(client.post("/files/mkdir", json={"path": str(path)}))
        mine = {"source": str(place / "mine.txt"), "target": str(path)}
        assert refused(client.post("/files/rename", json=mine))
    for what in ("list", "exists", "stat"):
        inside = base / "closed" if what == "list" else base / "closed/file.txt"
        assert refused(client.get(f"/files/{what}", params={"path": str(inside)}))
    assert refused(client.post("/files/remove", json={"path": str(base / "roots/file.txt")}))
    assert refused(client.post("/files/chmod", json={"path": str(place / "link"), "mode": 0o666}))
    assert refused(client.post("/files/chmod", json={"path": str(place / "own.txt"), "owner": "root"}))
    for what in ("archive", "watch"):
        for path in (base / "closed", place / "away"):
            assert refused(client.get(f"/files/{what}", params={"path": str(path)}))
    through = {"path": str(place / "away")}
    assert refused(client.put("/files/archive", params=through, content=bytes(1024)))
    given = client.put("/files/content", params={"path": str(place / "own.txt"), "owner": "0"}, content=b"x")
    assert refused(given)
    assert (place / "own.txt").read_text() == "old\n"
    assert tree(base / "closed") == before
    assert (base / "secret").read_text() == f"{SECRET}\n"
    for folder in (place, base / "closed", base / "roots"):
        assert not list(folder.rglob(".glovebox-*"))
    made = client.put("/files/content", params={"path": str(place / "d/new"), "parents": "1"}, content=b"x")
    assert made.json()["owner"] == USER
    assert (place / "d").stat().st_uid == pwd.getpwnam(USER).pw_uid


def test_a_file_of_another_user_that_may_be_written_keeps_its_owner(
    box: RunningBox, place: Path, base: Path
) -> None:
    shared = base / "shared.txt"
    shared.write_text("old\n")
    shared.chmod(0o666)
    answer = box.client.put("/files/content", params={"path": str(shared)}, content=b"new\n")
    assert answer.status_code == 200
    assert shared.read_text() == "new\n"
    assert (shared.stat().st_uid, shared.stat().st_mode & 0o777) == (0, 0o666)
