"""The file format of bundles: a plain tar that begins with a manifest."""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import msgspec

import glovebox
from glovebox.bundle.layout import MANIFEST
from glovebox.bundle.subprocesses import Stop
from glovebox.errors import NoBundle
from glovebox.json_codec import decode_json
from glovebox.protocol.base import Message


class Manifest(Message):
    """The first member of a bundle."""

    version: str
    #: As `uname -m` has it.
    machine: str
    #: Of all it holds: bundles with the same digest are the same.
    digest: str


def manifest(path: Path) -> Manifest:
    """Read the manifest of a bundle, which is quick: it comes first.

    Raises:
        NoBundle: it is none.
    """
    try:
        with tarfile.open(path, "r:") as archive:
            first = archive.next()
            content = archive.extractfile(first) if first and first.name == MANIFEST else None
            if content is None:
                raise NoBundle(f"{path} is a tar, but not one that `glovebox bundle` made.")
            return decode_json(content.read(), Manifest)
    except (OSError, tarfile.TarError, msgspec.DecodeError) as error:
        raise NoBundle(f"{path} is not a bundle: {error}. Make one with `glovebox bundle`.") from error


def digest(path: Path) -> str:
    """The digest of a bundle's content.

    Raises:
        NoBundle: it is none.
    """
    return manifest(path).digest


def pack(stage: Path, output: Path, stop: Stop) -> Manifest:
    """Write what lies in a directory as a bundle. The same content makes the same bytes."""
    members = sorted(_members(stage))
    made = Manifest(
        version=glovebox.__version__, machine=platform.machine(), digest=_digest(stage, members, stop)
    )
    with tarfile.open(output, "w:", format=tarfile.GNU_FORMAT) as archive:
        content = msgspec.json.encode(made)
        head = tarfile.TarInfo(MANIFEST)
        head.size = len(content)
        archive.addfile(head, BytesIO(content))
        for name in members:
            stop.check()
            member = _plain(archive.gettarinfo(stage / name, name))
            if member.isreg():
                with (stage / name).open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
    return made


def _members(stage: Path) -> Iterator[str]:
    for parent, directories, names in os.walk(stage):
        for name in (*directories, *names):
            yield os.path.relpath(os.path.join(parent, name), stage)


def _digest(stage: Path, members: list[str], stop: Stop) -> str:
    whole = hashlib.sha256()
    for name in members:
        stop.check()
        path = stage / name
        whole.update(name.encode() + b"\0")
        if path.is_symlink():
            whole.update(os.readlink(path).encode())
        elif path.is_file():
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
            whole.update(b"x" if _is_program(path.stat().st_mode) else b"-")
    return whole.hexdigest()


def _is_program(mode: int) -> bool:
    return bool(mode & stat.S_IXUSR)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Readable by everyone, owned by root, of no particular time."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = 0
    member.mode = 0o755 if member.isdir() or _is_program(member.mode) else 0o644
    if member.islnk():  # tarfile makes hard links of files it has seen
        member.type = tarfile.REGTYPE
    return member
