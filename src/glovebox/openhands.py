"""The address of the runtime class that users name: `runtime = "glovebox.openhands.GloveboxRuntime"`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glovebox.integrations.openhands.runtime import GloveboxRuntime

__all__ = ["GloveboxRuntime"]


def __getattr__(name: str) -> object:
    # Importing OpenHands takes seconds, so it waits until the class is needed.
    if name == "GloveboxRuntime":
        from glovebox.integrations.openhands.runtime import GloveboxRuntime

        return GloveboxRuntime
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
