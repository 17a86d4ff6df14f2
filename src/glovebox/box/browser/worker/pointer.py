"""The mouse and the keyboard, for agents that name places on the screen."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from playwright.async_api import Locator, Page

_Button = Literal["left", "middle", "right"]


class Pointing:
    """Carries out calls that name places and keys, on the page that is active then."""

    def __init__(self, active: Callable[[], Page], workspace: str) -> None:
        self._active = active
        self._workspace = workspace
        self.doing: dict[str, Callable[..., Awaitable[None]]] = {
            "mouse_move": self._mouse_move,
            "mouse_up": self._mouse_up,
            "mouse_down": self._mouse_down,
            "mouse_click": self._mouse_click,
            "mouse_dblclick": self._mouse_dblclick,
            "mouse_drag_and_drop": self._mouse_drag_and_drop,
            "mouse_upload_file": self._mouse_upload_file,
            "keyboard_down": self._keyboard_down,
            "keyboard_up": self._keyboard_up,
            "keyboard_press": self._keyboard_press,
            "keyboard_type": self._keyboard_type,
            "keyboard_insert_text": self._keyboard_insert_text,
        }

    async def _mouse_move(self, x: float, y: float) -> None:
        await self._active().mouse.move(x, y)

    async def _mouse_up(self, x: float, y: float, button: _Button) -> None:
        mouse = self._active().mouse
        await mouse.move(x, y)
        await mouse.up(button=button)

    async def _mouse_down(self, x: float, y: float, button: _Button) -> None:
        mouse = self._active().mouse
        await mouse.move(x, y)
        await mouse.down(button=button)

    async def _mouse_click(self, x: float, y: float, button: _Button) -> None:
        await self._active().mouse.click(x, y, button=button)

    async def _mouse_dblclick(self, x: float, y: float, button: _Button) -> None:
        await self._active().mouse.dblclick(x, y, button=button)

    async def _mouse_drag_and_drop(self, from_x: float, from_y: float, to_x: float, to_y: float) -> None:
        mouse = self._active().mouse
        await mouse.move(from_x, from_y)
        await mouse.down()
        await mouse.move(to_x, to_y)
        await mouse.up()

    async def _mouse_upload_file(self, x: float, y: float, file: str | list[str]) -> None:
        paths = paths_of(file, self._workspace)
        page = self._active()
        await give_when_asked(page, lambda: page.mouse.click(x, y), paths)

    async def _keyboard_down(self, key: str) -> None:
        await self._active().keyboard.down(key)

    async def _keyboard_up(self, key: str) -> None:
        await self._active().keyboard.up(key)

    async def _keyboard_press(self, key: str) -> None:
        await self._active().keyboard.press(key)

    async def _keyboard_type(self, text: str) -> None:
        await self._active().keyboard.type(text)

    async def _keyboard_insert_text(self, text: str) -> None:
        await self._active().keyboard.insert_text(text)


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
