"""`/files/stat`, `list`, `exists`, `mkdir`, `remove`, `rename`, `chmod`, over real HTTP."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.running import RunningBox


@pytest.fixture
def place(shared_box: RunningBox, request: pytest.FixtureRequest) -> Path:
    place = shared_box.workspace / f"paths-{abs(hash(request.node.name))}"
    place.mkdir()
    return place


def ask(box: RunningBox, what: str, path: Path | str, **query: Any) -> httpx.Response:
    return box.client.get(f"/files/{what}", params={"path": str(path), **query})


def change(box: RunningBox, what: str, **body: Any) -> httpx.Response:
    return box.client.post(
        f"/files/{what}",
        json={name: str(value) if isinstance(value, Path) else value for name, value in body.items()},
    )


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers.get("x-glovebox-error", "")


def names(answer: httpx.Response, root: Path) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [os.path.relpath(entry["path"], root) for entry in answer.json()["entries"]]


def test_what_is_at_a_path(shared_box: RunningBox, place: Path) -> None:
    (place / "file").write_bytes(b"12345")
    (place / "file").chmod(0o640)
    (place / "link").symlink_to("file")
    os.mkfifo(place / "pipe")
    info = ask(shared_box, "stat", place / "file").json()
    status = (place / "file").stat()
    assert info == {
        "path": str(place / "file"), "name": "file", "kind": "file", "size": 5, "mode": 0o640,
        "owner": pwd.getpwuid(status.st_uid).pw_name, "group": info["group"], "uid": status.st_uid,
        "gid": status.st_gid, "modified": status.st_mtime, "etag": info["etag"], "target": None,
    }  # fmt: skip
    content = shared_box.client.head("/files/content", params={"path": str(place / "file")})
    assert info["etag"] == content.headers["etag"]
    link = ask(shared_box, "stat", place / "link").json()
    assert (link["kind"], link["target"], link["etag"]) == ("link", "file", None)
    assert ask(shared_box, "stat", place / "link", follow="true").json()["kind"] == "file"
    assert ask(shared_box, "stat", place / "pipe").json()["kind"] == "fifo"
    assert ask(shared_box, "stat", "/dev/null").json()["kind"] == "device"
    assert ask(shared_box, "stat", "/").json()["name"] == "/"
    assert ask(shared_box, "stat", ".").json()["path"] == str(shared_box.workspace)
    assert code(ask(shared_box, "stat", place / "missing")) == (404, "no_such_file")
    assert code(ask(shared_box, "stat", place / "file/below")) == (409, "not_a_directory")


def test_whether_a_path_exists(shared_box: RunningBox, place: Path) -> None:
    (place / "file").touch()
    (place / "dangling").symlink_to("nothing")
    (place / "link").symlink_to(".")
    assert ask(shared_box, "exists", place / "file").json() == {"exists": True, "kind": "file"}
    assert ask(shared_box, "exists", place / "link").json() == {"exists": True, "kind": "directory"}
    for name in ("missing", "dangling", "file/below"):
        assert ask(shared_box, "exists", place / name).json() == {"exists": False, "kind": None}


def test_a_directory_is_listed_in_pages(shared_box: RunningBox, place: Path) -> None:
    for number in range(25):
        (place / f"{number:02}").touch()
    first = ask(shared_box, "list", place, limit=10)
    assert names(first, place) == [f"{number:02}" for number in range(10)]
    second = ask(shared_box, "list", place, limit=10, after=first.json()["next"])
    (place / "09").unlink()  # where the first page ended
    (place / "10").unlink()
    third = ask(shared_box, "list", place, limit=10, after=second.json()["next"])
    assert names(second, place) == [f"{number:02}" for number in range(10, 20)]
    assert names(third, place) == ["20", "21", "22", "23", "24"]
    assert third.json()["next"] is None
    assert names(ask(shared_box, "list", place, limit=25), place)[-1] == "24"


def test_pages_of_a_tree_are_the_tree(shared_box: RunningBox, place: Path) -> None:
    for path in ("b/x/deep", "b/y", "a", "c/z", "b.txt"):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).touch()
    (place / "link").symlink_to("b")
    assert names(ask(shared_box, "list", place), place) == ["a", "b", "b.txt", "c", "link"]
    whole = ["a", "b", "b/x", "b/x/deep", "b/y", "b.txt", "c", "c/z", "link"]
    assert names(ask(shared_box, "list", place, depth=9), place) == whole
    assert names(ask(shared_box, "list", place, depth=2), place) == [
        "a", "b", "b/x", "b/y", "b.txt", "c", "c/z", "link",
    ]  # fmt: skip
    for limit in (1, 2, 3, 4):
        found, after = [], ""
        while after is not None:
            page = ask(shared_box, "list", place, depth=9, limit=limit, **({"after": after} if after else {}))
            found += names(page, place)
            after = page.json()["next"]
        assert found == whole


def test_names_that_are_not_utf8_are_shown_and_paged(shared_box: RunningBox, place: Path) -> None:
    for name in (b"a\xff", b"b\xfe", b"c"):
        Path(os.fsdecode(os.fsencode(place) + b"/" + name)).touch()
    page = ask(shared_box, "list", place, limit=1).json()
    assert page["entries"][0]["name"] == "a\ufffd"
    rest = ask(shared_box, "list", place, after=page["next"]).json()
    assert [entry["name"] for entry in rest["entries"]] == ["b\ufffd", "c"]


def test_what_cannot_be_listed(shared_box: RunningBox, place: Path) -> None:
    (place / "file").touch()
    assert code(ask(shared_box, "list", place / "file")) == (409, "not_a_directory")
    assert code(ask(shared_box, "list", place / "missing")) == (404, "no_such_file")
    assert code(ask(shared_box, "list", place, after="§")) == (422, "bad_path")
    assert ask(shared_box, "list", place, depth=0).status_code == 422
    assert ask(shared_box, "list", place, limit=10_001).status_code == 422


def test_directories_are_made(shared_box: RunningBox, place: Path) -> None:
    made = change(shared_box, "mkdir", path=place / "a", mode=0o700)
    assert (made.status_code, made.json()["kind"], made.json()["mode"]) == (201, "directory", 0o700)
    assert change(shared_box, "mkdir", path=place / "a").status_code == 200
    assert code(change(shared_box, "mkdir", path=place / "x/y")) == (404, "no_such_file")
    assert change(shared_box, "mkdir", path=place / "x/y", parents=True).status_code == 201
    (place / "file").touch()
    assert code(change(shared_box, "mkdir", path=place / "file")) == (409, "file_exists")
    assert code(change(shared_box, "mkdir", path=place / "b", mode=0o10000))[0] == 422
    half = shared_box.client.post("/files/mkdir", content=b'{"path": "half \\ud800"}')
    assert half.status_code == 422
    assert code(change(shared_box, "mkdir", path=place / "b", unknown=1))[0] == 422


def test_paths_are_removed(shared_box: RunningBox, place: Path) -> None:
    (place / "tree/below").mkdir(parents=True)
    (place / "tree/below/file").touch()
    (place / "outside").mkdir()
    (place / "outside/stays").touch()
    (place / "tree/link").symlink_to(place / "outside")
    assert code(change(shared_box, "remove", path=place / "tree")) == (409, "not_empty")
    removed = change(shared_box, "remove", path=place / "tree", recursive=True)
    assert removed.json() == {"removed": 4}
    assert (place / "outside/stays").exists()
    assert code(change(shared_box, "remove", path=place / "tree")) == (404, "no_such_file")
    assert change(shared_box, "remove", path=place / "tree", missing_ok=True).json() == {"removed": 0}
    assert code(change(shared_box, "remove", path="/", recursive=True)) == (403, "protected_path")


def test_paths_are_renamed(shared_box: RunningBox, place: Path) -> None:
    (place / "a").write_text("a")
    (place / "b").write_text("b")
    (place / "d").mkdir()
    moved = change(shared_box, "rename", source=place / "a", target=place / "c")
    assert moved.json()["path"] == str(place / "c")
    assert code(change(shared_box, "rename", source=place / "c", target=place / "b")) == (409, "file_exists")
    assert change(shared_box, "rename", source=place / "c", target=place / "b", overwrite=True).is_success
    assert (place / "b").read_text() == "a"
    expected = {
        ("missing", "x"): (404, "no_such_file"),
        ("b", "no/directory"): (404, "no_such_file"),
        ("b", "b"): (422, "bad_path"),
        ("d", "d/below"): (422, "bad_path"),
        ("b", "d"): (409, "is_a_directory"),
        ("d", "b"): (409, "not_a_directory"),
    }
    for (source, target), refusal in expected.items():
        answer = change(shared_box, "rename", source=place / source, target=place / target, overwrite=True)
        assert code(answer) == refusal, (source, target)
    assert sorted(os.listdir(place)) == ["b", "d"]
    assert (place / "b").read_text() == "a"


def test_modes_are_changed(shared_box: RunningBox, place: Path) -> None:
    (place / "tree/below").mkdir(parents=True)
    (place / "tree/below/file").touch()
    (place / "outside").touch(mode=0o600)
    (place / "tree/link").symlink_to(place / "outside")
    info = change(shared_box, "chmod", path=place / "tree", mode=0o711).json()
    assert info["mode"] == 0o711
    assert change(shared_box, "chmod", path=place / "tree", mode=0o750, recursive=True).is_success
    for name in ("tree", "tree/below", "tree/below/file"):
        assert stat.S_IMODE((place / name).stat().st_mode) == 0o750
    assert stat.S_IMODE((place / "outside").stat().st_mode) == 0o600
    owner = f"{os.geteuid()}:{os.getegid()}"
    assert change(shared_box, "chmod", path=place / "tree", owner=owner, recursive=True).is_success
    assert change(shared_box, "chmod", path=place / "tree").status_code == 422
    assert code(change(shared_box, "chmod", path=place / "x", mode=0o600)) == (404, "no_such_file")
    assert change(shared_box, "chmod", path=place / "tree", mode=-1).status_code == 422
    assert code(change(shared_box, "chmod", path=place / "tree", owner=":no-such")) == (422, "bad_path")
