"""uvicorn without its command line: what that imports takes a twelfth of the time a box has to start."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any


def _put_off() -> None:
    """Have the package there, and run its first lines only if somebody asks for something of theirs."""
    spec = importlib.util.find_spec("uvicorn")
    assert spec is not None
    assert spec.loader is not None
    package, loader = importlib.util.module_from_spec(spec), spec.loader

    def whole(name: str) -> Any:
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, name)

    package.__dict__["__getattr__"] = whole
    sys.modules["uvicorn"] = package


if "uvicorn" not in sys.modules:
    _put_off()

from uvicorn.config import Config  # noqa: E402
from uvicorn.server import Server, ServerState  # noqa: E402

# Parts of uvicorn ask the package for these.
sys.modules["uvicorn"].__dict__.update(Config=Config, Server=Server)

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol  # noqa: E402

__all__ = ["STATUS_LINE", "Config", "HttpToolsProtocol", "Server", "ServerState"]
