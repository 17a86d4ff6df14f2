"""A VS Code window that its user has connected to a hub."""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from glovebox.backends.remote import ExternalSandbox, refuse_fields, send
from glovebox.client.backend import Address, BoxInfo, ProgressReport, State
from glovebox.client.connection.retry import Lost
from glovebox.client.spec import STAY, BoxSpec
from glovebox.errors import (
    BackendError,
    BadAnswer,
    BadSpec,
    BoxUnreachable,
    DeadlineExceeded,
    GloveboxError,
    InvalidKey,
    NoHub,
    NoSuchBox,
    NoSuchWindow,
    NotSupported,
    NoWindow,
    SeveralWindows,
)
from glovebox.json_codec import decode_json
from glovebox.protocol.base import Message
from glovebox.protocol.window import Arrival, Arrived, Departure, Window, WindowStatus
from glovebox.settings.host import HostSettings

NAME = "vscode"
#: Fields that cannot be chosen for a window.
_SETTLED = (
    "image", "build", "volumes", "plugins", "browser", "user", "arguments", "key", "memory", "cpus", "pids",
    "network", "networks", "runtime", "isolation", "ports", "port",
)  # fmt: skip
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DISCOVER = "/api/vscode/discover"
_HUB_LIMIT = 10.0
#: The first command in a window has to wait for its terminal.
_EXPORT_LIMIT = 60.0
_STATES: dict[WindowStatus, State] = {
    "waiting": "starting",
    "connected": "running",
    "unresponsive": "stopped",
    "paused": "paused",
    "away": "starting",
    "reloading": "starting",
}
#: Why a window cannot be used right now.
_UNUSABLE: dict[WindowStatus, str] = {
    "waiting": "it has registered and not connected yet: try again in a moment",
    "unresponsive": "it is connected, but does not answer: look at it, or reload it",
    "paused": 'its user has paused it: run "Glovebox: Resume Agent" in it',
    "away": "its connection broke, and it may come back: is its machine awake?",
    "reloading": "it is being reloaded, or was closed: try again in a moment",
}
_CONNECT = (
    "Connect one: install the Glovebox extension in VS Code, open the folder to work in, and run "
    '"Glovebox: Connect" from the command palette (Ctrl+Shift+P). `glovebox ls` then shows the window.'
)


class _HubFile(Message):
    url: str
    key: str


class _Ran(Message):
    content: str
    extras: dict[str, Any]


class WindowSandbox(ExternalSandbox):
    """A window as a box."""

    no_pause = 'A VS Code window is paused by its user only: run "Glovebox: Pause Agent" in the window.'
    no_stop = 'A VS Code window is its user\'s: close it, or run "Glovebox: Disconnect" in it.'
    no_logs = 'A VS Code window shows its log itself: run "Glovebox: Show Log" in it.'

    def __init__(self, hub: _Hub, window: Window, stay: str = "") -> None:
        """`stay`: the name of the stay that ends with this object's `stop` or `delete`."""
        self._hub = hub
        self._window = window
        self._stay = stay

    @property
    def name(self) -> str:
        """The id of the window in the hub."""
        return self._window.id

    @property
    def address(self) -> Address:
        """An address below that of the hub, with the hub's key."""
        return Address(url=self._hub.address.url + self._window.path, key=self._hub.address.key)

    @property
    def workspace(self) -> str:
        return self._window.folders[0].path if self._window.folders else "/"

    @property
    def ports(self) -> Mapping[int, str]:
        """Programs listen on the machine of the window already."""
        return {}

    async def info(self) -> BoxInfo:
        try:
            found = await self._hub.windows(id=self.name)
        except NoHub:
            found = []
        if not found:
            return BoxInfo(name=self.name, backend=NAME, state="missing", keep=True)
        return box_info(found[0], self._hub.address.url)

    async def stop(self) -> None:
        """End the agent's stay, if it came by `start`: its terminals are closed."""
        if not self._stay:
            await super().stop()
        await self.delete()

    async def delete(self) -> None:
        """End the agent's stay. The window is its user's, and stays."""
        stay, self._stay = self._stay, ""
        if stay:
            await self._hub.depart(self.name, stay)

    async def resume(self) -> None:
        """Nothing, if it can be used."""
        found = await self._hub.windows(id=self.name)
        if not found:
            raise NotSupported(f"The VS Code window {self.name} is gone. {_CONNECT}")
        if found[0].status != "connected":
            raise NotSupported(f"A VS Code window goes on when its user wants it: {_problem(found[0])}.")


class VSCodeBackend:
    """The windows of a hub."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings

    @property
    def name(self) -> str:
        return NAME

    async def start(self, spec: BoxSpec, report: ProgressReport) -> WindowSandbox:
        """The only window, or the one with that workspace or name. An agent with a name is announced there.

        If several windows fit, their users are asked whether the agent may work there, and the first that
        allows it counts.

        Raises:
            NoHub: no hub answers.
            NoWindow: no window fits, or it cannot be used right now.
            SeveralWindows: more than one does, and the agent has no name.
            WindowRefused: the users said no, or did not answer within the spec's `start_limit`.
            NotSupported: a field cannot be chosen for a window.
            BadSpec: the name of a variable is not valid.
        """
        refuse_fields(spec, _SETTLED, "A VS Code window")
        exports = _exports(spec.env)
        hub = await self._hub()
        fitting = await asyncio.to_thread(_fitting, await hub.windows(), spec)
        arrival = Arrival(
            stay=spec.labels.get(STAY) or uuid.uuid4().hex,
            windows=[window.id for window in fitting],
            agent=spec.agent,
            ask=len(fitting) > 1,
            seconds=spec.start_limit,
            env=spec.env,
        )
        arrived = await hub.arrive(arrival)
        sandbox = WindowSandbox(hub, arrived.window, arrival.stay)
        if exports and not arrived.fresh:
            await _run(sandbox.address, exports)
        return sandbox

    async def attach(self, name: str) -> WindowSandbox:
        """The window with that id or stay, or the only one with that workspace."""
        try:
            hub = await self._hub()
            windows = await hub.windows()
        except NoHub as error:
            raise NoSuchBox(str(error)) from error
        found = [window for window in windows if name and name in (window.id, window.stay)]
        found = found or [window for window in windows if name and window.name == name]
        if len(found) != 1:
            how_many = "Several VS Code windows are" if found else "No VS Code window is"
            raise NoSuchBox(f"{how_many} called {name!r}.{_listed(windows)}")
        return WindowSandbox(hub, found[0], name if name == found[0].stay else "")

    async def boxes(self) -> list[BoxInfo]:
        """The windows of the hub, the oldest first; none if no hub was named and none runs."""
        try:
            hub = await self._hub()
            return [box_info(window, hub.address.url) for window in await hub.windows()]
        except NoHub:
            if self._settings.hub_url:
                raise
            return []

    async def sweep(self) -> list[str]:
        """Remove nothing: windows belong to their users."""
        return []

    async def close(self) -> None: ...

    async def _hub(self) -> _Hub:
        url, key = self._settings.hub_url.rstrip("/"), self._settings.hub_key
        if not (url and key):
            left = await asyncio.to_thread(self._read_hub_file)
            if left is None and not url:
                raise NoHub(
                    "No hub for VS Code windows runs on this machine. Start one: glovebox hub. "
                    "Or name one that runs elsewhere with GLOVEBOX_HUB_URL and GLOVEBOX_HUB_KEY."
                )
            if left is not None and url in ("", left.url.rstrip("/")):
                url, key = left.url.rstrip("/"), key or left.key
        return _Hub(Address(url=url, key=key))

    def _read_hub_file(self) -> _HubFile | None:
        """The file of the hub on this machine. Blocks."""
        path = self._settings.hub_file
        try:
            return decode_json(path.read_bytes(), _HubFile)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise NoHub(
                f"What the hub has left in {path} cannot be read ({error}). Start it again: glovebox hub."
            ) from error


class _Hub:
    """The client of a hub."""

    def __init__(self, address: Address) -> None:
        self.address = address

    async def windows(self, **query: str) -> list[Window]:
        """Its windows.

        Raises:
            NoHub: no hub answers.
            InvalidKey: it wants another key.
        """
        try:
            answer = await send(self.address, "GET", _DISCOVER, query=query, limit=_HUB_LIMIT, patience=0)
            return decode_json(answer, list[Window])
        except InvalidKey as error:
            raise InvalidKey(
                f"The hub at {self.address.url} wants another key: set GLOVEBOX_HUB_KEY to the one that "
                "`glovebox hub` shows the place of."
            ) from error
        except (BoxUnreachable, DeadlineExceeded) as error:
            raise NoHub(
                f"No hub answers at {self.address.url}. Start one: glovebox hub. Or say where it is with "
                "GLOVEBOX_HUB_URL and GLOVEBOX_HUB_KEY."
            ) from error
        except (GloveboxError, msgspec.DecodeError) as error:
            raise NoHub(f"What answers at {self.address.url} is no hub: {error}") from error

    async def arrive(self, arrival: Arrival) -> Arrived:
        """Begin a stay.

        Raises:
            WindowError: the users said no or nothing, or the window is lost.
            NoHub: the hub does not answer.
        """
        answer = await self._post("/api/vscode/arrive", arrival, arrival.seconds + _HUB_LIMIT)
        return decode_json(answer, Arrived)

    async def depart(self, window_id: str, stay: str) -> None:
        """End a stay; that of a window that is gone has ended.

        Raises:
            NoHub: the hub does not answer.
        """
        try:
            await self._post(f"/api/vscode/depart/{window_id}", Departure(stay=stay), 2 * _HUB_LIMIT)
        except NoSuchWindow:
            return

    async def _post(self, path: str, said: Message, limit: float) -> bytes:
        try:
            body = msgspec.json.encode(said)
            return await send(self.address, "POST", path, body=body, limit=limit, patience=0)
        except (BoxUnreachable, DeadlineExceeded) as error:
            raise NoHub(f"The hub at {self.address.url} does not answer any more: {error}") from error


def box_info(window: Window, hub: str) -> BoxInfo:
    """The description of a window as a box."""
    return BoxInfo(
        name=window.id,
        backend=NAME,
        state=_STATES[window.status],
        url=hub + window.path if window.status == "connected" else "",
        workspace=window.folders[0].path if window.folders else "",
        created=window.registered,
        keep=True,
        labels={
            "workspace": window.name,
            "status": window.status,
            "vscode": window.vscode_version,
            "agent": window.agent,
            "trusted": "yes" if window.trusted else "no",
        },
    )


def _fitting(windows: list[Window], spec: BoxSpec) -> list[Window]:
    """The windows for a spec: one, or several if it names an agent that users can be asked about. Blocks."""
    if not windows:
        raise NoWindow(f"No VS Code window is connected to the hub. {_CONNECT}")
    fitting, wanted = windows, ""
    if spec.name:
        fitting = [window for window in windows if spec.name in (window.id, window.name)]
        wanted = f" is called {spec.name!r}"
    if spec.workspace:
        place = _real(spec.workspace)
        fitting = [window for window in fitting if place in {_real(one.path) for one in window.folders}]
        wanted += f"{' and' if wanted else ''} has the folder {spec.workspace}"
    if not fitting:
        raise NoWindow(f"No VS Code window that is connected{wanted}.{_listed(windows)} {_CONNECT}")
    usable = [window for window in fitting if window.status == "connected"]
    if not usable:
        problems = "; ".join(f"VS Code window {_problem(window)}" for window in fitting)
        raise NoWindow(f"{problems}. {_CONNECT.replace('Connect one', 'Or connect another')}")
    if len(usable) > 1 and not spec.agent:
        raise SeveralWindows(
            "Several VS Code windows fit. Say which one is meant: its id as BoxSpec(name=...), or its folder "
            "as BoxSpec(workspace=...). Or let the users choose, who see the name in BoxSpec(agent=...)."
            f"{_listed(usable)}"
        )
    return usable


def _real(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))


def _problem(window: Window) -> str:
    """Why a window cannot be used."""
    return f"{window.id} ({window.name}): {_UNUSABLE.get(window.status, window.status)}"


def _listed(windows: list[Window]) -> str:
    """A line for each window."""
    return "".join(
        f"\n  {window.id}  {window.name}  {', '.join(one.path for one in window.folders) or 'no folder'}  "
        f"({window.status})"
        for window in windows
    )


def _exports(env: Mapping[str, str]) -> str:
    """The command that sets variables in the main shell."""
    from glovebox.client.shell import quote_word

    for name in env:
        if not _VARIABLE.fullmatch(name):
            raise BadSpec(f"{name!r} cannot name a variable: use letters, digits and underscores.")
    return " ".join(f"export {name}={quote_word(value)};" for name, value in env.items())


async def _run(address: Address, command: str) -> None:
    """Run a command in the main shell of a window.

    Raises:
        BackendError: it failed.
        WindowError: the window does not answer.
    """
    args = {"command": command, "blocking": True, "hidden": True}
    action = {"action": "run", "args": args, "timeout": _EXPORT_LIMIT}
    body = msgspec.json.encode({"action": action})
    try:
        answer = await send(address, "POST", "/execute_action", body=body, limit=_EXPORT_LIMIT + 5)
        ran = decode_json(answer, _Ran)
    except msgspec.DecodeError as error:
        raise BadAnswer(f"What answers at {address.url} is no window.") from error
    except Lost as error:
        raise NoHub(str(error)) from error
    if ran.extras.get("metadata", {}).get("exit_code") != 0:
        raise BackendError(f"The variables could not be set in the VS Code window: {ran.content}")
