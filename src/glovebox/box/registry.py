"""Finds plugins by name: by the entry points of what is installed."""

from __future__ import annotations

import importlib

from glovebox.box.plugin import Plugin
from glovebox.errors import PluginFailed, SettingsError

GROUP = "glovebox.plugins"
#: This project's own entry points. Looking through all installed packages takes longer than a start may.
OWN = {
    "telemetry": "glovebox.box.telemetry.plugin:TelemetryPlugin",
    "system": "glovebox.box.system.plugin:SystemPlugin",
    "terminal": "glovebox.box.terminal.plugin:TerminalPlugin",
    "files": "glovebox.box.files.plugin:FilesPlugin",
    "mcp": "glovebox.box.mcp.plugin:McpPlugin",
    "browser": "glovebox.box.browser.plugin:BrowserPlugin",
    "jupyter": "glovebox.box.notebook.plugin:JupyterPlugin",
    "agent_skills": "glovebox.box.notebook.skills.plugin:AgentSkillsPlugin",
    "vscode": "glovebox.box.vscode.plugin:VSCodePlugin",
}
#: What every box has.
ALWAYS = ("telemetry", "system", "terminal", "files", "mcp")
#: Started before the others are loaded: its shell gets ready in the meantime.
EARLIEST = "terminal"


def find(name: str) -> str:
    """Where the plugin of that name is: `module:class`.

    Raises:
        SettingsError: there is no such plugin.
    """
    if name in OWN:
        return OWN[name]
    installed = _installed()
    if name in installed:
        return installed[name]
    known = [*(own for own in OWN if own not in ALWAYS), *sorted(set(installed) - set(OWN))]
    raise SettingsError(
        f"Plugin {name} not found. Known plugins: {', '.join(known)}. "
        "A plugin of another package must be installed beside Glovebox."
    )


def load(name: str, where: str) -> type[Plugin]:
    """The class at `module:class`. May raise whatever importing it does.

    Raises:
        PluginFailed: there is something else.
    """
    module, _, path = where.partition(":")
    found = getattr(importlib.import_module(module), path, None)
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        raise PluginFailed(f"{where} is not a plugin: derive a class from glovebox.plugins.Plugin.")
    if getattr(found, "name", None) != name:
        raise PluginFailed(f"{where} has the name {getattr(found, 'name', None)!r}, not {name!r}.")
    return found


def _installed() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=GROUP)}
