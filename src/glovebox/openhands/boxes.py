"""Boxes of conversations: taken, and let go of. Runs on the background loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glovebox.client import registry
from glovebox.client.backend import Backend, ProgressReport, Sandbox
from glovebox.client.spec import BoxSpec
from glovebox.errors import BackendError, EngineUnavailable, NoSuchBox, NotSupported
from glovebox.openhands.ports import Ports
from glovebox.settings.host import HostSettings

#: Where the box of a conversation may be if nobody has said where boxes live, the best first.
PLACES = ("docker", "process")


@dataclass(frozen=True, slots=True)
class ConversationBox:
    """A box, and the backend it lives in."""

    backend: Backend
    sandbox: Sandbox
    ports: Ports


async def open_backend(settings: HostSettings, warn: Callable[[str], None]) -> Backend:
    """Where boxes live: as GLOVEBOX_BACKEND says, else containers if an engine answers, else processes.

    Raises:
        NoSuchBackend: there is none of that name.
        BackendError: nobody has said where, and whether there are containers cannot be found out.
    """
    if settings.backend:
        return registry.backend(settings.backend, settings)
    containers, processes = PLACES
    try:
        backend = registry.backend(containers, settings)
    except BackendError as reason:
        # Whoever has containers must not lose them for want of a library.
        raise BackendError(f"{reason} Or set GLOVEBOX_BACKEND=process, which is NO SANDBOX.") from reason
    try:
        await backend.boxes()
    except EngineUnavailable as reason:
        await backend.close()
        warn(
            "No container engine answers, so commands run as processes of this machine, with the rights of "
            f"this user and NO SANDBOX. GLOVEBOX_BACKEND=process says that this is meant. ({reason})"
        )
        return registry.backend(processes, settings)
    return backend


async def take(
    backend: Backend, spec: Callable[[], BoxSpec], name: str, report: ProgressReport, *, attach: bool
) -> ConversationBox:
    """The box of that name, started if there is none; it answers when this returns.

    Raises:
        NoSuchBox: there is none, and none is to be started (`attach`).
        BackendError: it cannot be.
    """
    try:
        sandbox = await backend.attach(name)
    except NoSuchBox:
        if attach:
            raise
        sandbox = await backend.start(spec(), report)
    else:
        await sandbox.resume()
    return ConversationBox(backend, sandbox, Ports.labelled((await sandbox.info()).labels))


async def rest(held: ConversationBox, *, pause: bool) -> None:
    """Leave a box for later: frozen, or as it is."""
    if pause:
        try:
            await held.sandbox.pause()
        except NotSupported:
            return  # it goes on, which is what keeping alive means


async def end(held: ConversationBox, *, remove: bool) -> None:
    """End a box; without `remove` its files stay, and the next `take` starts it again."""
    try:
        await (held.sandbox.delete() if remove else held.sandbox.stop())
    except (NotSupported, NoSuchBox):
        return  # it is not ours to end, or somebody has deleted it already


async def delete(settings: HostSettings, name: str) -> bool:
    """Remove the box of that name, wherever it lives; whether there was one.

    Raises:
        BackendError: it is there and cannot be removed.
    """
    if settings.backend:
        return await _deleted(registry.backend(settings.backend, settings), name)
    for place in PLACES:
        try:
            backend = registry.backend(place, settings)
        except BackendError:
            continue  # what cannot be loaded here has started no box
        if await _deleted(backend, name):
            return True
    return False


async def _deleted(backend: Backend, name: str) -> bool:
    try:
        await (await backend.attach(name)).delete()
    except (NoSuchBox, EngineUnavailable):
        return False
    else:
        return True
    finally:
        await backend.close()
