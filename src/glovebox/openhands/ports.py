"""The ports of programs in a box that a user can open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glovebox.openhands.api import OpenHandsConfig, find_available_tcp_port

VSCODE = "openhands.vscode_port"
APPS = "openhands.app_ports"
#: Where the reference has them.
VSCODE_RANGE = (40000, 49999)
APP_RANGES = ((50000, 54999), (55000, 59999))


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports, as the box has them; 0 and none if it is not known."""

    vscode: int = 0
    apps: tuple[int, ...] = ()
    #: Whether there will be a VS Code, and the port of the host it must have, 0 for any.
    with_vscode: bool = False
    vscode_on_host: int = 0

    @classmethod
    def free(cls, config: OpenHandsConfig, *, with_vscode: bool) -> Ports:
        """Ports that nobody listens on: a box without a network of its own shares them with the machine."""
        wanted = config.sandbox.vscode_port or 0
        return cls(
            vscode=wanted or find_available_tcp_port(*VSCODE_RANGE),
            apps=tuple(find_available_tcp_port(*limits) for limits in APP_RANGES),
            with_vscode=with_vscode,
            vscode_on_host=wanted,
        )

    @classmethod
    def labelled(cls, labels: Mapping[str, str]) -> Ports:
        """Those of a box that was started before."""
        apps = labels.get(APPS, "")
        return cls(
            vscode=int(labels.get(VSCODE, "0")), apps=tuple(int(port) for port in apps.split(",") if port)
        )

    @property
    def published(self) -> dict[int, int]:
        """What a container has to publish."""
        vscode = {self.vscode: self.vscode_on_host} if self.with_vscode else {}
        return {**vscode, **dict.fromkeys(self.apps, 0)}

    @property
    def environment(self) -> dict[str, str]:
        """How programs in the box are told."""
        apps = {f"APP_PORT_{number}": str(port) for number, port in enumerate(self.apps, 1)}
        return {"VSCODE_PORT": str(self.vscode), **apps}

    @property
    def labels(self) -> dict[str, str]:
        """How whoever attaches to the box later is told."""
        return {VSCODE: str(self.vscode), APPS: ",".join(map(str, self.apps))}
