"""The `read`, `write` and `edit` actions."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from glovebox.box.executor import Call, Handler
from glovebox.box.files.actions.reader import MAX_BYTES, media_type, read_file
from glovebox.box.files.disk import atomic
from glovebox.box.files.disk.binary import BINARY_FILE, is_binary_name
from glovebox.box.files.disk.line_index import LineIndex, TooSlow
from glovebox.box.files.disk.lines import splice, splice_range, with_line_end
from glovebox.box.files.disk.locks import PathLocks
from glovebox.box.files.disk.workspace import SMALL, FileError, FileSource, pieces, resolve
from glovebox.box.files.editor.diff import unified
from glovebox.box.files.editor.editor import Editor, EditorCommand
from glovebox.box.files.editor.messages import BinaryFile, EditorError, MissingPath, line_number
from glovebox.box.shell import Shell
from glovebox.box.threads import Threads
from glovebox.errors import ActionError
from glovebox.protocol.actions import FileEditAction, FileReadAction, FileWriteAction
from glovebox.protocol.observations import (
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
)

_EDITOR = "oh_aci"
_SHOWN = "shown"


class FileActions:
    """Carries out file actions, each in one go in a thread.

    Actions do not wait for the shell. Only before an answer says that a file is missing, the commands that
    were accepted earlier get the time to make it.
    """

    def __init__(
        self,
        *,
        shell: Shell,
        working_dir: str,
        user_id: int | None,
        threads: Threads,
        max_read_bytes: int = MAX_BYTES,
    ) -> None:
        self._shell = shell
        self._max_read_bytes = max_read_bytes
        self._threads = threads
        self._user_id = user_id
        self._locks = PathLocks()
        self._editor = Editor(working_dir=working_dir, owner=user_id, locks=self._locks)

    def handlers(self) -> list[Handler]:
        return [self.read, self.write, self.edit]

    async def close(self) -> None:
        """Remove the history of edits."""
        await self._threads.run(self._editor.close)

    async def read(self, action: FileReadAction, call: Call) -> FileReadObservation | ErrorObservation:
        """Read a file: its lines, or what the editor's `view` makes of it."""
        if is_binary_name(action.path):
            return ErrorObservation(content=BINARY_FILE)
        if action.impl_source == _EDITOR:
            return await self._view(action)
        observation = await self._read(action)
        if observation is None:
            await self._shell.settled()
            observation = await self._read(action)
        if observation is None:
            cwd = self._shell.cwd
            path = resolve(action.path, cwd)
            return ErrorObservation(
                content=f"File not found: {path}. Your current working directory is {cwd}."
            )
        return observation

    async def write(self, action: FileWriteAction, call: Call) -> FileWriteObservation | ErrorObservation:
        """Write lines into a file."""
        path = resolve(action.path, self._shell.cwd)
        try:
            await self._threads.run(
                write_file,
                path,
                action.content,
                action.start,
                action.end,
                owner=self._user_id,
                locks=self._locks,
            )
        except FileError as refusal:
            return ErrorObservation(content=str(refusal), error_id=refusal.error_id)
        return FileWriteObservation(path=path)

    async def edit(self, action: FileEditAction, call: Call) -> FileEditObservation | ErrorObservation:
        """Carry out a command of the editor."""
        if action.impl_source != _EDITOR:
            raise ActionError("")  # the contract has no words for it
        try:
            content, diff = await self._edit(action)
        except EditorError as error:
            content, diff = _error(error), ""
        return FileEditObservation(
            content=content,
            path=action.path,
            old_content=action.old_str,
            new_content=action.new_str,
            diff=diff,
        )

    async def _read(self, action: FileReadAction) -> FileReadObservation | ErrorObservation | None:
        """The answer, or `None` if there is no file."""
        path = resolve(action.path, self._shell.cwd)
        # The contract tests what it can open without asking the shell. Of other files, pictures are shown,
        # and to tools they are shown by any path.
        shown = action.impl_source == _SHOWN and media_type(path) is not None
        test_binary = action.path.startswith("/") and not shown
        try:
            content = await self._threads.run(
                read_file,
                path,
                test_binary=test_binary,
                start=action.start,
                end=action.end,
                most=self._max_read_bytes,
            )
        except FileNotFoundError:
            return None
        except FileError as refusal:
            return ErrorObservation(content=str(refusal), error_id=refusal.error_id)
        return FileReadObservation(content=content, path=path)

    async def _view(self, action: FileReadAction) -> FileReadObservation | ErrorObservation:
        try:
            try:
                edited = await self._threads.run(
                    self._editor.view, action.path, action.view_range, text_only=True
                )
            except MissingPath:
                await self._shell.settled()
                edited = await self._threads.run(
                    self._editor.view, action.path, action.view_range, text_only=True
                )
        except BinaryFile:
            return ErrorObservation(content=BINARY_FILE)
        except EditorError as error:
            content = _error(error)
        else:
            content = edited.output
        return FileReadObservation(content=content, path=action.path, impl_source=_EDITOR)

    async def _edit(self, action: FileEditAction) -> tuple[str, str]:
        command = EditorCommand(
            command=str(action.command),
            path=action.path,
            file_text=action.file_text,
            old_str=action.old_str,
            new_str=action.new_str,
            insert_line=line_number(action.insert_line),
        )
        try:
            return await self._threads.run(self._run, command)
        except MissingPath:
            await self._shell.settled()
            return await self._threads.run(self._run, command)

    def _run(self, command: EditorCommand) -> tuple[str, str]:
        """The editor's answer and the diff of what it did."""
        edited = self._editor.run(command)
        return edited.output, unified(edited.old_content or "", edited.new_content or "", command.path)


def _error(error: EditorError) -> str:
    return f"ERROR:\n{error}"


#: The mode of a file that was not there before.
NEW_FILE_MODE = 0o664


def write_file(
    path: str, content: str, start: int | None, end: int | None, *, owner: int | None, locks: PathLocks
) -> None:
    """Put lines into a file, making it and its directory where they are missing.

    A new file goes to `owner`, user and group alike.

    Raises:
        Refused: it is not a file, not a text file, or its ownership could not be set after all.
    """
    real = os.path.realpath(path)
    with locks.hold(real):
        try:
            source = FileSource(path)
        except FileNotFoundError:
            _create(path, content, owner=owner, real=real)
            return
        with source:
            _expect_regular(path, source.status.st_mode)
            try:
                _change(path, source, content, start, end, real=real)
            except UnicodeDecodeError:
                raise FileError(f"File could not be decoded as utf-8: {path}") from None
            except TooSlow:
                raise FileError(f"File is too large: {path} could not be gone through in time.") from None


def _change(
    path: str, source: FileSource, content: str, start: int | None, end: int | None, *, real: str
) -> None:
    status = source.status
    previous = source.content(SMALL)
    if previous is not None:
        data = splice(previous.decode(), content, start, end).encode()
        atomic.replace(path, data, real=real, status=status, previous=previous)
        return
    index = LineIndex(source.fd)
    kept, resumed = (index.offset(line) for line in splice_range(index.lines, start, end))
    everything = start == 0 and end == -1
    new = with_line_end(content + "\n", "\n" if everything else index.line_end).encode()

    def change(file: int) -> Iterator[bytes]:
        yield from pieces(file, 0, kept)
        yield new
        yield from pieces(file, resumed, index.size)

    atomic.rewrite(path, change, real=real, status=status, file=source.fd, size=index.size)


def _expect_regular(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise FileError(f"Path is a directory: {path}. You can only write to files")
    if not stat.S_ISREG(mode):
        raise FileError(f"Path is not a regular file: {path}. You can only write to files")


def _create(path: str, content: str, *, owner: int | None, real: str) -> None:
    data = (content + "\n").encode()
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        _make_directories(directory)
    try:
        refusal = atomic.create(path, data, real=real, mode=NEW_FILE_MODE, owner=owner)
    except FileNotFoundError:
        # A link that leads into a directory that is not there.
        raise FileError(f"File not found: {path}") from None
    if refusal is not None:
        raise FileError(f"File {path} written, but failed to change ownership and permissions: {refusal}")


def _make_directories(directory: str) -> None:
    missing = []
    while directory and not os.path.lexists(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another write was faster
            os.mkdir(path)
