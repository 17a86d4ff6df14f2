"""What agents are told about the functions."""

from __future__ import annotations

import inspect
import textwrap

from glovebox.box.notebook import skills


def documentation() -> str:
    """Each function that is there: its signature, and below it, indented, what it does."""
    parts = []
    for name in skills.__all__:
        function = getattr(skills, name)
        text = textwrap.indent(inspect.getdoc(function) or "", "    ")
        parts.append(f"{name}{inspect.signature(function)}:\n{text}\n")
    return "\n".join(parts)
