"""Responses of the engine's API, as far as they are used."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class EngineAnswer(msgspec.Struct, frozen=True, rename="pascal"):
    """A part of a response; unused fields are left out."""


class ImageConfig(EngineAnswer, frozen=True):
    """What an image says of the containers that are made from it."""

    user: str = ""
    env: tuple[str, ...] | None = None
    labels: dict[str, str] | None = None


class Image(EngineAnswer, frozen=True):
    """`GET /images/{name}/json`."""

    id: str
    os: str = ""
    architecture: str = ""
    config: ImageConfig | None = None


class Binding(EngineAnswer, frozen=True):
    """Where the host has a port of a container."""

    host_ip: str = ""
    host_port: str = ""


class ContainerState(EngineAnswer, frozen=True):
    """How a container is."""

    status: str = ""
    exit_code: int = 0
    oom_killed: bool = msgspec.field(default=False, name="OOMKilled")
    error: str = ""


class ContainerConfig(EngineAnswer, frozen=True):
    """What a container was made with."""

    env: tuple[str, ...] | None = None
    labels: dict[str, str] | None = None


class NetworkSettings(EngineAnswer, frozen=True):
    """How a container is reached."""

    ports: dict[str, tuple[Binding, ...] | None] | None = None


class Container(EngineAnswer, frozen=True):
    """`GET /containers/{name}/json`."""

    id: str
    config: ContainerConfig
    state: ContainerState
    network_settings: NetworkSettings = NetworkSettings()

    @property
    def labels(self) -> Mapping[str, str]:
        return self.config.labels or {}

    @property
    def environment(self) -> Mapping[str, str]:
        """What its first process finds in its environment."""
        return dict(entry.partition("=")[::2] for entry in self.config.env or ())

    @property
    def ports(self) -> Mapping[int, Binding]:
        """Where the host has its ports."""
        published = self.network_settings.ports or {}
        return {int(port.partition("/")[0]): bound[0] for port, bound in published.items() if bound}


class ListedPort(msgspec.Struct, frozen=True):
    """A port in the list of containers."""

    private: int = msgspec.field(name="PrivatePort")
    public: int = msgspec.field(name="PublicPort", default=0)
    ip: str = msgspec.field(name="IP", default="")


class ContainerSummary(EngineAnswer, frozen=True):
    """One of `GET /containers/json`."""

    id: str
    state: str = ""
    labels: dict[str, str] | None = None
    ports: tuple[ListedPort, ...] | None = None


class Created(EngineAnswer, frozen=True):
    """`POST /containers/create`."""

    id: str


class Volume(EngineAnswer, frozen=True):
    """One of `GET /volumes`."""

    name: str
    created_at: str = ""
    labels: dict[str, str] | None = None


class Volumes(EngineAnswer, frozen=True):
    """`GET /volumes`."""

    volumes: tuple[Volume, ...] | None = None


class EngineError(msgspec.Struct, frozen=True):
    """What an error answer says."""

    message: str = ""


class Detail(msgspec.Struct, frozen=True):
    """How much of a layer is there."""

    current: int = 0
    total: int = 0


class ProgressLine(msgspec.Struct, frozen=True):
    """One line of the progress of a pull or a build."""

    id: str = ""
    status: str = ""
    stream: str = ""
    error: str = ""
    progress: Detail | None = msgspec.field(name="progressDetail", default=None)
