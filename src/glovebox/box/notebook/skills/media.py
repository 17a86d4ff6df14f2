"""Sound, pictures and videos, described by a model."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterator
from typing import Any

from glovebox.box.notebook.skills.documents import library
from glovebox.box.notebook.skills.model import NoAnswer, listen, look
from glovebox.box.notebook.skills.reading import Trouble, expect_file, expect_text, telling

#: Of a video, one frame in so many is looked at for an interval of 1.
_STEP = 10
_MAX_FRAMES = 30


@telling
def parse_audio(file_path: object, model: object) -> None:
    """Print what is said."""
    print(f"[Transcribing audio file from {file_path}]")
    try:
        print(listen(_content(file_path), os.path.basename(str(file_path)), expect_text(model, "model")))
    except (NoAnswer, OSError, TypeError, ValueError) as error:
        print(f"Error transcribing audio file: {error}")


@telling
def parse_image(file_path: object, task: object) -> None:
    """Print what is seen."""
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
    """Print what is seen in some frames."""
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
    """The frames to look at: some 30 at most, evenly spread."""
    candidates = range(0, total, _STEP)
    frames = candidates[::interval]
    return frames if len(frames) <= _MAX_FRAMES else candidates[:: len(candidates) // _MAX_FRAMES]


def _content(path: Any) -> bytes:
    if isinstance(path, int):
        raise TypeError(f"expected the path of a file, not {path!r}")  # a number would be an open file
    with open(path, "rb") as file:
        return file.read()


def _opened(cv2: Any, path: str) -> Any:
    video = cv2.VideoCapture(path)
    if not video.isOpened():
        raise Trouble(f"File {path} cannot be read as a video.")
    return video


def _count(cv2: Any, path: str) -> int:
    """How many frames there are; what a file says of itself is often wrong."""
    video = _opened(cv2, path)
    try:
        total = 0
        while video.grab():
            total += 1
        return total
    finally:
        video.release()


def _pictures(cv2: Any, path: str, frames: range) -> Iterator[bytes]:
    """The chosen frames as JPEG, one at a time: all of a video would not fit into memory."""
    video = _opened(cv2, path)
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
