"""What a window that tests make does with orders: real files, real commands."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from glovebox.protocol import window as say
from tests.hub.window_bash import Terminals
from tests.hub.window_companion import WindowCompanion

Printed = Callable[[str], None]


class No(Exception):
    """The window refuses."""

    def __init__(self, code: say.FailureCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class WindowHands:
    """Carries out orders below some folders."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders = folders
        self.trusted = True
        #: Files with unsaved changes, and what their editors show.
        self.unsaved: dict[str, bytes] = {}
        self.terminals = Terminals()
        #: The companion box, if there is one.
        self.companion: WindowCompanion | None = None
        self._uploads: dict[str, bytes] = {}
        #: The stay of an agent, and what the user answers to the question about the next.
        self.stay: say.Arrive | None = None
        self.answer: Callable[[say.Arrive], Awaitable[bool]] | None = None

    async def do(self, order: say.Order, printed: Printed) -> say.Answer:
        """Carry out an order."""
        try:
            match order:
                case say.Run():
                    return await self._run(order, printed)
                case say.RunApart():
                    return await asyncio.to_thread(self._run_apart, order, printed)
                case say.Input():
                    shell = self.terminals.find(order.session)
                    if shell is None:
                        raise No("no_session", f"There is no session {order.session}.")
                    shell.type(order.text)
                    return say.Done()
                case say.EndSession():
                    await self.terminals.end(order.session)
                    return say.Done()
                case say.Arrive() | say.Depart():
                    return await self._change_stay(order)
                case say.Forward():
                    self._check_trust()
                    return await self._companion().forward(order)
                case say.FetchBody():
                    return await self._companion().fetch(order)
                case _:
                    return self._file(order)
        except FileNotFoundError as error:
            raise No("not_found", f"{error.filename} does not exist.") from error
        except IsADirectoryError as error:
            raise No("is_directory", f"{error.filename} is a directory.") from error
        except NotADirectoryError as error:
            raise No("not_directory", f"{error.filename} is no directory.") from error
        except OSError as error:
            raise No("failed", str(error)) from error

    async def _change_stay(self, order: say.Arrive | say.Depart) -> say.Answer:
        is_same = self.stay is not None and self.stay.stay == order.stay
        if isinstance(order, say.Depart) != is_same:
            return say.Done()
        asked = order if isinstance(order, say.Arrive) and order.ask else None
        if asked and (self.answer is None or not await self.answer(asked)):
            raise No("denied", "The user does not allow it.")
        await self.terminals.close()
        self.stay = order if isinstance(order, say.Arrive) else None
        self.terminals = Terminals(self.stay.env if self.stay else {})
        return say.Done()

    def _companion(self) -> WindowCompanion:
        if self.companion is None:
            raise No("no_companion", "There is no glovebox here: install it.")
        return self.companion

    async def _run(self, order: say.Run, printed: Printed) -> say.Answer:
        self._check_trust()
        first = self._first()
        shell = await self.terminals.shell(order.session, order.cwd or first)
        if shell.busy:
            raise No("busy", f"A command runs in session {order.session}.")
        return await shell.run(order.command, printed)

    def _run_apart(self, order: say.RunApart, printed: Printed) -> say.Answer:
        self._check_trust()
        cwd = order.cwd or self._first()
        ended = subprocess.run(
            ["bash", "-c", order.command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if ended.stdout:
            printed(ended.stdout.decode("utf-8", "replace"))
        return say.RunEnded(exit_code=ended.returncode, cwd=cwd, how="process")

    def _file(self, order: say.Order) -> say.Answer:
        match order:
            case say.Stat():
                return self._stat(self._path(order.path))
            case say.Read():
                path = self._path(order.path)
                data = self.unsaved.get(str(path)) or path.read_bytes()
                piece = data[order.offset : order.offset + order.length]
                return say.Content(data=piece, size=len(data), unsaved=str(path) in self.unsaved)
            case say.Write():
                return self._write(order)
            case say.Put():
                self._uploads[order.upload] = self._uploads.get(order.upload, b"") + order.data
                return say.Done()
            case say.Land():
                return self._land(order.path, self._uploads.pop(order.upload, b""))
            case say.Drop():
                self._uploads.pop(order.upload, None)
                return say.Done()
            case say.List():
                found = [
                    say.Entry(name=one.name, type=_kind(Path(one.path)), is_link=one.is_symlink())
                    for one in os.scandir(self._path(order.path))
                ]
                return say.Entries(entries=found)
            case say.Glob():
                return self._glob(order)
            case say.Grep():
                return self._grep(order)
            case _:
                return self._arrange(order)

    def _arrange(self, order: say.Order) -> say.Answer:
        self._check_trust()
        match order:
            case say.MakeDirectory():
                self._path(order.path).mkdir(parents=True, exist_ok=True)
            case say.Move():
                source, target = self._path(order.path), self._path(order.to)
                _make_room(source, target, order.overwrite)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.rename(source, target)
            case say.Delete():
                path = self._path(order.path)
                if path.is_dir() and not path.is_symlink():
                    if any(path.iterdir()) and not order.recursive:
                        raise No("not_empty", f"{path} is not empty.")
                    shutil.rmtree(path)
                else:
                    path.unlink()
            case _:
                raise No("unsupported", f"This window does not know {type(order).__name__}.")
        return say.Done()

    def _write(self, order: say.Write) -> say.Written:
        path = self._path(order.path)
        if str(path) in self.unsaved:
            raise No("unsaved_changes", f"{path} has changes that are not saved.")
        before = path.read_bytes() if path.exists() else None
        if order.exclusive and before is not None:
            raise No("exists", f"{path} exists.")
        if order.expected and hashlib.sha256(before or b"").hexdigest() != order.expected:
            raise No("changed_meanwhile", f"{path} has changed in the meantime.")
        return self._land(order.path, order.data)

    def _land(self, name: str, data: bytes) -> say.Written:
        self._check_trust()
        path = self._path(name)
        created = not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return say.Written(created=created)

    def _glob(self, order: say.Glob) -> say.Found:
        matches = re.compile(_as_regex(order.pattern)).fullmatch
        base = self._path(order.path)
        found = [path for path in _walk(base, order.hidden) if matches(path.relative_to(base).as_posix())]
        found.sort(key=lambda path: -path.stat().st_mtime)
        return say.Found(
            paths=[str(path) for path in found[: order.most]], incomplete=len(found) > order.most
        )

    def _grep(self, order: say.Grep) -> say.Lines:
        flags = re.IGNORECASE if order.ignore_case else 0
        try:
            search = re.compile(re.escape(order.pattern) if order.literal else order.pattern, flags).search
        except re.error as error:
            raise No("bad_pattern", str(error)) from error
        base = self._path(order.path)
        chosen = re.compile(_as_regex(order.include)).fullmatch if order.include else None
        found: list[say.Line] = []
        for path in sorted(_walk(base, order.hidden)):
            if chosen and not chosen(path.relative_to(base).as_posix()) and not chosen(path.name):
                continue
            lines = path.read_text(errors="replace").splitlines()
            found += [
                say.Line(
                    path=str(path), line=number, text=text,
                    before=lines[max(0, number - 1 - order.before) : number - 1],
                    after=lines[number : number + order.after],
                )
                for number, text in enumerate(lines, 1)
                if search(text)
            ]  # fmt: skip
        return say.Lines(lines=found[: order.most], incomplete=len(found) > order.most)

    def _stat(self, path: Path) -> say.PathInfo:
        if not path.exists():
            return say.PathInfo(exists=False)
        found = path.stat()
        return say.PathInfo(
            exists=True, type=_kind(path), size=found.st_size, modified=found.st_mtime,
            unsaved=str(path) in self.unsaved,
        )  # fmt: skip

    def _path(self, name: str) -> Path:
        """The path, if its real place is in one of the folders."""
        if not self.folders:
            raise No("no_folder", "No folder is open in this window.")
        real = Path(os.path.realpath(name))
        if not any(real.is_relative_to(folder.resolve()) for folder in self.folders):
            raise No("outside_workspace", f"{name} is not in the workspace.")
        return Path(name)

    def _first(self) -> str:
        if not self.folders:
            raise No("no_folder", "No folder is open in this window.")
        return str(self.folders[0])

    def _check_trust(self) -> None:
        if not self.trusted:
            raise No("untrusted", "The workspace is not trusted.")


def _make_room(source: Path, target: Path, overwrite: bool) -> None:
    """Refuse to replace what the extension would not replace."""
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise No("exists", f"{target} exists.")
    if target.is_dir() and not source.is_dir():
        raise No("is_directory", f"{target} is a directory.")
    if source.is_dir() and not target.is_dir():
        raise No("not_directory", f"{target} is a file.")
    if target.is_dir() and any(target.iterdir()):
        raise No("not_empty", f"{target} is not empty.")


def _kind(path: Path) -> say.Kind:
    return "directory" if path.is_dir() else "file" if path.is_file() else "other"


def _walk(base: Path, hidden: bool) -> Iterator[Path]:
    if base.is_file():
        yield base
        return
    for folder, names, files in os.walk(base):
        if not hidden:
            names[:] = [name for name in names if not name.startswith(".")]
        yield from (Path(folder, name) for name in files if hidden or not name.startswith("."))


def _as_regex(glob: str) -> str:
    """A glob of VS Code: `*`, `?`, `**`, `{a,b}`, `[...]`."""
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\{|\}|,|\[[^\]]*\])", glob)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}
    return "".join(
        meaning.get(piece) or (piece if piece.startswith("[") else re.escape(piece)) for piece in pieces
    )
