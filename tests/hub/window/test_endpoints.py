"""What a window's box serves beside actions: transfers, lists, and itself."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glovebox.errors import WindowLost
from glovebox.protocol.window import Land, Put
from tests.hub.window.window_box import Acting, acting, failing


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Acting]:
    async with acting(tmp_path) as box:
        yield box


def zipped(**files: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


async def test_names_are_listed_directories_first(box: Acting, tmp_path: Path) -> None:
    for name in ("b.txt", "A.txt", ".dot"):
        (tmp_path / name).touch()
    (tmp_path / "zeta/inner").mkdir(parents=True)
    (tmp_path / "gone").symlink_to("nowhere")
    assert (await box.client.post("/list_files", json={})).json() == ["zeta/", ".dot", "A.txt", "b.txt"]
    assert (await box.client.post("/list_files", json={"path": "zeta"})).json() == ["inner/"]
    assert (await box.client.post("/list_files", json={"path": "no"})).json() == []
    refused = await box.client.post("/list_files", json={"path": "/etc"})
    assert (refused.status_code, refused.headers["X-Glovebox-Error"]) == (500, "transfer_failed")
    assert (await box.client.post("/list_files", json={"path": 3})).status_code == 500


async def test_a_file_is_put_in_its_place_in_pieces(box: Acting, tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000
    answer = await box.client.post(
        "/upload_file", params={"destination": f"{tmp_path}/new"}, files={"file": ("a.bin", data)}
    )
    assert answer.json() == {"filename": "a.bin", "destination": f"{tmp_path}/new", "recursive": False}
    assert (tmp_path / "new/a.bin").read_bytes() == data
    assert box.hands.kinds() == ["Put", "Put", "Put", "Land"]
    empty = {"file": ("empty", b"")}
    assert (
        await box.client.post("/upload_file", params={"destination": str(tmp_path)}, files=empty)
    ).is_success
    assert (tmp_path / "empty").read_bytes() == b""


async def test_an_archive_is_unpacked_and_keeps_to_its_directory(box: Acting, tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("p/a.txt", "a")
        archive.writestr("p/empty/", "")
        archive.writestr("../evil", "e")
        script = zipfile.ZipInfo("p/run it.sh")
        script.external_attr = 0o755 << 16
        archive.writestr(script, "#!/bin/sh\necho ran\n")
    answer = await box.client.post(
        "/upload_file",
        params={"destination": f"{tmp_path}/x", "recursive": "true"},
        files={"file": ("p.zip", data.getvalue())},
    )
    assert answer.status_code == 200, answer.text
    assert (tmp_path / "x/p/a.txt").read_text() == "a"
    assert (tmp_path / "x/p/empty").is_dir()
    assert not (tmp_path / "evil").exists()
    assert await box.output("'x/p/run it.sh'") == "ran"


async def test_uploads_that_cannot_be_are_refused_and_leave_nothing(box: Acting, tmp_path: Path) -> None:
    there = {"destination": str(tmp_path)}
    damaged = await box.client.post("/upload_file", params=there, files={"file": ("a.zip", b"no zip")})
    assert (damaged.status_code, damaged.headers["X-Glovebox-Error"]) == (500, "bad_archive")
    assert f"{tmp_path}/a.zip" in damaged.json()["detail"]
    relative = await box.client.post("/upload_file", params={"destination": "x"}, files={"file": ("a", b"")})
    assert "absolute" in relative.json()["detail"]
    assert (await box.client.post("/upload_file", params=there, files={"other": b""})).status_code == 422
    outside = await box.client.post(
        "/upload_file", params={"destination": "/etc"}, files={"file": ("a", b"x")}
    )
    assert "not in the workspace" in outside.json()["detail"]
    assert box.hands.kinds()[-1] == "Drop"
    box.hands.before = failing("unsaved_changes", Land)
    refused = await box.client.post("/upload_file", params=there, files={"file": ("a", b"x")})
    assert (refused.status_code, refused.json()["detail"]) == (500, "because of unsaved_changes")
    box.hands.before = failing(WindowLost("It is gone."), Put)
    lost = await box.client.post("/upload_file", params=there, files={"file": ("a", b"x")})
    assert lost.headers["X-Glovebox-Error"] == "window_lost"
    assert os.listdir(tmp_path) == []


async def test_a_directory_and_a_file_come_as_an_archive(box: Acting, tmp_path: Path) -> None:
    (tmp_path / "p/sub").mkdir(parents=True)
    (tmp_path / "p/a.txt").write_text("a")
    (tmp_path / "p/sub/large").write_bytes(b"x" * (2 << 20))
    (tmp_path / "p/out").symlink_to("/etc/hostname")
    (tmp_path / "p/linked").symlink_to("sub")
    got = await box.client.get("/download_files", params={"path": f"{tmp_path}/p"})
    assert got.headers["content-disposition"] == 'attachment; filename="p.zip"'
    with zipfile.ZipFile(io.BytesIO(got.content)) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == ["a.txt", "sub/large"]
        assert archive.read("sub/large") == b"x" * (2 << 20)
    one = await box.client.get("/download_files", params={"path": f"{tmp_path}/p/a.txt"})
    with zipfile.ZipFile(io.BytesIO(one.content)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"a.txt": b"a"}
    missing = await box.client.get("/download_files", params={"path": f"{tmp_path}/no"})
    assert (missing.status_code, missing.json()["detail"]) == (500, "404: File not found")
    assert (await box.client.get("/download_files")).status_code == 422


async def test_the_box_describes_itself(box: Acting) -> None:
    assert (await box.client.get("/alive")).json() == {"status": "ok"}
    info = (await box.client.get("/server_info")).json()
    assert info["uptime"] >= 0
    assert "/execute_action" in (await box.client.get("/openapi.json")).json()["paths"]
    [plugin] = (await box.client.get("/plugins")).json()
    assert (plugin["name"], plugin["state"]) == ("window", "running")
    assert (await box.client.get("/vscode/connection_token")).json() == {"token": None}
    tools = [tool["function"]["name"] for tool in (await box.client.get("/tools")).json()]
    assert {"run", "read", "write", "edit", "glob", "grep"} <= set(tools), tools
    assert {"run_ipython", "browse", "browse_interactive"} <= set(tools), tools


async def test_sessions_are_made_by_name_only(box: Acting) -> None:
    assert (await box.client.post("/sessions", json={"name": "two"})).status_code == 201
    assert (await box.client.post("/sessions", json={"name": "two"})).status_code == 409
    assert (await box.client.post("/sessions", json={"name": "x", "rows": 9})).status_code == 422
    resized = await box.client.post("/sessions/main/resize", json={"rows": 9, "columns": 9})
    assert (resized.status_code, resized.headers["X-Glovebox-Error"]) == (422, "bad_session")
    assert "VS Code" in resized.json()["detail"]
    assert (await box.client.post("/sessions", json={"name": "x/y"})).status_code == 422
