"""Plugins as packages that are installed, without the time that installing takes."""

from __future__ import annotations

import textwrap
from pathlib import Path


def install(directory: Path, name: str, source: str, class_name: str = "ThePlugin") -> dict[str, str]:
    """Put a plugin of one module where a box finds it with this environment."""
    module = f"plugin_{name}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    metadata = directory / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[glovebox.plugins]\n{name} = {module}:{class_name}\n")
    return {"PYTHONPATH": str(directory)}
