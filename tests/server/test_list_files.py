from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.server.serving import serving_transfer

UNEXPECTED = {"detail": "An unexpected error occurred. Please try again later."}


@pytest.fixture(scope="module")
def working_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("working")
    (directory / "rel/k").mkdir(parents=True)
    (directory / "rel/f").touch()
    return directory


@pytest.fixture(scope="module")
def client(working_dir: Path) -> Iterator[httpx.Client]:
    with (
        serving_transfer(str(working_dir)) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client,
    ):
        yield client


def names(client: httpx.Client, body: object) -> list[str]:
    answer = client.post("/list_files", json=body)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    found: list[str] = answer.json()
    return found


def test_directories_come_first_and_the_case_does_not_matter(client: httpx.Client, tmp_path: Path) -> None:
    for name in ("b", "A", "C", "d", "E", ".h"):
        (tmp_path / name).touch()
    for name in ("z", "Y", ".dot"):
        (tmp_path / name).mkdir()
    assert names(client, {"path": str(tmp_path)}) == [".dot/", "Y/", "z/", ".h", "A", "b", "C", "d", "E"]


def test_links_count_as_what_they_lead_to(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links/d").symlink_to("..")
    (tmp_path / "file").touch()
    (tmp_path / "links/f").symlink_to("../file")
    (tmp_path / "links/dangling").symlink_to("nowhere")
    (tmp_path / "links/circle").symlink_to("circle")
    assert names(client, {"path": f"{tmp_path}/links"}) == ["d/", "f"]


def test_special_names_and_special_files_are_listed(client: httpx.Client, tmp_path: Path) -> None:
    for name in ("a b", "ü.txt", "日本", "ZZ", "aa", '"'):
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / "pipe")
    answer = client.post("/list_files", json={"path": str(tmp_path)})
    assert answer.text == '["\\"","a b","aa","pipe","ZZ","ü.txt","日本"]'


def test_a_name_that_is_no_text_is_shown_as_well_as_it_can_be(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"latin-\xe9")).touch()
    (tmp_path / "plain").touch()
    assert names(client, {"path": str(tmp_path)}) == ["latin-\ufffd", "plain"]


@pytest.mark.parametrize("body", [{"path": "rel"}, {"path": "./rel/../rel"}, {"path": "rel", "other": 1}])
def test_a_relative_path_starts_at_the_working_directory(client: httpx.Client, body: object) -> None:
    assert names(client, body) == ["k/", "f"]


@pytest.mark.parametrize("body", [{}, {"path": None}, {"path": ""}, {"path": "."}])
def test_no_path_is_the_working_directory(client: httpx.Client, body: object) -> None:
    assert names(client, body) == ["rel/"]


@pytest.mark.parametrize("path", ["/none/such", "rel/f", "rel/none", "nul\0nul", "x" * 5000])
def test_what_cannot_be_listed_is_empty(client: httpx.Client, path: str) -> None:
    assert names(client, {"path": path}) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_what_may_not_be_listed_is_empty(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o000)
    assert names(client, {"path": str(tmp_path / "shut")}) == []


def test_the_content_type_does_not_matter(client: httpx.Client) -> None:
    answer = client.post("/list_files", content=b'{"path":"rel"}', headers={"Content-Type": "text/plain"})
    assert answer.json() == ["k/", "f"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"rel"',
        b"null",
        b'{"path":5}',
        b'{"path":["rel"]}',
        b'{"path":false}',
        b"\xff",
        b"{}x",
    ],
)
def test_a_body_that_is_no_request_is_an_error_without_words(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/list_files", content=body)
    assert answer.status_code == 500
    assert answer.json() == UNEXPECTED
    assert answer.headers["x-glovebox-error"] == "request_invalid"


def test_a_body_without_end_is_not_read(client: httpx.Client) -> None:
    assert client.post("/list_files", content=b" " * 5_000_000 + b"{}").status_code == 413


def test_many_entries_are_all_listed(client: httpx.Client, tmp_path: Path) -> None:
    for number in range(20_000):
        os.close(os.open(tmp_path / f"file-{number}", os.O_CREAT | os.O_WRONLY, 0o644))
    assert len(names(client, {"path": str(tmp_path)})) == 20_000
