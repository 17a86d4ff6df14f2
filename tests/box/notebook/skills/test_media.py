from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from glovebox.box.notebook.skills.media import chosen

TASK = "Describe this image as detail as possible."


class Service(ThreadingHTTPServer):
    """A model on this machine that speaks the OpenAI API, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.asked: list[tuple[str, str, str, bytes]] = []
        #: What it answers before it does its work: status and body.
        self.refusals: list[tuple[int, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Answering(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = self.server.asked
        asked.append((self.path, self.headers["Authorization"], self.headers["Content-Type"], body))
        if self.server.refusals:
            status, answer = self.server.refusals.pop(0)
        elif self.path == "/v1/audio/translations":
            status, answer = 200, json.dumps({"text": "good morning"}).encode()
        else:
            message = {"role": "assistant", "content": f"picture {len(asked)}"}
            status, answer = 200, json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def kernel(code: str, **environment: str) -> str:
    """What a fresh process prints, which has the functions and these variables."""
    names = ("OPENAI_", "SANDBOX_ENV_", "MAX_TOKEN")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    done = subprocess.run(
        [sys.executable, "-c", f"from glovebox.box.notebook.skills import *\n{code}"],
        env=inherited | {"NO_PROXY": "*"} | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return done.stdout


def test_a_picture_is_shown_to_the_model(tmp_path: Path, service: Service) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"picture")
    said = kernel(f"parse_image({str(path)!r})", OPENAI_API_KEY="sk-1", OPENAI_BASE_URL=service.url)
    assert said == f"[Reading image file from {path}]\npicture 1\n"
    [(where, key, kind, body)] = service.asked
    assert (where, key, kind) == ("/v1/chat/completions", "Bearer sk-1", "application/json")
    url = f"data:image/png;base64,{base64.b64encode(b'picture').decode()}"
    content = [{"type": "text", "text": TASK}, {"type": "image_url", "image_url": {"url": url}}]
    assert json.loads(body) == {
        "model": "gpt-4o",
        "max_tokens": 500,
        "messages": [{"role": "user", "content": content}],
    }


def test_the_environment_says_which_model_and_how_much_it_may_say(tmp_path: Path, service: Service) -> None:
    (tmp_path / "a").write_bytes(b"picture")
    kernel(
        f"parse_image({str(tmp_path / 'a')!r}, 'What?')",
        SANDBOX_ENV_OPENAI_API_KEY="sk-2",
        OPENAI_BASE_URL=service.url + "/",
        OPENAI_MODEL="other",
        MAX_TOKEN="7",
    )
    [(where, key, _, body)] = service.asked
    question = json.loads(body)
    assert (where, key) == ("/v1/chat/completions", "Bearer sk-2")
    assert (question["model"], question["max_tokens"]) == ("other", 7)
    assert question["messages"][0]["content"][0]["text"] == "What?"
    assert question["messages"][0]["content"][1]["image_url"]["url"].startswith("data:image/jpeg;base64,")


def test_sound_is_sent_as_a_file_and_its_text_printed(tmp_path: Path, service: Service) -> None:
    path = tmp_path / 'a "b".wav'
    path.write_bytes(b"RIFF\r\n--sound")
    said = kernel(f"parse_audio({str(path)!r})", OPENAI_API_KEY="sk-1", OPENAI_BASE_URL=service.url)
    assert said == f"[Transcribing audio file from {path}]\ngood morning\n"
    [(where, key, kind, body)] = service.asked
    assert (where, key) == ("/v1/audio/translations", "Bearer sk-1")
    boundary = kind.removeprefix("multipart/form-data; boundary=").encode()
    model, file, end = body.split(b"--" + boundary)[1:]
    assert model == b'\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
    assert b'; name="file"; filename="a %22b%22.wav"\r\n' in file
    assert file.endswith(b"\r\n\r\nRIFF\r\n--sound\r\n")
    assert end == b"--\r\n"


def test_a_refusal_of_the_service_is_told(tmp_path: Path, service: Service) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    service.refusals = [(401, b'{"error": {"message": "bad key"}}'), (404, b"no such thing"), (200, b"{}")]
    code = f"parse_audio({str(path)!r}); parse_image({str(path)!r}); parse_image({str(path)!r})"
    said = kernel(code, OPENAI_API_KEY="k", OPENAI_BASE_URL=service.url)
    assert said.splitlines()[1::2] == [
        "Error transcribing audio file: Error code: 401 - {'error': {'message': 'bad key'}}",
        "Error with the request: Error code: 404 - no such thing",
        "Error with the request: the service answered {}",
    ]


def test_a_busy_service_is_asked_again(tmp_path: Path, service: Service) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"x")
    service.refusals = [(429, b"slow down")]
    said = kernel(f"parse_image({str(path)!r})", OPENAI_API_KEY="k", OPENAI_BASE_URL=service.url)
    assert said.splitlines()[1] == "picture 2"


def test_a_service_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        said = kernel(f"parse_image({str(path)!r})", OPENAI_API_KEY="k", OPENAI_BASE_URL=url)
    assert said.splitlines()[1].startswith("Error with the request: Connection error: ")


def test_settings_that_make_no_sense_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    code = f"parse_image({str(path)!r})"
    assert "OPENAI_BASE_URL must begin with" in kernel(
        code, OPENAI_API_KEY="k", OPENAI_BASE_URL="file:///etc"
    )
    assert "MAX_TOKEN must be a whole number" in kernel(code, OPENAI_API_KEY="k", MAX_TOKEN="many")


def test_files_that_cannot_be_read_are_told() -> None:
    code = (
        "parse_audio('missing'); parse_image('/'); parse_image(None); parse_image(0); parse_video('missing')"
    )
    said = kernel(code, OPENAI_API_KEY="k")
    assert said.splitlines() == [
        "[Transcribing audio file from missing]",
        "Error transcribing audio file: [Errno 2] No such file or directory: 'missing'",
        "[Reading image file from /]",
        "Error with the request: [Errno 21] Is a directory: '/'",
        "[Reading image file from None]",
        "Error with the request: expected str, bytes or os.PathLike object, not NoneType",
        "[Reading image file from 0]",
        "Error with the request: expected the path of a file, not 0",
        "[Processing video file from missing with frame interval 30]",
        "ERROR: File missing not found.",
    ]


@pytest.mark.parametrize(
    ("total", "interval", "frames"),
    [
        (0, 30, []),
        (5, 1, [0]),
        (60, 1, [0, 10, 20, 30, 40, 50]),
        (100, 3, [0, 30, 60, 90]),
        (1000, 30, [0, 300, 600, 900]),
        (300, 1, list(range(0, 300, 10))),
        (1000, 1, list(range(0, 1000, 30))),
        (5000, 1, list(range(0, 5000, 160))),
    ],
)
def test_frames_of_a_video_are_chosen_evenly(total: int, interval: int, frames: list[int]) -> None:
    assert list(chosen(total, interval)) == frames


def test_some_frames_of_a_video_are_shown_to_the_model(tmp_path: Path, service: Service) -> None:
    cv2: Any = pytest.importorskip("cv2")
    numpy: Any = pytest.importorskip("numpy")
    path = tmp_path / "a.avi"
    video = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 25, (32, 32))
    for number in range(45):
        video.write(numpy.full((32, 32, 3), 5 * number, numpy.uint8))
    video.release()
    code = f"parse_video({str(path)!r}, frame_interval=2)"
    said = kernel(code, OPENAI_API_KEY="k", OPENAI_BASE_URL=service.url)
    assert said == (
        f"[Processing video file from {path} with frame interval 2]\n"
        "Totally 3 would be analyze...\n\n"
        f"Process the {path}, current No. 2 frame...\nFrame 1's content: picture 1\n\n"
        f"Process the {path}, current No. 4 frame...\nFrame 2's content: picture 2\n\n"
        f"Process the {path}, current No. 6 frame...\nFrame 3's content: picture 3\n\n"
    )
    greys = []
    for *_, body in service.asked:
        url = json.loads(body)["messages"][0]["content"][1]["image_url"]["url"]
        data = base64.b64decode(url.removeprefix("data:image/jpeg;base64,"))
        greys.append(cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_GRAYSCALE).mean())
    assert greys == pytest.approx([0, 100, 200], abs=10)


def test_what_is_no_video_and_no_interval_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    path = tmp_path / "a.avi"
    path.write_text("words")
    said = kernel(f"parse_video({str(path)!r}); parse_video({str(path)!r}, 'x', 0)", OPENAI_API_KEY="k")
    assert said.splitlines()[1::2] == [
        f"ERROR: File {path} cannot be read as a video.",
        "ERROR: frame_interval must be a whole number from 1, not 0.",
    ]
