"""Agent skills as a plugin: when it is loaded, kernels have the functions."""

from __future__ import annotations

from typing import Any

from glovebox.box.plugin import Plugin


class AgentSkillsPlugin(Plugin):
    """Has no work of its own; the notebook asks whether it is there."""

    name = "agent_skills"

    async def health(self) -> dict[str, Any]:
        """Whether there is a notebook to use the functions in."""
        return {"notebook": self.context.find("jupyter") is not None}
