from glovebox.client.box import AsyncBox
from glovebox.client.capabilities.browser import WebPage
from glovebox.client.capabilities.commands import AsyncCommandHandle
from glovebox.client.capabilities.notebook import CellOutcome
from glovebox.client.capabilities.outcomes import CommandOutcome, CommandStatus, ExecOutcome
from glovebox.client.capabilities.processes import AsyncProcessHandle
from glovebox.client.runtime import Runtime
from glovebox.client.spec import BoxSpec
from glovebox.client.sync import SyncRuntime
from glovebox.client.sync_box import Box
from glovebox.client.sync_parts import CommandHandle, ProcessHandle
from glovebox.errors import CommandFailed, CommandTimeout, CommandWaits, GloveboxError

__version__: str
__all__ = [
    "AsyncBox",
    "AsyncCommandHandle",
    "AsyncProcessHandle",
    "Box",
    "BoxSpec",
    "CellOutcome",
    "CommandFailed",
    "CommandHandle",
    "CommandOutcome",
    "CommandStatus",
    "CommandTimeout",
    "CommandWaits",
    "ExecOutcome",
    "GloveboxError",
    "ProcessHandle",
    "Runtime",
    "SyncRuntime",
    "WebPage",
    "__version__",
]
