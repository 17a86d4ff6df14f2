"""Glovebox for a stock OpenHands: `runtime = "glovebox.openhands.GloveboxRuntime"`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glovebox.openhands.runtime import GloveboxRuntime

__all__ = ["GloveboxRuntime"]


def __getattr__(name: str) -> object:
    # OpenHands itself takes seconds to import, so this waits until somebody asks for the class.
    if name == "GloveboxRuntime":
        from glovebox.openhands.runtime import GloveboxRuntime

        return GloveboxRuntime
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
