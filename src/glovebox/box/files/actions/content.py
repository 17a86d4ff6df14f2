"""The `read`, `write` and `edit` actions."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from glovebox.box.executor import Call, Handler
from glovebox.box.files.disk.encoding import BINARY_FILE, is_binary, is_binary_name
from glovebox.box.files.disk.lines import TooSlow, cut, shown, splice
from glovebox.box.files.disk.path_errors import FileActionError, resolve, too_large
from glovebox.box.files.editor.diff import unified
from glovebox.box.files.editor.editor import Editor, EditorCommand, retry_changed
from glovebox.box.files.editor.history import KEEP_BYTES
from glovebox.box.files.editor.messages import BinaryFile, EditorError, MissingPath, line_number
from glovebox.box.machine import FileHandle, Files, MainShell
from glovebox.errors import ActionError
from glovebox.protocol.actions import FileEditAction, FileReadAction, FileWriteAction
from glovebox.protocol.observations import (
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
)

P = ParamSpec("P")
T = TypeVar("T")

#: How much `read` answers with, unless a setting says otherwise.
MAX_BYTES = 32 << 20

_EDITOR = "oh_aci"
_SHOWN = "shown"

#: The system's own table of types is not used: an answer must not depend on the machine.
_MEDIA_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".bmp": "image/bmp",
    ".gif": "image/gif",
    ".pdf": "application/pdf",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".ogg": "audio/ogg",
}


class FileActions:
    """Carries out file actions.

    They do not wait for the shell. Only before an answer says that a file is missing, commands that were
    accepted earlier get the time to make it.
    """

    def __init__(
        self,
        files: Files,
        *,
        shell: MainShell,
        workspace: Callable[[], str],
        max_read_bytes: int = MAX_BYTES,
        history_bytes: int = KEEP_BYTES,
    ) -> None:
        self._files = files
        self._shell = shell
        self._max_read_bytes = max_read_bytes
        self._editor = Editor(files, workspace=workspace, history_bytes=history_bytes)

    def handlers(self) -> list[Handler]:
        return [self.read, self.write, self.edit]

    async def close(self) -> None:
        """Remove the history of edits."""
        await self._files.run(self._editor.close)

    async def read(self, action: FileReadAction, call: Call) -> FileReadObservation | ErrorObservation:
        """Read a file: its lines, or the editor's `view` of it."""
        if is_binary_name(action.path):
            return ErrorObservation(content=BINARY_FILE)
        try:
            if action.impl_source == _EDITOR:
                return await self._view(action)
            try:
                return await self._files.look(self._read, action, self._shell.cwd)
            except FileNotFoundError:
                await self._shell.settled()
                cwd = self._shell.cwd
                return await self._files.run(self._read, action, cwd)
        except FileNotFoundError:
            path = resolve(action.path, cwd)
            return ErrorObservation(
                content=f"File not found: {path}. Your current working directory is {cwd}."
            )
        except FileActionError as refused:
            return refused.observation()

    async def write(self, action: FileWriteAction, call: Call) -> FileWriteObservation | ErrorObservation:
        """Write lines into a file."""
        path = resolve(action.path, self._shell.cwd)
        try:
            await self._files.run(self._write, path, action)
        except FileActionError as refused:
            return refused.observation()
        return FileWriteObservation(path=path)

    async def edit(self, action: FileEditAction, call: Call) -> FileEditObservation | ErrorObservation:
        """Carry out a command of the editor."""
        if action.impl_source != _EDITOR:
            raise ActionError("")  # the contract has no words for it
        try:
            content, diff = await self._edit(action)
        except EditorError as error:
            content, diff = _error(error), ""
        except FileActionError as refused:
            return refused.observation()
        return FileEditObservation(
            content=content,
            path=action.path,
            old_content=action.old_str,
            new_content=action.new_str,
            diff=diff,
        )

    async def _read(self, action: FileReadAction, cwd: str) -> FileReadObservation:
        path = resolve(action.path, cwd)
        media = media_type(path)
        # The contract tests absolute paths only. Of other files pictures are shown, and tools are shown
        # pictures by any path.
        test_binary = action.path.startswith("/") and not (action.impl_source == _SHOWN and media is not None)
        try:
            file = await self._files.open(path)
        except IsADirectoryError:
            raise FileActionError("", f"Path is a directory: {path}. You can only read files") from None
        with file:
            if not file.is_regular:
                raise FileActionError("", f"Path is not a regular file: {path}. You can only read files")
            if test_binary and await self._files.compute(is_binary, file.sample()):
                raise FileActionError("", BINARY_FILE)
            if media is not None:
                content = await self._data_url(file, media)
            else:
                content = await self._text(file, action.start, action.end)
        return FileReadObservation(content=content, path=path)

    async def _text(self, file: FileHandle, start: int, end: int) -> str:
        most = self._max_read_bytes
        whole = start <= 0 and end == -1
        try:
            data = await file.content(most if whole else file.small)
            if data is not None:
                text = await self._files.compute(_cut, data, start, end)
                if len(data) > most and len(part := text.encode()) > most:
                    raise too_large(file.path, len(part), most)
                return text
            if whole:
                raise too_large(file.path, file.size, most)
            return shown(await file.lines(start, end, most))
        except UnicodeDecodeError:
            raise FileActionError("", f"File could not be decoded as utf-8: {file.path}.") from None
        except TooSlow:
            raise FileActionError(
                "too_large",
                f"File is too large: {file.path} could not be gone through in time. "
                "Read a part of it with a command, such as head, tail or sed -n.",
            ) from None

    async def _data_url(self, file: FileHandle, media: str) -> str:
        most = self._max_read_bytes
        data = None if file.size * 4 // 3 > most else await file.content(most)
        if data is None:
            raise too_large(file.path, file.size * 4 // 3, most)
        encoded = await self._files.compute(base64.b64encode, data)
        return f"data:{media};base64,{encoded.decode('ascii')}"

    async def _view(self, action: FileReadAction) -> FileReadObservation | ErrorObservation:
        try:
            viewed = await self._with_editor(
                self._editor.view, action.path, action.view_range, text_only=True
            )
            content = viewed.output
        except BinaryFile:
            return ErrorObservation(content=BINARY_FILE)
        except EditorError as error:
            content = _error(error)
        return FileReadObservation(content=content, path=action.path, impl_source=_EDITOR)

    async def _write(self, path: str, action: FileWriteAction) -> None:
        async with self._files.lock(path):
            await retry_changed(self._put, path, action)

    async def _put(self, path: str, action: FileWriteAction) -> None:
        """Put lines into a file, making it and its directory where they are missing."""
        content, start, end = action.content, action.start, action.end
        try:
            file = await self._files.open(path)
        except FileNotFoundError:
            await self._files.create(path, (content + "\n").encode(), exclusive=False)
            return
        except IsADirectoryError:
            raise FileActionError("", f"Path is a directory: {path}. You can only write to files") from None
        with file:
            if not file.is_regular:
                raise FileActionError("", f"Path is not a regular file: {path}. You can only write to files")
            try:
                data = await file.content(file.small)
                if data is None:
                    await self._files.splice(file, content, start, end)
                else:
                    new = await self._files.compute(_spliced, data, content, start, end)
                    await self._files.replace(file, new)
            except UnicodeDecodeError:
                raise FileActionError("", f"File could not be decoded as utf-8: {path}") from None
            except TooSlow:
                reason = f"File is too large: {path} could not be gone through in time."
                raise FileActionError("", reason) from None

    async def _edit(self, action: FileEditAction) -> tuple[str, str]:
        command = EditorCommand(
            command=str(action.command),
            path=action.path,
            file_text=action.file_text,
            old_str=action.old_str,
            new_str=action.new_str,
            insert_line=line_number(action.insert_line),
        )
        return await self._with_editor(self._run, command)

    async def _with_editor(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            return await self._files.run(work, *args, **kwargs)
        except MissingPath:
            await self._shell.settled()
            return await self._files.run(work, *args, **kwargs)

    async def _run(self, command: EditorCommand) -> tuple[str, str]:
        """The editor's answer and the diff of its change."""
        edited = await self._editor.run(command)
        old, new = edited.old_content or "", edited.new_content or ""
        return edited.output, await self._files.compute(unified, old, new, command.path)


def _error(error: EditorError) -> str:
    return f"ERROR:\n{error}"


def _cut(data: bytes, start: int, end: int) -> str:
    return cut(shown(data.decode()), start, end)


def _spliced(data: bytes, content: str, start: int | None, end: int | None) -> bytes:
    return splice(data.decode(), content, start, end).encode()


def media_type(path: str) -> str | None:
    """The type of a file with that name, if `read` answers with a data URL of it."""
    name = os.path.basename(path).lower()
    return _MEDIA_TYPES.get(name[name.rfind(".") :]) if "." in name else None
