"""Below which path VS Code is served. Free of I/O."""

from __future__ import annotations

from urllib.parse import urlsplit

from glovebox.settings import Settings


def base_path(settings: Settings) -> str:
    """The path that every address of VS Code begins with; empty for none."""
    if chosen := settings.vscode_base_path.strip("/"):
        return f"/{chosen}"
    name = settings.runtime_id
    if settings.runtime_url and name and urlsplit(settings.runtime_url).path.startswith(f"/{name}"):
        return f"/{name}/vscode"
    return ""
