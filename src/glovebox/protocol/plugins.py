"""Plugins, as the box's own endpoints tell of them."""

from __future__ import annotations

from typing import Any, Literal

from glovebox.protocol.base import Message

#: `waiting` for its first use, or for its turn.
PluginState = Literal["waiting", "starting", "running", "failed", "stopped"]


class PluginInfo(Message):
    """A plugin that was loaded."""

    name: str
    state: PluginState
    #: False if it runs and says that it does not work as it should.
    healthy: bool = True
    #: Why it failed, what it was restarted for, or what is wrong with it.
    error: str | None = None
    #: How often it was started again after a crash.
    restarts: int = 0
    #: What its last start took.
    start_ms: float | None = None
    #: Plugins it needs.
    needs: list[str] = []
    #: What it says of itself.
    health: dict[str, Any] = {}
