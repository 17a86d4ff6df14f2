"""What can be set about VS Code."""

from __future__ import annotations

from glovebox.protocol.base import Message


class VSCodeOptions(Message):
    """Settings of the plugin."""

    #: Where the server keeps what it knows; empty for a directory of the sandbox user.
    data_dir: str = ""
    #: Where extensions are; empty for a directory in that one.
    extensions_dir: str = ""
    #: How long what a page has open is kept when the page is gone, in seconds.
    grace: int = 600
    #: How long the server may take to start, in seconds.
    start_limit: float = 60.0
