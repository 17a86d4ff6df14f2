"""`/files/watch`: real changes of real files, followed over HTTP."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from glovebox.box.files.disk import inotify
from glovebox.box.files.disk.inotify import DirectoryWatch
from tests.server.reading import Message, messages
from tests.support.running import RunningBox, wait_until

Told = list[dict[str, Any]]


@pytest.fixture
def place(shared_box: RunningBox, request: pytest.FixtureRequest) -> Path:
    place = shared_box.workspace / f"watch-{abs(hash(request.node.name))}"
    place.mkdir()
    return place


class Watcher:
    """The events of one watch."""

    def __init__(self, events: Iterator[Message], root: Path) -> None:
        self._events = events
        self._root = root
        #: What was told so far, with paths relative to the directory.
        self.seen: Told = []

    def event(self) -> tuple[str, Any]:
        """The next event, and its data."""
        event = next(self._events, None)
        return (event.event, event.json) if event else ("", None)

    def until(self, condition: Callable[[Told], object]) -> Told:
        """What was told until it meets a condition."""
        while not condition(self.seen):
            name, data = self.event()
            assert name == "changes", (name, self.seen)
            for change in data:
                for key in ("path", "source"):
                    change[key] = change[key] and os.path.relpath(change[key], self._root)
            self.seen += data
        return self.seen

    def until_path(self, path: str, change: str) -> Told:
        return self.until(lambda told: (path, change) in [(one["path"], one["change"]) for one in told])


@contextlib.contextmanager
def watching(box: RunningBox, path: Path, **query: str) -> Iterator[Watcher]:
    with box.client.stream("GET", "/files/watch", params={"path": str(path), **query}) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        watcher = Watcher(messages(answer), path)
        name, data = watcher.event()
        assert (name, data["path"]) == ("ready", str(path))
        yield watcher


def told(changes: Told) -> list[tuple[str, str, str | None]]:
    return [(change["path"], change["change"], change["kind"]) for change in changes]


def test_what_happens_to_files_is_told(shared_box: RunningBox, place: Path) -> None:
    (place / "old").write_text("old")
    with watching(shared_box, place) as watcher:
        (place / "new").write_text("new")
        assert ("new", "created", "file") in told(watcher.until_path("new", "created"))
        (place / "old").write_text("changed")
        watcher.until_path("old", "modified")
        (place / "old").rename(place / "renamed")
        moved = watcher.until_path("renamed", "moved")[-1]
        assert moved["source"] == "old"
        (place / "renamed").unlink()
        watcher.until_path("renamed", "deleted")
        (place / "d").mkdir()
        assert ("d", "created", "directory") in told(watcher.until_path("d", "created"))


def test_what_the_box_itself_writes_is_told_without_its_temporary_files(
    shared_box: RunningBox, place: Path
) -> None:
    def put(content: bytes) -> None:
        shared_box.client.put("/files/content", params={"path": str(place / "a")}, content=content)

    with watching(shared_box, place) as watcher:
        put(b"1")
        assert told(watcher.until_path("a", "created")) == [("a", "created", "file")]
        watcher.seen.clear()
        put(b"2")
        assert told(watcher.until_path("a", "modified")) == [("a", "modified", "file")]
        shared_box.execute("write", path=str(place / "b"), content="x")
        watcher.until_path("b", "created")
        assert not [change for change in watcher.seen if ".glovebox" in change["path"]]


def test_directories_that_appear_move_and_go_are_followed(shared_box: RunningBox, place: Path) -> None:
    (place / "outside").mkdir()
    root = place / "root"
    (root / "a/b").mkdir(parents=True)
    with watching(shared_box, root) as watcher:
        (root / "new/deep/er").mkdir(parents=True)
        (root / "new/deep/er/file").touch()
        watcher.until_path("new/deep/er/file", "created")
        (root / "a").rename(root / "moved")
        watcher.until_path("moved", "moved")
        (root / "moved/b/file").touch()
        watcher.until_path("moved/b/file", "created")
        (root / "moved").rename(place / "outside/gone")
        watcher.until_path("moved", "deleted")
        (place / "outside/gone/b/unseen").touch()
        (place / "outside/gone").rename(root / "back")
        watcher.until_path("back", "created")
        watcher.until_path("back/b/unseen", "created")
        (root / "back/b/seen").touch()
        watcher.until_path("back/b/seen", "created")
        shutil.rmtree(root / "back")
        watcher.until_path("back", "deleted")
        assert not [change for change in watcher.seen if change["path"].startswith("..")]


def test_many_changes_of_a_path_are_told_once(shared_box: RunningBox, place: Path) -> None:
    with watching(shared_box, place) as watcher:
        with (place / "log").open("w") as file:
            for _ in range(2_000):
                file.write("line\n")
                file.flush()
            os.fsync(file.fileno())
        (place / "short-lived").touch()
        (place / "short-lived").unlink()
        (place / "end").touch()
        changes = watcher.until_path("end", "created")
        assert len(changes) < 100
        assert changes[0]["path"] == "log"


def test_without_recursion_and_of_a_single_file(shared_box: RunningBox, place: Path) -> None:
    (place / "d").mkdir()
    with watching(shared_box, place, recursive="false") as watcher:
        (place / "d/inner").touch()
        (place / "last").touch()
        assert "d/inner" not in [path for path, _, _ in told(watcher.until_path("last", "created"))]
    with watching(shared_box, place / "last") as watcher:
        (place / "other").touch()
        (place / "temporary").write_text("replaced")
        (place / "temporary").rename(place / "last")
        (place / "last").write_text("changed")
        watcher.until(lambda changes: changes)
        assert {change["path"] for change in watcher.seen} == {"."}


def test_a_watch_ends_with_its_directory(shared_box: RunningBox, place: Path) -> None:
    (place / "d").mkdir()
    with watching(shared_box, place / "d") as watcher:
        (place / "d").rmdir()
        assert told(watcher.until_path(".", "deleted")) == [(".", "deleted", "directory")]
        assert watcher.event() == ("", None)


def test_what_cannot_be_watched(shared_box: RunningBox, place: Path) -> None:
    answer = shared_box.client.get("/files/watch", params={"path": str(place / "missing")})
    assert (answer.status_code, answer.headers["x-glovebox-error"]) == (404, "no_such_file")
    assert shared_box.client.get("/files/watch").status_code == 422


def test_watches_are_bounded_and_end_with_their_clients(shared_box: RunningBox, place: Path) -> None:
    def refused() -> bool:
        with shared_box.client.stream("GET", "/files/watch", params={"path": str(place)}) as answer:
            return answer.status_code == 429

    def instances() -> int:
        descriptors = f"/proc/{shared_box.process.pid}/fd"
        links = []
        for name in os.listdir(descriptors):
            with contextlib.suppress(FileNotFoundError):
                links.append(os.readlink(f"{descriptors}/{name}"))
        return links.count("anon_inode:inotify")

    before = instances()
    with contextlib.ExitStack() as stack:
        limits = httpx.Limits(max_connections=None)
        client = stack.enter_context(
            httpx.Client(base_url=shared_box.url, headers=shared_box.client.headers, limits=limits)
        )
        for _ in range(32):
            answer = stack.enter_context(
                client.stream("GET", "/files/watch", params={"path": str(place)}, timeout=60)
            )
            assert answer.status_code == 200
        assert refused()
    wait_until(lambda: instances() == before, what="the end of all watches")
    wait_until(lambda: not refused(), what="a free watch")


def collected(watch: DirectoryWatch) -> list[str]:
    changes = watch.collect()
    assert changes is not None
    return [change.path for change in changes]


def test_an_overflow_is_told_and_the_watch_is_complete_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = DirectoryWatch(str(tmp_path), recursive=True)
    try:
        limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        if limit > 100_000:
            pytest.skip(f"{limit} events are too many to make")
        (tmp_path / "unseen").mkdir()
        for number in range(limit + 10):
            (tmp_path / f"{number % 2}").touch()
            (tmp_path / f"{number % 2}").unlink()
        assert watch.collect() is None
        (tmp_path / "unseen/file").touch()
        assert collected(watch) == [str(tmp_path / "unseen/file")]
        monkeypatch.setattr(inotify, "MOST_CHANGES", 5)
        for number in range(10):
            (tmp_path / f"many-{number}").touch()
        assert watch.collect() is None
        assert collected(watch) == []
    finally:
        watch.close()


def test_ten_thousand_directories_are_watched(tmp_path: Path) -> None:
    for outer in range(100):
        for inner in range(100):
            (tmp_path / f"{outer}/{inner}").mkdir(parents=True)
    watch = DirectoryWatch(str(tmp_path), recursive=True)
    try:
        assert watch.directories == 10_101
        (tmp_path / "99/99/file").touch()
        assert collected(watch) == [str(tmp_path / "99/99/file")]
        (tmp_path / "50").rename(tmp_path / "moved")
        (tmp_path / "moved/50/file").touch()
        assert collected(watch) == [str(tmp_path / "moved"), str(tmp_path / "moved/50/file")]
        shutil.rmtree(tmp_path / "moved")
        watch.collect()
        assert watch.directories == 10_000
    finally:
        watch.close()
