"""Glovebox: the runtime AI agents work in."""

__version__ = "0.1.0"

#: Loaded when they are first used: a box imports this package, too, and must not know them. Type checkers
#: look into `__init__.pyi`.
_LATE = {
    "AsyncBox": "glovebox.client.box",
    "AsyncCommandHandle": "glovebox.client.capabilities.commands",
    "AsyncProcessHandle": "glovebox.client.capabilities.processes",
    "Box": "glovebox.client.sync_box",
    "BoxSpec": "glovebox.client.spec",
    "CellOutcome": "glovebox.client.capabilities.notebook",
    "CommandFailed": "glovebox.errors",
    "CommandHandle": "glovebox.client.sync_parts",
    "CommandOutcome": "glovebox.client.capabilities.outcomes",
    "CommandStatus": "glovebox.client.capabilities.outcomes",
    "CommandTimeout": "glovebox.errors",
    "CommandWaits": "glovebox.errors",
    "ExecOutcome": "glovebox.client.capabilities.outcomes",
    "GloveboxError": "glovebox.errors",
    "ProcessHandle": "glovebox.client.sync_parts",
    "Runtime": "glovebox.client.runtime",
    "SyncRuntime": "glovebox.client.sync",
    "WebPage": "glovebox.client.capabilities.browser",
}
__all__ = [*_LATE, "__version__"]


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_LATE[name]), name)
    globals()[name] = value
    return value
