from __future__ import annotations

import base64
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from glovebox.server.viewer.pages import MAX_BYTES, script_string
from glovebox.server.viewer.server import ViewerServer
from tests.server.viewer_server import FIRST_PORT, pdf, running_viewer, started_viewer

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"
GIF = b"GIF89a\x01\x00\x01\x00"


@pytest.fixture
async def viewed(tmp_path: Path) -> AsyncIterator[tuple[ViewerServer, httpx.AsyncClient]]:
    async with running_viewer(tmp_path) as both:
        yield both


@pytest.fixture
def viewer(viewed: tuple[ViewerServer, httpx.AsyncClient]) -> ViewerServer:
    return viewed[0]


@pytest.fixture
def client(viewed: tuple[ViewerServer, httpx.AsyncClient]) -> httpx.AsyncClient:
    return viewed[1]


async def view(client: httpx.AsyncClient, path: Path | str) -> httpx.Response:
    return await client.get("/view", params={"path": str(path)})


async def test_it_says_that_it_runs(viewer: ViewerServer, client: httpx.AsyncClient) -> None:
    for address in (viewer.url, f"{viewer.url}/"):
        answer = await client.get(address)
        assert answer.status_code == 200
        assert answer.text == '{"status":"File viewer server is running"}'


@pytest.mark.parametrize(
    ("name", "extension", "data", "kind"),
    [
        ("a.png", ".png", PNG, "image/png"),
        ("b.JPG", ".jpg", JPEG, "image/jpeg"),
        ("c.jpeg", ".jpeg", JPEG, "image/jpeg"),
        ("d.gif", ".gif", GIF, "image/gif"),
        ("e.pdf", ".pdf", pdf(b""), "application/pdf"),
        ("f.jpg", ".jpg", PNG, "image/png"),
    ],
)
async def test_a_file_is_shown_in_a_page(
    client: httpx.AsyncClient, tmp_path: Path, name: str, extension: str, data: bytes, kind: str
) -> None:
    (tmp_path / name).write_bytes(data)
    answer = await view(client, tmp_path / name)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = answer.text
    assert page.startswith("<!DOCTYPE html>\n")
    assert page.endswith("</html>")
    assert f"    <title>File Viewer - {name}</title>\n" in page
    assert f'    const filePath = "{tmp_path}/{name}";\n' in page
    assert f'    const fileExtension = "{extension}";\n' in page
    assert "    const fileContent = ``;\n" in page
    assert f'    const fileBase64 = "{base64.b64encode(data).decode()}";\n' in page
    assert f'    const mimeType = "{kind}";\n' in page
    assert "{{" not in page


NO_IMAGE = "The file is no image: its content begins like no PNG, JPEG or GIF."
NO_PDF = "The file is no PDF: its content does not begin like one."


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.png", b"", NO_IMAGE),
        ("a.png", b"root:x:0:0", NO_IMAGE),
        ("a.jpg", b"<svg/>", NO_IMAGE),
        ("a.GIF", pdf(b""), NO_IMAGE),
        ("a.pdf", b"", NO_PDF),
        ("a.pdf", b"%!PS", NO_PDF),
        ("a.pdf", PNG, NO_PDF),
        ("a.pdf", b"a" * 1024 + pdf(b""), NO_PDF),
    ],
)
async def test_what_is_something_else_than_its_name_says_is_not_shown(
    client: httpx.AsyncClient, tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    answer = await view(client, tmp_path / name)
    assert answer.status_code == 500
    assert answer.text == f"<h1>Error viewing file</h1><p>{tmp_path}/{name}</p><p>{reason}</p>"


async def test_a_large_file_is_encoded_as_one(client: httpx.AsyncClient, tmp_path: Path) -> None:
    data = PNG + os.urandom(3_000_001)
    (tmp_path / "a.png").write_bytes(data)
    page = (await view(client, tmp_path / "a.png")).text
    assert f'fileBase64 = "{base64.b64encode(data).decode()}";' in page


async def test_a_name_cannot_break_out_of_the_page(client: httpx.AsyncClient, tmp_path: Path) -> None:
    name = '</script><img src=x>"\\${{content}}&.png'
    (tmp_path / "<").mkdir()
    (tmp_path / "<" / "script>").mkdir()
    directory = tmp_path / "</script><b>"
    directory.mkdir(parents=True)
    path = directory / name.rpartition("/")[2]
    path.write_bytes(PNG)
    page = (await view(client, path)).text
    assert page.count("</script>") == 2
    assert "<img src=x>" not in page
    assert "<b>" not in page
    assert '\\u003c/script>\\u003cb>/script>\\u003cimg src=x>\\"\\\\${{content}}&.png";' in page
    assert "File Viewer - script&gt;&lt;img" in page
    assert page.count(base64.b64encode(PNG).decode()) == 1


@pytest.mark.parametrize("name", ["a.png", "a.txt", "none.png"])
async def test_a_page_loads_nothing_and_is_framed_nowhere(
    client: httpx.AsyncClient, tmp_path: Path, name: str
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "a.txt").touch()
    headers = (await view(client, tmp_path / name)).headers
    assert headers["content-security-policy"].split("; ") == [
        "default-src 'none'",
        "script-src 'unsafe-inline'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "no-referrer"


async def test_other_letters_stay_as_they_are(client: httpx.AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "日本 ü.png").write_bytes(PNG)
    page = (await view(client, tmp_path / "日本 ü.png")).text
    assert "<title>File Viewer - 日本 ü.png</title>" in page
    assert f'const filePath = "{tmp_path}/日本 ü.png";' in page


def test_script_strings_escape_what_ends_a_line_or_an_element() -> None:
    assert script_string('a"b\\c\n</script>\u2028\u2029') == '"a\\"b\\\\c\\n\\u003c/script>\\u2028\\u2029"'


@pytest.mark.parametrize(
    ("path", "status", "page"),
    [
        ("a.png", 400, "<h1>Error: Path must be absolute</h1><p>a.png</p>"),
        ("", 400, "<h1>Error: Path must be absolute</h1><p></p>"),
        ("/no/such.png", 404, "<h1>Error: File not found</h1><p>/no/such.png</p>"),
        ("/no/<b>&.png", 404, "<h1>Error: File not found</h1><p>/no/&lt;b&gt;&amp;.png</p>"),
        ("/nul\0.png", 404, "<h1>Error: File not found</h1><p>/nul\0.png</p>"),
        ("/tmp", 400, "<h1>Error: Path is a directory</h1><p>/tmp</p>"),
        (
            "/dev/null",
            500,
            "<h1>Error viewing file</h1><p>/dev/null</p><p>Unsupported file extension: . Supported "
            "extensions are: .pdf, .png, .jpg, .jpeg, .gif</p>",
        ),
    ],
)
async def test_what_cannot_be_shown_is_explained(
    client: httpx.AsyncClient, path: str, status: int, page: str
) -> None:
    answer = await view(client, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text == page


async def test_an_unknown_suffix_is_explained(client: httpx.AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "f.TXT").touch()
    answer = await view(client, tmp_path / "f.TXT")
    assert answer.status_code == 500
    assert answer.text == (
        f"<h1>Error viewing file</h1><p>{tmp_path}/f.TXT</p><p>Unsupported file extension: .txt. "
        "Supported extensions are: .pdf, .png, .jpg, .jpeg, .gif</p>"
    )


async def test_a_file_that_is_too_large_is_explained(client: httpx.AsyncClient, tmp_path: Path) -> None:
    with (tmp_path / "a.png").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    answer = await view(client, tmp_path / "a.png")
    assert answer.status_code == 500
    assert "too large to view" in answer.text


async def test_a_pipe_does_not_keep_the_viewer_waiting(client: httpx.AsyncClient, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    answer = await view(client, tmp_path / "a.png")
    assert answer.status_code == 500
    assert "Not a regular file" in answer.text


async def test_a_path_is_required(client: httpx.AsyncClient) -> None:
    answer = await client.get("/view")
    assert answer.status_code == 422
    expected = '{"detail":[{"type":"missing","loc":["query","path"],"msg":"Field required","input":null}]}'
    assert answer.text == expected


async def test_unknown_paths_and_methods_are_refused_in_json(client: httpx.AsyncClient) -> None:
    unknown = await client.get("/nope")
    assert (unknown.status_code, unknown.json()) == (404, {"detail": "Not Found"})
    for method in ("POST", "HEAD", "OPTIONS"):
        wrong = await client.request(method, "/view")
        assert wrong.status_code == 405
        assert wrong.headers["allow"] == "GET"
        assert wrong.text == ("" if method == "HEAD" else '{"detail":"Method Not Allowed"}')


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "localhost.evil.example", "[", "[::1].evil.example", "a@localhost"],
)
async def test_a_page_that_lets_its_name_lead_here_is_refused(
    client: httpx.AsyncClient, tmp_path: Path, host: str
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    answer = await client.get("/view", params={"path": f"{tmp_path}/a.png"}, headers={"Host": host})
    assert answer.status_code == 403
    assert answer.text == "<h1>Access Denied</h1><p>This endpoint is only accessible from localhost</p>"


async def test_a_header_cannot_say_where_a_request_comes_from(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    answer = await client.get(
        "/view", params={"path": f"{tmp_path}/a.png"}, headers={"X-Forwarded-For": "203.0.113.9"}
    )
    assert answer.status_code == 200


async def test_the_port_is_free_and_in_the_range(viewer: ViewerServer) -> None:
    assert viewer.port is not None
    assert FIRST_PORT <= viewer.port < FIRST_PORT + 1024
    with pytest.raises(OSError), socket.socket() as other:
        other.bind(("127.0.0.1", viewer.port))


async def test_a_taken_port_is_passed_over(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 65_534)):
        viewer = await started_viewer(tmp_path / "url", port=65_534)
        assert viewer.port == 65_535
        await viewer.close()


async def test_without_a_free_port_there_is_no_viewer_and_no_harm(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 65_535)):
        for start in (65_535, 65_536):
            viewer = await started_viewer(tmp_path / "url", port=start)
            assert viewer.port is None
            await viewer.close()
    assert os.listdir(tmp_path) == []


async def test_closing_closes_the_port(tmp_path: Path) -> None:
    viewer = await started_viewer(tmp_path / "url")
    assert viewer.port is not None
    with socket.create_connection(("127.0.0.1", viewer.port), 5):
        await viewer.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", viewer.port), 5)


async def test_signals_stay_with_the_main_server(client: httpx.AsyncClient) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert (await client.get("/")).status_code == 200
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert "handle_exit" not in repr(before)


@pytest.mark.attack
async def test_every_answer_has_the_headers_and_limits_of_a_box(
    viewer: ViewerServer, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    elsewhere = f"http://127.0.0.1:{viewer.port}/view?path=/etc/passwd"
    for answer in (
        await client.get("/"),
        await client.get(elsewhere),
        await view(client, "/no/such.png"),
        await view(client, tmp_path / "a.png"),
    ):
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert (await client.get("/", headers={"x": "x" * 100_000})).status_code == 431
    assert (await view(client, "x" * 20_000)).status_code == 414
