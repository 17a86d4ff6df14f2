"""Sound, pictures and videos, described by a model."""

from __future__ import annotations

import base64
import json
import mimetypes
import os
import time
import uuid
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from glovebox.box.notebook.skills.documents import library
from glovebox.box.notebook.skills.text_files import Trouble, expect_file, expect_text, telling

#: With an interval of 1, every tenth frame is used.
_STEP = 10
_MAX_FRAMES = 30


@telling
def parse_audio(file_path: object, model: object) -> None:
    """Print the speech of a sound file."""
    print(f"[Transcribing audio file from {file_path}]")
    try:
        print(listen(_content(file_path), os.path.basename(str(file_path)), expect_text(model, "model")))
    except (NoAnswer, OSError, TypeError, ValueError) as error:
        print(f"Error transcribing audio file: {error}")


@telling
def parse_image(file_path: object, task: object) -> None:
    """Print a description of a picture."""
    print(f"[Reading image file from {file_path}]")
    try:
        kind = mimetypes.guess_type(str(file_path))[0] or ""
        if not kind.startswith("image/"):
            kind = "image/jpeg"
        print(look(_content(file_path), kind, expect_text(task, "task")))
    except (NoAnswer, OSError, TypeError, ValueError) as error:
        print(f"Error with the request: {error}")


@telling
def parse_video(file_path: object, task: object, frame_interval: object) -> None:
    """Print descriptions of some frames."""
    print(f"[Processing video file from {file_path} with frame interval {frame_interval}]")
    path = expect_file(file_path)
    task = expect_text(task, "task")
    if not isinstance(frame_interval, int) or frame_interval < 1:
        raise Trouble(f"frame_interval must be a whole number from 1, not {frame_interval!r}.")
    cv2 = library("cv2", "opencv-python-headless", "Reading video files")
    frames = chosen(_count(cv2, path), frame_interval)
    print(f"Totally {len(frames)} would be analyze...\n")
    for number, picture in enumerate(_pictures(cv2, path, frames), 1):
        print(f"Process the {path}, current No. {number * frame_interval} frame...")
        try:
            print(f"Frame {number}'s content: {look(picture, 'image/jpeg', task)}\n")
        except NoAnswer as error:
            print(f"Error with the request: {error}")


def chosen(total: int, interval: int) -> range:
    """The frames to describe: about 30 at most, evenly spread."""
    candidates = range(0, total, _STEP)
    frames = candidates[::interval]
    return frames if len(frames) <= _MAX_FRAMES else candidates[:: len(candidates) // _MAX_FRAMES]


def _content(path: Any) -> bytes:
    if isinstance(path, int):
        raise TypeError(f"expected the path of a file, not {path!r}")  # a number would be an open file
    with open(path, "rb") as file:
        return file.read()


def _open_video(cv2: Any, path: str) -> Any:
    video = cv2.VideoCapture(path)
    if not video.isOpened():
        raise Trouble(f"File {path} cannot be read as a video.")
    return video


def _count(cv2: Any, path: str) -> int:
    """The number of frames; the one in the file is often wrong."""
    video = _open_video(cv2, path)
    try:
        total = 0
        while video.grab():
            total += 1
        return total
    finally:
        video.release()


def _pictures(cv2: Any, path: str, frames: range) -> Iterator[bytes]:
    """The chosen frames as JPEG, one at a time: all of a video would not fit into memory."""
    video = _open_video(cv2, path)
    try:
        at = 0
        for frame in frames:
            while at <= frame and video.grab():
                at += 1
            got, image = video.retrieve()
            if not got:
                return
            encoded, picture = cv2.imencode(".jpg", image)
            if encoded:
                yield picture.tobytes()
    finally:
        video.release()


_TIMEOUT = 600
#: Seconds to wait before another try when the service is overloaded.
_PAUSES = (0.5, 2.0)


class NoAnswer(Exception):
    """The model gave no answer; the text says why."""


def look(picture: bytes, kind: str, task: str) -> str:
    """The answer of the model about a picture (its bytes, and their MIME type)."""
    url = f"data:{kind};base64,{base64.b64encode(picture).decode()}"
    content = [{"type": "text", "text": task}, {"type": "image_url", "image_url": {"url": url}}]
    question = {
        "model": _setting("OPENAI_MODEL", "gpt-4o"),
        "messages": [{"role": "user", "content": content}],
        "max_tokens": _max_tokens(),
    }
    answer = _post("/chat/completions", json.dumps(question).encode(), "application/json")
    try:
        return str(answer["choices"][0]["message"]["content"])
    except (LookupError, TypeError):
        raise NoAnswer(f"the service answered {answer}") from None


def listen(sound: bytes, name: str, model: str) -> str:
    """Translate the speech in a sound file into English; the service needs its name to know the format."""
    boundary = uuid.uuid4().hex
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    quoted = name.replace("\\", "_").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\n{model}\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
        f"Content-Type: {kind}\r\n\r\n"
    )
    body = b"".join((head.encode(errors="replace"), sound, f"\r\n--{boundary}--\r\n".encode()))
    answer = _post("/audio/translations", body, f"multipart/form-data; boundary={boundary}")
    try:
        return str(answer["text"])
    except (LookupError, TypeError):
        raise NoAnswer(f"the service answered {answer}") from None


def _post(path: str, body: bytes, kind: str) -> Any:
    base = _setting("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise NoAnswer(f"OPENAI_BASE_URL must begin with http:// or https://, and it is {base}")
    headers = {"Content-Type": kind, "Authorization": f"Bearer {_key()}"}
    for pause in (*_PAUSES, None):
        request = Request(base + path, body, headers)  # noqa: S310  the scheme was checked
        try:
            with urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
                return _parse(response.read())
        except HTTPError as error:
            with error:
                said = _parse(error.read())
            if pause is None or (error.code != 429 and error.code < 500):
                raise NoAnswer(f"Error code: {error.code} - {said}") from None
            time.sleep(pause)
        except URLError as error:
            raise NoAnswer(f"Connection error: {error.reason}") from None
        except (OSError, HTTPException) as error:
            raise NoAnswer(f"Connection error: {error}") from None
    raise AssertionError("the last try returns or raises")


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


def _max_tokens() -> int:
    text = _setting("MAX_TOKEN", "500")
    try:
        return int(text)
    except ValueError:
        raise NoAnswer(f"MAX_TOKEN must be a whole number, and it is {text}") from None


def _key() -> str:
    return _setting("OPENAI_API_KEY", "") or _setting("SANDBOX_ENV_OPENAI_API_KEY", "")


def _setting(name: str, default: str) -> str:
    # A kernel has no settings but its environment, and cells may change it.
    return os.environ.get(name) or default  # noqa: TID251
