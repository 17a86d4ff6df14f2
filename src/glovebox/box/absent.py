"""What is said for capabilities that are not loaded."""

from __future__ import annotations

from glovebox.box.executor import Call, Handler
from glovebox.errors import UnsupportedAction
from glovebox.protocol.actions import BrowseInteractiveAction, BrowseURLAction, IPythonRunCellAction
from glovebox.protocol.observations import (
    BrowserOutputObservation,
    ErrorObservation,
    IPythonRunCellObservation,
)

NO_BROWSER = "Browser functionality is not supported or disabled."
NO_JUPYTER = "JupyterRequirement not found. Unable to run IPython action."


async def browse(action: BrowseURLAction, call: Call) -> BrowserOutputObservation | ErrorObservation:
    """There is no browser."""
    return ErrorObservation(content=NO_BROWSER)


async def browse_interactive(
    action: BrowseInteractiveAction, call: Call
) -> BrowserOutputObservation | ErrorObservation:
    """There is no browser."""
    return ErrorObservation(content=NO_BROWSER)


async def run_ipython(action: IPythonRunCellAction, call: Call) -> IPythonRunCellObservation:
    """There is no kernel."""
    raise UnsupportedAction(NO_JUPYTER)


def handlers() -> list[Handler]:
    """One for each action whose capability is missing."""
    return [browse, browse_interactive, run_ipython]
