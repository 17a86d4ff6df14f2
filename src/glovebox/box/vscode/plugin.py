"""VS Code as a plugin: the name is known, and no server is started yet."""

from __future__ import annotations

from typing import Any

from glovebox.box.plugin import Plugin


class VSCodePlugin(Plugin):
    """Accepted because callers of the contract ask for it; its token stays null, as without a server."""

    name = "vscode"

    async def health(self) -> dict[str, Any]:
        """Say that there is no server."""
        return {"server": None, "reason": "This version does not start a VS Code server."}
