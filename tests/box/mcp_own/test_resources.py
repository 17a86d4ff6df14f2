"""Files of the workspace as resources."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import BlobResourceContents, Resource, TextResourceContents

from tests.box.mcp_own.connecting import Connected


def uris(client: Connected) -> dict[str, Resource]:
    """All resources, page by page."""
    found: dict[str, Resource] = {}
    cursor = None
    while True:
        page = client.do(client.client.list_resources, cursor=cursor)
        found |= {resource.uri: resource for resource in page.resources}
        if page.next_cursor is None:
            return found
        cursor = page.next_cursor


def read(client: Connected, uri: str) -> TextResourceContents | BlobResourceContents:
    (content,) = client.do(client.client.read_resource, uri).contents
    assert isinstance(content, TextResourceContents | BlobResourceContents)
    return content


def refusal(client: Connected, uri: str) -> str:
    with pytest.raises(MCPError) as caught:
        client.do(client.client.read_resource, uri)
    assert caught.value.error.code == -32602
    return caught.value.error.message


@pytest.fixture
def place(client: Connected, request: pytest.FixtureRequest) -> Path:
    path = client.workspace / f"place-{abs(hash(request.node.name))}"
    path.mkdir()
    return path


def test_files_are_listed_with_type_size_and_time(client: Connected, place: Path) -> None:
    (place / "page.html").write_text("<p>hello</p>")
    (place / "a ? name#.txt").write_text("odd")
    os.utime(place / "page.html", (0, 1_700_000_000))
    listed = uris(client)
    page = listed[f"file://{place}/page.html"]
    assert (page.mime_type, page.size) == ("text/html", 12)
    assert page.annotations is not None
    assert page.annotations.last_modified == "2023-11-14T22:13:20+00:00"
    assert page.name == f"{place.name}/page.html"
    odd = f"file://{place}/a%20%3F%20name%23.txt"
    assert odd in listed
    assert read(client, odd) == TextResourceContents(uri=odd, mime_type="text/plain", text="odd")


def test_hidden_and_ignored_files_are_not_listed(client: Connected, place: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)
    (place / ".gitignore").write_text("built/\n")
    (place / "built").mkdir()
    for name in ("seen.txt", ".hidden", "built/ignored.txt"):
        (place / name).write_text(name)
    prefix = f"file://{place}/"
    assert {uri.removeprefix(prefix) for uri in uris(client) if uri.startswith(prefix)} == {"seen.txt"}
    hidden = read(client, f"{prefix}.hidden")
    assert isinstance(hidden, TextResourceContents)


def test_many_files_come_in_pages(modern: Connected) -> None:
    place = modern.workspace / "many"
    place.mkdir()
    for number in range(1_100):
        (place / f"{number}.txt").write_text("")
    page = modern.do(modern.client.list_resources)
    assert len(page.resources) <= 500
    assert page.next_cursor
    prefix = f"file://{place}/"
    assert len([uri for uri in uris(modern) if uri.startswith(prefix)]) == 1_100
    with pytest.raises(MCPError, match="cursor"):
        modern.do(modern.client.list_resources, cursor="nonsense")


def test_the_template_leads_to_files(client: Connected, place: Path) -> None:
    (template,) = client.do(client.client.list_resource_templates).resource_templates
    (place / "file.txt").write_text("by template")
    uri = template.uri_template.replace("{+path}", str(place / "file.txt").lstrip("/"))
    content = read(client, uri)
    assert isinstance(content, TextResourceContents)
    assert content.text == "by template"


def test_what_is_not_text_comes_as_a_blob(client: Connected, place: Path) -> None:
    for name, data, media_type in (
        ("zeros", b"a\0b", "application/octet-stream"),
        ("latin.txt", b"caf\xe9", "text/plain"),
        ("dot.png", b"\x89PNG\r\n\x1a\n", "image/png"),
    ):
        (place / name).write_bytes(data)
        content = read(client, f"file://{place}/{name}")
        assert isinstance(content, BlobResourceContents)
        assert base64.b64decode(content.blob) == data
        assert content.mime_type == media_type


def test_a_directory_reads_as_its_names(client: Connected, place: Path) -> None:
    (place / "below").mkdir()
    (place / "file").write_text("")
    content = read(client, f"file://{place}")
    assert isinstance(content, TextResourceContents)
    assert content.text == "below/\nfile\n"
    assert content.mime_type == "inode/directory"


@pytest.mark.attack
def test_nothing_outside_the_workspace_is_read(client: Connected, place: Path) -> None:
    outside = client.workspace.parent / "secret.txt"
    outside.write_text("secret")
    beside = client.workspace.with_name(client.workspace.name + "-beside")
    beside.mkdir(exist_ok=True)
    (beside / "file").write_text("secret")
    (place / "link").symlink_to(outside)
    (place / "directory").symlink_to(client.workspace.parent)
    for uri in (
        f"file://{outside}",
        f"file://{client.workspace}/../secret.txt",
        f"file://{client.workspace}/%2e%2e/secret.txt",
        f"file://{client.workspace}/..%2fsecret.txt",
        f"file://{beside}/file",
        f"file://{place}/link",
        f"file://{place}/directory/secret.txt",
        "file:///proc/self/environ",
        "file:///nowhere/at/all",
    ):
        assert "is not in the workspace" in refusal(client, uri), uri
    listed = uris(client)
    assert f"file://{place}/link" not in listed
    assert not [uri for uri in listed if "secret" in uri]


@pytest.mark.attack
def test_a_directory_that_becomes_a_link_meanwhile_shows_nothing_outside(
    client: Connected, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    (place / "flip").mkdir()
    (place / "flip" / "secret.txt").write_text("harmless")
    (tmp_path / "outside" / "hidden").write_text("")
    (place / "link").symlink_to(tmp_path / "outside")
    # Swaps the directory and the link as fast as it can, for as long as its standard input is open.
    program = (
        "import ctypes, os, select, sys\n"
        "swap = ctypes.CDLL(None).renameat2\n"
        "while not select.select([0], [], [], 0)[0]:\n"
        "    for _ in range(100): swap(-100, b'flip', -100, b'link', 2)\n"
    )
    swapping = subprocess.Popen([sys.executable, "-c", program], cwd=place, stdin=subprocess.PIPE)
    shown: set[str] = set()
    try:
        for _ in range(300):
            for name in ("flip", "flip/secret.txt", "link/secret.txt"):
                with contextlib.suppress(MCPError):
                    content = read(client, f"file://{place}/{name}")
                    assert isinstance(content, TextResourceContents)
                    shown.add(content.text)
    finally:
        swapping.communicate()
    assert shown <= {"harmless", "secret.txt\n"}, shown


def test_links_inside_the_workspace_are_followed(client: Connected, place: Path) -> None:
    (place / "real.txt").write_text("real")
    (place / "link.txt").symlink_to("real.txt")
    content = read(client, f"file://{place}/link.txt")
    assert isinstance(content, TextResourceContents)
    assert content.text == "real"


def test_what_is_no_file_is_refused_and_nothing_hangs(client: Connected, place: Path) -> None:
    os.mkfifo(place / "pipe")
    (place / "round").symlink_to("round")
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(place):  # its path has to be short
        listening.bind("socket")
    assert "a named pipe" in refusal(client, f"file://{place}/pipe")
    assert "a socket" in refusal(client, f"file://{place}/socket")
    assert "cannot be read" in refusal(client, f"file://{place}/round")
    assert "no file" in refusal(client, f"file://{place}/missing")
    assert "NUL" in refusal(client, f"file://{place}/a%00b")
    for uri in ("http://localhost/x", "file://elsewhere/x", "file:relative", "nonsense"):
        assert "is not the address of a file here" in refusal(client, uri)


def test_a_large_file_is_refused_with_its_size(client: Connected, place: Path) -> None:
    with open(place / "large", "wb") as file:
        file.truncate(17 << 20)
    said = refusal(client, f"file://{place}/large")
    assert "17,825,792 bytes" in said
    assert "16,777,216" in said
