"""Giving files to pages."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from playwright.async_api import Locator, Page

#: How long a page may take to ask for files after it was clicked, and to take them, in milliseconds.
_CHOOSER_LIMIT = 5000
_IS_FILE_INPUT = "element => element instanceof HTMLInputElement && element.type === 'file'"


def paths_of(files: str | list[str], workspace: str) -> list[str]:
    """Where files are that an agent named; relative to its workspace if nothing else is said.

    Raises:
        OSError: one of them is not there.
    """
    paths = [Path(workspace, name) for name in ([files] if isinstance(files, str) else files)]
    for path in paths:
        path.stat()
    return [os.fspath(path) for path in paths]


async def is_file_input(element: Locator, limit: float) -> bool:
    """Whether files can be given to an element itself. Others ask for files when they are clicked."""
    return bool(await element.evaluate(_IS_FILE_INPUT, timeout=limit))


async def give(element: Locator, paths: list[str]) -> None:
    """Give files to an element that takes them, whether it can be seen or not."""
    await element.set_input_files(paths, timeout=_CHOOSER_LIMIT)


async def give_when_asked(page: Page, click: Callable[[], Awaitable[None]], paths: list[str]) -> None:
    """Click something that makes the page ask for files, and give them to it."""
    async with page.expect_file_chooser(timeout=_CHOOSER_LIMIT) as asked:
        # A click may overtake the order to tell of it, which is carried out once the page has answered.
        await page.evaluate("0")
        await click()
    chooser = await asked.value
    await chooser.set_files(paths, timeout=_CHOOSER_LIMIT)
