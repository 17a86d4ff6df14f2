"""Files that pages download: brought into the workspace under names of the contract."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import os
import re
import shutil

from playwright.async_api import Download
from playwright.async_api import Error as PlaywrightError

from glovebox.box.browser import wire

#: How long an answer waits for a download that its action began; longer ones are told of later.
_LIMIT = 60.0
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,8}")


class Downloads:
    """Takes downloads in the order they begin."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._waiting: list[asyncio.Task[wire.Download | None]] = []
        self._count = 0

    def add(self, downloads: list[Download]) -> None:
        self._waiting += [asyncio.create_task(self._bring(download)) for download in downloads]

    async def finished(self) -> list[wire.Download]:
        """Those that are here and were not told of; waits for the others, up to a limit."""
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=_LIMIT)
        done = [task for task in self._waiting if task.done()]
        self._waiting = [task for task in self._waiting if not task.done()]
        return [told for task in done if (told := task.result()) is not None]

    async def _bring(self, download: Download) -> wire.Download | None:
        self._count += 1
        number = self._count
        try:
            source = await download.path()  # when it is whole
            loop = asyncio.get_running_loop()
            path = await loop.run_in_executor(
                None, _place, str(source), download.suggested_filename, self._workspace, number
            )
        except (PlaywrightError, OSError) as error:
            print(f"A download of {download.url[:200]} failed: {error}", flush=True)
            return None
        return wire.Download(path=path, name=download.suggested_filename, url=download.url)


def _place(source: str, name: str, workspace: str, number: int) -> str:
    """Copy a file into the workspace, under its number or the next one that is free."""
    extension = _extension(source, name)
    for free in itertools.count(number):
        path = os.path.join(workspace, f"file_{free}{extension}")
        try:
            with open(source, "rb") as original, open(path, "xb") as copy:
                shutil.copyfileobj(original, copy, 1 << 20)
        except FileExistsError:
            continue
        return path
    raise AssertionError("numbers do not end")


def _extension(source: str, name: str) -> str:
    """What the content is; if that says nothing, what the name says."""
    import puremagic

    try:
        guessed = puremagic.from_file(source)
    except (puremagic.PureError, ValueError, OSError):
        guessed = ""
    extension = guessed or os.path.splitext(name)[1]
    return extension if _EXTENSION.fullmatch(extension) else ""


_DIRECTORY = ".browser_screenshots"


def save(png: bytes, workspace: str) -> str | None:
    """Keep a screenshot: where it is. A full disk costs the file, not the answer. Blocks."""
    directory = os.path.join(workspace, _DIRECTORY)
    path = os.path.join(directory, f"screenshot_{datetime.datetime.now():%Y%m%d_%H%M%S_%f}.png")
    try:
        os.makedirs(directory, exist_ok=True)
        with open(path, "xb") as file:
            file.write(png)
    except OSError:
        return None
    return path
