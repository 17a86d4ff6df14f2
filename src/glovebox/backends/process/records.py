"""The records of boxes: a private directory for each, with `box.json` in it. Everything blocks."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from glovebox.backends.startup import finish
from glovebox.client.spec import BoxSpec
from glovebox.errors import BackendError, BoxExists, NoSuchBox
from glovebox.json_codec import json_decoder
from glovebox.protocol.base import Message
from glovebox.state_files import read_file

log = logging.getLogger(__name__)

_RECORD = "box.json"
BUBBLEWRAP: Final = "bubblewrap"
P = ParamSpec("P")
T = TypeVar("T")


class Known(Message):
    """A process, identified by its pid and the time of its start."""

    pid: int
    start: str


class BoxRecord(Message):
    """A box and its processes."""

    #: Its spec, with name and key.
    spec: BoxSpec
    #: The client that owns it.
    owner: str
    #: Seconds since 1970.
    created: float
    #: The process with which it ends: the server, or the first one of its pid namespace.
    main: Known | None = None
    #: The child process of the client, to be reaped.
    child: Known | None = None
    #: Its last address.
    url: str = ""
    #: The processes that `pause` has stopped, parents first.
    paused: tuple[Known, ...] = ()

    @property
    def is_isolated(self) -> bool:
        return self.spec.isolation == BUBBLEWRAP


_decode = json_decoder(BoxRecord).decode


class BoxDirectory:
    """The directory of one box."""

    def __init__(self, path: Path, created: float | None = None) -> None:
        """`created` distinguishes it from a later box of the same name."""
        self.path = path
        self.name = path.name
        self._created = created

    @property
    def log(self) -> Path:
        return self.path / "box.log"

    @property
    def workspace(self) -> Path:
        """The workspace, if the spec names none."""
        return self.path / "workspace"

    @property
    def shells(self) -> Path:
        """The state directory of the server."""
        return self.path / "shells"

    def read(self) -> BoxRecord:
        """The record.

        Raises:
            NoSuchBox: it is gone.
        """
        try:
            record = _decode(read_file(str(self.path / _RECORD)))
        except (FileNotFoundError, NotADirectoryError):
            raise self._gone() from None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning(
                "the box %s cannot be used: %s is damaged (%s)", self.name, self.path / _RECORD, error
            )
            raise self._gone() from None
        if self._created not in (None, record.created):
            raise self._gone()
        return record

    def write(self, record: BoxRecord) -> None:
        """Replace the record atomically: readers see the old one or the new one."""
        new = self.path / f"{_RECORD}.new"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(record))
        new.replace(self.path / _RECORD)

    @contextlib.contextmanager
    def locked(self) -> Iterator[BoxRecord]:
        """The record, locked against changes by other clients.

        Raises:
            NoSuchBox: it is gone.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(_lock(self.path))
            except (FileNotFoundError, NotADirectoryError):
                raise self._gone() from None
            yield self.read()

    def _gone(self) -> NoSuchBox:
        return NoSuchBox(f"There is no box {self.name!r}.")

    def remove(self) -> None:
        """Remove it, even if commands have changed permissions."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.path.exists():
            for parent, names, _ in os.walk(self.path):
                for name in names:
                    path = os.path.join(parent, name)
                    if not os.path.islink(path):  # the target of a link is not part of the box
                        os.chmod(path, 0o700)
            shutil.rmtree(self.path, ignore_errors=True)
        if self.path.exists():
            log.warning("%s could not be removed: not everything in it is yours", self.path)


class BoxRecords:
    """All boxes of a state directory."""

    def __init__(self, root: Path) -> None:
        self.root = root / "boxes"

    def of(self, record: BoxRecord) -> BoxDirectory:
        """The directory of this box, not of a later one of its name."""
        return BoxDirectory(self.root / record.spec.name, record.created)

    def create(self, record: BoxRecord) -> None:
        """Make the directory of a new box.

        Raises:
            BoxExists: the name is taken.
        """
        directory = self.of(record)
        with self._locked():
            try:
                directory.path.mkdir(0o700)
            except FileExistsError:
                raise BoxExists(
                    f"There is a box {directory.name!r} already: attach to it, or choose another name."
                ) from None
            except OSError as error:
                raise self._unusable(error) from error
            directory.write(record)

    def directories(self) -> list[BoxDirectory]:
        """All directories; those that a killed client left without a record are removed."""
        if not self.root.is_dir():
            return []
        with self._locked():
            found = [BoxDirectory(path) for path in self.root.iterdir() if path.is_dir()]
            known = [one for one in found if os.path.lexists(one.path / _RECORD)]
            for one in found:
                if one not in known:
                    one.remove()
        return known

    def find(self, name: str) -> BoxDirectory:
        """The box of that name.

        Raises:
            NoSuchBox: there is none.
        """
        path = self.root / name
        return BoxDirectory(path, BoxDirectory(path).read().created)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock against new directories: one without a record is then an orphan.

        Raises:
            BackendError: nothing can be kept there.
        """
        with contextlib.ExitStack() as stack:
            try:
                self.root.mkdir(0o700, parents=True, exist_ok=True)
                stack.enter_context(_lock(self.root))
            except OSError as error:
                raise self._unusable(error) from error
            yield

    def _unusable(self, error: OSError) -> BackendError:
        return BackendError(
            f"Boxes cannot be kept in {self.root}: {error.strerror or error}. "
            "Set XDG_STATE_HOME to a directory that can be written."
        )


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
    """Run a function in a thread. A cancelled caller waits for its end: a thread cannot be stopped."""
    return finish(asyncio.to_thread(work, *args, **kwargs))
