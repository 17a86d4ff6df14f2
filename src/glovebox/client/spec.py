"""The specification of a box, for every backend."""

from __future__ import annotations

import re
from typing import Literal

from glovebox.errors import BadSpec
from glovebox.protocol.base import Message

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}")
Isolation = Literal["", "bubblewrap", "none"]
WORKSPACE = "/workspace"
#: Directories at the root that a box has of its own.
_SYSTEM = frozenset({"", "bin", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sbin", "sys", "usr"})
#: VS Code windows: the label with the name of the agent's stay, by which it can be found again.
STAY = "glovebox.stay"
#: The variable with the port of VS Code in a box.
VSCODE_PORT = "VSCODE_PORT"


class Mount(Message):
    """A directory or volume that the box sees."""

    #: A path of the host, or the name of a volume.
    source: str
    #: Where the box has it.
    target: str
    #: `rw`, `ro`, or one with `overlay`: the box writes to a layer of its own, and the source stays as it is.
    mode: str = "rw"

    @property
    def is_bind(self) -> bool:
        """Whether the source is a path, not the name of a volume."""
        return self.source.startswith("/")

    @property
    def is_overlay(self) -> bool:
        """Whether changes stay in the box."""
        return "overlay" in self.mode


class BoxSpec(Message):
    """What a box should be like. A backend raises `BadSpec` or `NotSupported` for what it cannot do."""

    #: Unique in its backend; generated if empty.
    name: str = ""
    #: Containers: the image; empty for the backend's own choice. Any Linux image will do: the runtime is put
    #: into it at its start unless it has one.
    image: str = ""
    #: Containers: a directory with a Dockerfile, from which the image is built.
    build: str = ""
    #: A directory of the host that is the workspace; empty for a fresh one that ends with the box.
    workspace: str = ""
    #: Where the box has its workspace. A box without a file system of its own works in `workspace` itself.
    workspace_in_box: str = WORKSPACE
    volumes: tuple[Mount, ...] = ()
    #: The environment of commands.
    env: dict[str, str] = {}
    plugins: tuple[str, ...] = ()
    browser: bool = False
    #: The user that commands run as; empty for the server's user.
    user: str = ""
    user_id: int = 1000
    #: More arguments of `glovebox serve`.
    arguments: tuple[str, ...] = ()
    #: The key of the box; generated if empty.
    key: str = ""
    #: Bytes of memory, numbers of CPUs and of processes it may use; None for no limit.
    memory: int | None = None
    cpus: float | None = None
    pids: int | None = None
    #: Containers: the network it is in, more that it joins, and the runtime that runs it (`runsc`).
    network: str = ""
    networks: tuple[str, ...] = ()
    runtime: str = ""
    #: Processes: what keeps it away from the rest of the machine. Empty for that of GLOVEBOX_ISOLATION, else
    #: bubblewrap; `none` says that its commands may do all that its user may.
    isolation: Isolation = ""
    #: Ports of programs in the box that the host can reach: `{port in the box: port of the host}`, 0 for any.
    ports: dict[int, int] = {}
    #: The port of the API on the host, 0 for any, and the address it and `ports` are reached at.
    port: int = 0
    publish_address: str = "127.0.0.1"
    labels: dict[str, str] = {}
    #: VS Code windows: the name of the agent that users see. They are asked about it if several windows fit.
    agent: str = ""
    #: It outlives the client that started it.
    keep: bool = False
    #: Seconds until it has to answer.
    start_limit: float = 120.0


def same_place(workspace: str) -> str:
    """Where a box has its workspace so that paths in it are those of the host, if that can be."""
    return WORKSPACE if workspace.split("/")[1] in _SYSTEM else workspace


def checked_name(name: str) -> str:
    """A name that a box can have.

    Raises:
        BadSpec: it cannot.
    """
    if not NAME.fullmatch(name):
        raise BadSpec(
            f"{name!r} cannot name a box: use letters, digits, dots, dashes and underscores, 63 at most, "
            "and begin with a letter or a digit."
        )
    return name


def parse_volumes(text: str) -> tuple[Mount, ...]:
    """Mounts in the contract's syntax: `host:container[:mode]`, separated by commas.

    `volume:NAME:container[:mode]` names a volume explicitly; a source that is not an absolute path does, too.

    Raises:
        BadSpec: one of them is not of that form.
    """
    mounts = []
    for mount in filter(None, (part.strip() for part in text.split(","))):
        parts = mount.removeprefix("volume:").split(":")
        if not 2 <= len(parts) <= 3 or not all(parts[:2]):
            raise BadSpec(
                f"Invalid mount format in sandbox.volumes: {mount}. Expected format: "
                "'host_path:container_path[:mode]', e.g. '/my/host/dir:/workspace:rw'"
            )
        mounts.append(Mount(source=parts[0], target=parts[1], mode=parts[2] if parts[2:] else "rw"))
    return tuple(mounts)
