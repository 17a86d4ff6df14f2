"""The documentation of the functions for agents."""

from __future__ import annotations

import inspect
import textwrap

from glovebox.box.notebook import skills


def documentation() -> str:
    """The signature of each function, and below it, indented, its docstring."""
    parts = []
    for name in skills.__all__:
        function = getattr(skills, name)
        text = textwrap.indent(inspect.getdoc(function) or "", "    ")
        parts.append(f"{name}{inspect.signature(function)}:\n{text}\n")
    return "\n".join(parts)
