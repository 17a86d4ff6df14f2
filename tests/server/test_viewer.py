from __future__ import annotations

import base64
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from glovebox.server.viewer import ViewerServer, start_viewer
from glovebox.server.viewer_pages import MAX_BYTES, script_string

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FIRST_PORT = 21_000


@pytest.fixture
async def viewer(tmp_path: Path) -> AsyncIterator[ViewerServer]:
    viewer = await start_viewer(FIRST_PORT, str(tmp_path / "url"))
    yield viewer
    await viewer.close()


@pytest.fixture
async def client(viewer: ViewerServer) -> AsyncIterator[httpx.AsyncClient]:
    base = f"http://127.0.0.1:{viewer.port}"
    async with httpx.AsyncClient(base_url=base, timeout=30, trust_env=False) as client:
        yield client


async def view(client: httpx.AsyncClient, path: Path | str) -> httpx.Response:
    return await client.get("/view", params={"path": str(path)})


async def test_it_says_that_it_runs(client: httpx.AsyncClient) -> None:
    answer = await client.get("/")
    assert answer.status_code == 200
    assert answer.text == '{"status":"File viewer server is running"}'


@pytest.mark.parametrize(
    ("name", "extension", "kind"),
    [
        ("a.png", ".png", "image/png"),
        ("b.JPG", ".jpg", "image/jpeg"),
        ("c.jpeg", ".jpeg", "image/jpeg"),
        ("d.gif", ".gif", "image/gif"),
        ("e.pdf", ".pdf", "application/pdf"),
    ],
)
async def test_a_file_is_shown_in_a_page(
    client: httpx.AsyncClient, tmp_path: Path, name: str, extension: str, kind: str
) -> None:
    (tmp_path / name).write_bytes(PNG)
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
    assert f'    const fileBase64 = "{base64.b64encode(PNG).decode()}";\n' in page
    assert f'    const mimeType = "{kind}";\n' in page
    assert "{{" not in page


async def test_a_large_file_is_encoded_as_one(client: httpx.AsyncClient, tmp_path: Path) -> None:
    data = os.urandom(3_000_001)
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


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "localhost.evil.example", "["])
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


async def test_the_address_is_written_without_a_newline_for_everyone_to_read(
    viewer: ViewerServer, tmp_path: Path
) -> None:
    assert (tmp_path / "url").read_bytes() == f"http://localhost:{viewer.port}".encode()
    assert (tmp_path / "url").stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["url"]


async def test_the_port_is_free_and_in_the_range(viewer: ViewerServer) -> None:
    assert viewer.port is not None
    assert FIRST_PORT <= viewer.port < FIRST_PORT + 1024
    with pytest.raises(OSError), socket.socket() as other:
        other.bind(("127.0.0.1", viewer.port))


async def test_a_taken_port_is_passed_over(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 65_534)):
        viewer = await start_viewer(65_534, str(tmp_path / "url"))
        assert viewer.port == 65_535
        await viewer.close()


async def test_without_a_free_port_there_is_no_viewer_and_no_harm(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 65_535)):
        for start in (65_535, 65_536):
            viewer = await start_viewer(start, str(tmp_path / "url"))
            assert viewer.port is None
            await viewer.close()
    assert os.listdir(tmp_path) == []


async def test_what_is_not_a_file_is_left_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "url"
    os.mkfifo(pipe)
    viewer = await start_viewer(FIRST_PORT, str(pipe))
    await viewer.close()
    assert pipe.is_fifo()


async def test_a_planted_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("old")
    (tmp_path / "url").symlink_to("precious")
    viewer = await start_viewer(FIRST_PORT, str(tmp_path / "url"))
    assert not (tmp_path / "url").is_symlink()
    assert (tmp_path / "url").read_text() == viewer.url
    await viewer.close()
    assert (tmp_path / "precious").read_text() == "old"


async def test_an_address_that_cannot_be_written_is_not_fatal(tmp_path: Path) -> None:
    (tmp_path / "url").mkdir()
    viewer = await start_viewer(FIRST_PORT, str(tmp_path / "url"))
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{viewer.url.replace('localhost', '127.0.0.1')}/")).status_code == 200
    await viewer.close()
    assert os.listdir(tmp_path) == ["url"]


async def test_closing_withdraws_the_address_only_if_it_is_ours(tmp_path: Path) -> None:
    first = await start_viewer(FIRST_PORT, str(tmp_path / "url"))
    second = await start_viewer(FIRST_PORT, str(tmp_path / "url"))
    await first.close()
    assert (tmp_path / "url").read_text() == second.url
    await second.close()
    assert os.listdir(tmp_path) == []


async def test_closing_closes_the_port(tmp_path: Path) -> None:
    viewer = await start_viewer(FIRST_PORT, str(tmp_path / "url"))
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
