"""Glovebox: the runtime AI agents work in."""

__version__ = "0.1.0"
__all__ = ["BoxSpec", "Runtime", "SyncRuntime", "__version__"]

#: Loaded when they are first used: a box imports this package, too, and must not know them. Type checkers
#: look into `__init__.pyi`.
_LATE = {
    "BoxSpec": "glovebox.client.spec",
    "Runtime": "glovebox.client.runtime",
    "SyncRuntime": "glovebox.client.sync",
}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_LATE[name]), name)
    globals()[name] = value
    return value
