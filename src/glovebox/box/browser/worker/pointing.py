"""The mouse and the keyboard, for agents that name places on the screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from playwright.async_api import Page

from glovebox.box.browser.worker import uploading

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
        paths = uploading.paths_of(file, self._workspace)
        page = self._active()
        await uploading.give_when_asked(page, lambda: page.mouse.click(x, y), paths)

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
