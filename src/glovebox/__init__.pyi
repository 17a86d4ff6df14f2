from glovebox.client.runtime import Runtime
from glovebox.client.spec import BoxSpec
from glovebox.client.sync import SyncRuntime

__version__: str
__all__ = ["BoxSpec", "Runtime", "SyncRuntime", "__version__"]
