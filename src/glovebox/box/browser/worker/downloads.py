"""Downloads and screenshots as files in the workspace, under the names of the contract."""

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

#: Seconds that a step waits for its downloads; longer ones are part of a later answer.
_LIMIT = 60.0
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,8}")


class Downloads:
    """Saves downloads in the order in which they begin."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._waiting: list[asyncio.Task[wire.Download | None]] = []
        self._count = 0

    def add(self, downloads: list[Download]) -> None:
        self._waiting += [asyncio.create_task(self._save(download)) for download in downloads]

    async def take_finished(self) -> list[wire.Download]:
        """Those that are complete and were not returned yet; waits for the others, up to a limit."""
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=_LIMIT)
        done = [task for task in self._waiting if task.done()]
        self._waiting = [task for task in self._waiting if not task.done()]
        return [download for task in done if (download := task.result()) is not None]

    async def _save(self, download: Download) -> wire.Download | None:
        self._count += 1
        number = self._count
        try:
            source = await download.path()  # when it is complete
            loop = asyncio.get_running_loop()
            path = await loop.run_in_executor(
                None, _copy, str(source), download.suggested_filename, self._workspace, number
            )
        except (PlaywrightError, OSError) as error:
            print(f"A download of {download.url[:200]} failed: {error}", flush=True)
            return None
        return wire.Download(path=path, name=download.suggested_filename, url=download.url)


def _copy(source: str, name: str, workspace: str, number: int) -> str:
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
    """The extension for its content; if that is not known, that of its name."""
    import puremagic

    try:
        guessed = puremagic.from_file(source)
    except (puremagic.PureError, ValueError, OSError):
        guessed = ""
    extension = guessed or os.path.splitext(name)[1]
    return extension if _EXTENSION.fullmatch(extension) else ""


_DIRECTORY = ".browser_screenshots"


def save_screenshot(png: bytes, workspace: str) -> str | None:
    """Save a screenshot; returns its path, None if it cannot be written. Blocks."""
    directory = os.path.join(workspace, _DIRECTORY)
    path = os.path.join(directory, f"screenshot_{datetime.datetime.now():%Y%m%d_%H%M%S_%f}.png")
    try:
        os.makedirs(directory, exist_ok=True)
        with open(path, "xb") as file:
            file.write(png)
    except OSError:
        return None
    return path
