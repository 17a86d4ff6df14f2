"""What is known of a box without asking it."""

from __future__ import annotations

from pathlib import Path

from glovebox.client.backend import Sandbox
from glovebox.client.spec import BoxSpec

#: The variable that tells a box, and whoever started it, on which of its ports VS Code is served.
VSCODE_PORT = "VSCODE_PORT"


class Facts:
    """Properties of a runtime that is connected; before, and after its end, they raise `NotConnected`."""

    spec: BoxSpec

    def _box(self) -> Sandbox:
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the box, unique in its backend."""
        return self._box().name

    @property
    def url(self) -> str:
        return self._box().address.url

    @property
    def session_api_key(self) -> str:
        """The key that the box wants."""
        return self._box().address.key

    @property
    def workspace(self) -> str:
        """The path of the workspace, as the box sees it."""
        return self._box().workspace

    @property
    def workspace_root(self) -> Path:
        """The same as a path."""
        return Path(self._box().workspace)

    @property
    def web_hosts(self) -> dict[str, int]:
        """Where the host reaches programs in the box, and the port that each has there."""
        box = self._box()
        # VS Code has a port that nobody asked for by its number, unless it was told one.
        wanted = self.spec.ports if "vscode" in self.spec.plugins else box.ports
        own = (self._vscode_port, *(port for port, url in box.ports.items() if url == box.address.url))
        return {url: port for port, url in box.ports.items() if port in wanted and port not in own}

    @property
    def additional_agent_instructions(self) -> str:
        """What an agent has to be told about this kind of box."""
        return ""

    @property
    def _vscode_port(self) -> int | None:
        port = self.spec.env.get(VSCODE_PORT, "")
        return int(port) if port.isascii() and port.isdigit() else None
