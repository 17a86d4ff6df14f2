"""The editor: carries out one command on one file, and reports in the contract's words."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

from glovebox.box.files.disk.encoding import UTF8, Encodings, TextEncoding, is_binary, is_binary_name
from glovebox.box.files.disk.lines import line_end, raw_offset, shown, with_line_end
from glovebox.box.files.disk.path_errors import ChangedMeanwhile, FileActionError, normal
from glovebox.box.files.editor import convert, messages, text
from glovebox.box.files.editor.history import KEEP_BYTES, History
from glovebox.box.files.editor.messages import BinaryFile, EditorError, MissingPath
from glovebox.box.files.machine import FileHandle, Files, PathKind

P = ParamSpec("P")
T = TypeVar("T")

#: Larger files are not opened.
MAX_MEGABYTES = 10
#: How often a change is made again because the file has changed meanwhile.
ATTEMPTS = 3


class EditorCommand(NamedTuple):
    """A command and its parameters."""

    command: str
    path: str
    file_text: str | None = None
    view_range: Any = None
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | None = None


class Edited(NamedTuple):
    """The result of a command; contents are there when it was one that changes files."""

    output: str
    path: str
    prev_exist: bool = True
    old_content: str | None = None
    new_content: str | None = None


class _Loaded(NamedTuple):
    """A text file as it was found."""

    file: FileHandle
    data: bytes
    encoding: TextEncoding
    raw: str
    text: str


class Editor:
    """Views, creates and changes files, and remembers what they were.

    `workspace` is where a relative path is looked for to suggest an absolute one. `history_bytes` limits
    what is kept to undo edits.
    """

    def __init__(
        self,
        files: Files,
        *,
        workspace: Callable[[], str] | None = None,
        history_bytes: int = KEEP_BYTES,
    ) -> None:
        self._files = files
        self._workspace = workspace
        self._encodings = Encodings()
        self._history = History(keep_bytes=history_bytes)
        self._changes: dict[str, Callable[[EditorCommand, str], Awaitable[Edited]]] = {
            "str_replace": self._str_replace,
            "insert": self._insert,
            "undo_edit": self._undo,
        }

    async def close(self) -> None:
        await self._files.compute(self._history.close)

    async def run(self, command: EditorCommand) -> Edited:
        """Carry out one command.

        Raises:
            MissingPath: nothing is at the path.
            EditorError: it could not be done; the text says why.
            FileActionError: the machine refuses.
        """
        path = normal(command.path)
        if command.command == "view":
            return await self.view(path, command.view_range)
        await self._expect_absolute(path)
        problem = _problem(command, path)
        if command.command == "create":
            return await self._create(command, path, problem)
        if problem is not None:
            await self._expect_file(path)
            raise problem
        try:
            async with self._files.lock(path):
                return await retry_changed(self._changes[command.command], command, path)
        except IsADirectoryError:
            raise messages.only_view(path) from None
        except ValueError:  # it cannot be a path
            raise MissingPath(path) from None

    async def view(self, path: str, view_range: Any = None, *, text_only: bool = False) -> Edited:
        """A file's numbered lines, a document as Markdown, or a directory's tree.

        `text_only` refuses binary files before anything else is looked at, documents among them.

        Raises:
            BinaryFile: it is one.
            EditorError: it cannot be viewed; the text says why.
            FileActionError: the machine refuses.
        """
        path = normal(path)
        await self._expect_absolute(path)
        try:
            async with self._opened(path) as file:
                return Edited(await self._view_file(file, view_range, text_only=text_only), path)
        except IsADirectoryError:
            if view_range:
                hint = "The `view_range` parameter is not allowed when `path` points to a directory."
                raise messages.invalid("view_range", view_range, hint) from None
        return Edited(text.directory(path, await self._files.tree(path)), path)

    async def _view_file(self, file: FileHandle, view_range: Any, *, text_only: bool) -> str:
        path = file.path
        if text_only and file.is_regular and await self._files.compute(is_binary, file.sample()):
            raise BinaryFile(path)
        if not convert.is_document(path):
            return text.view((await self._decoded(file)).text, path, view_range)
        data = await _whole(file)
        try:
            return text.converted(path, await self._files.compute(convert.to_markdown, path, data))
        except convert.ConversionError as error:
            raise EditorError(
                f"Error in converting file to Markdown: {error}. Please use Python code to read {path}"
            ) from None

    async def _create(self, command: EditorCommand, path: str, problem: EditorError | None) -> Edited:
        data = b""
        try:
            data = UTF8.encode(command.file_text or "")
        except UnicodeEncodeError as error:
            problem = problem or messages.unwritable(path, error)
        if problem is not None:
            # That the file is there already comes first.
            raise problem if await self._kind(path) is None else messages.already_exists(path)
        try:
            async with self._files.lock(path):
                await self._files.create(path, data, exclusive=True)
                await self._files.compute(self._history.push, path, data)
        except FileExistsError:
            raise messages.already_exists(path) from None
        except (OSError, ValueError) as error:
            raise messages.unwritable(path, error) from None
        return Edited(f"File created successfully at: {path}", path, False, None, command.file_text)

    async def _str_replace(self, command: EditorCommand, path: str) -> Edited:
        loaded = await self._load(path)
        change = text.replacement(loaded.text, command.old_str or "", command.new_str or "", path)
        after = await self._apply(path, loaded, change)
        return Edited(text.replaced_text(shown(after), change, path), path, True, loaded.text, after)

    async def _insert(self, command: EditorCommand, path: str) -> Edited:
        loaded = await self._load(path)
        change = text.insertion(loaded.text, command.insert_line or 0, command.new_str or "")
        after = shown(await self._apply(path, loaded, change))
        return Edited(text.inserted_text(after, change, path), path, True, loaded.text, after)

    async def _undo(self, command: EditorCommand, path: str) -> Edited:
        loaded = await self._load(path)
        data = await self._files.compute(self._history.last, path)
        if data is None:
            raise messages.no_history(path)
        raw, encoding = await self._files.compute(self._decode, path, data)
        await self._replace(path, loaded, data, encoding)
        await self._files.compute(self._history.drop_last, path)
        before = shown(raw)
        return Edited(text.undone_text(before, path), path, True, loaded.text, before)

    async def _apply(self, path: str, loaded: _Loaded, change: text.Change) -> str:
        """Put a change into the file, and return its text with the change as the command has it.

        Lines that are not touched keep their ends, and new ones get those of the file.
        """
        after = raw = change.applied(loaded.text)
        if "\r" in loaded.raw:
            start, end = raw_offset(loaded.raw, change.start), raw_offset(loaded.raw, change.end)
            new = with_line_end(change.new, line_end(loaded.raw))
            raw = loaded.raw[:start] + new + loaded.raw[end:]
        try:
            data = loaded.encoding.encode(raw)
        except UnicodeEncodeError as error:
            raise messages.unwritable(path, error) from None
        await self._replace(path, loaded, data, loaded.encoding)
        await self._files.compute(self._history.push, path, loaded.data)
        return after

    async def _replace(self, path: str, loaded: _Loaded, data: bytes, encoding: TextEncoding) -> None:
        try:
            await self._files.replace(loaded.file, data)
        except OSError as error:
            raise messages.unwritable(path, error) from None
        if encoding.codec != UTF8.codec:
            # What was a guess must not become another one because of the edit.
            self._encodings.remember(path, data, encoding)

    async def _load(self, path: str) -> _Loaded:
        async with self._opened(path) as file:
            return await self._decoded(file)

    @contextlib.asynccontextmanager
    async def _opened(self, path: str) -> AsyncIterator[FileHandle]:
        """The file, open; a directory raises `IsADirectoryError`, other errors are the editor's."""
        try:
            file = await self._files.open(path)
        except FileNotFoundError:
            raise MissingPath(path) from None
        except IsADirectoryError:
            raise
        except (OSError, ValueError) as error:
            kind = await self._kind(path)
            if kind == "directory":
                raise IsADirectoryError(path) from None
            if kind is None and not isinstance(error, PermissionError):
                raise MissingPath(path) from None
            raise messages.unreadable(path, error) from None
        with file:
            try:
                yield file
            except OSError as error:
                raise messages.unreadable(path, error) from None

    async def _decoded(self, file: FileHandle) -> _Loaded:
        _expect_fitting(file)
        if is_binary_name(file.path) or await self._files.compute(is_binary, file.sample()):
            raise BinaryFile(file.path)
        data = await _whole(file)
        raw, encoding = await self._files.compute(self._decode, file.path, data)
        return _Loaded(file, data, encoding, raw, shown(raw))

    def _decode(self, path: str, data: bytes) -> tuple[str, TextEncoding]:
        try:
            return self._encodings.decode(path, data)
        except UnicodeDecodeError as error:
            raise messages.unreadable(path, error) from None

    async def _expect_absolute(self, path: str) -> None:
        if path.startswith("/"):
            return
        hint = "The path should be an absolute path, starting with `/`."
        if self._workspace is not None:
            suggestion = normal(f"{self._workspace().rstrip('/')}/{path}")
            with contextlib.suppress(FileActionError):
                if await self._kind(suggestion) is not None:
                    hint += f" Maybe you meant {suggestion}?"
        raise messages.invalid("path", path, hint)

    async def _expect_file(self, path: str) -> None:
        """Something is there, and it is not a directory."""
        try:
            kind = await self._files.stat(path)
        except PermissionError as error:
            raise messages.unreadable(path, error) from None
        except (OSError, ValueError):
            raise MissingPath(path) from None
        if kind == "directory":
            raise messages.only_view(path)

    async def _kind(self, path: str) -> PathKind | None:
        try:
            return await self._files.stat(path)
        except (OSError, ValueError):
            return None


async def retry_changed(change: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a change, again if the file has changed between reading and writing."""
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(ChangedMeanwhile):
            return await change(*args, **kwargs)
    return await change(*args, **kwargs)


def _problem(command: EditorCommand, path: str) -> EditorError | None:
    """An error in a command, whatever the file is."""
    name = command.command
    if convert.is_document(path):
        return messages.only_view_document(path, os.path.splitext(path)[1])
    if name == "create" and command.file_text is None:
        return messages.missing("file_text", name)
    if name == "insert" and command.insert_line is None:
        return messages.missing("insert_line", name)
    if name == "insert" and command.new_str is None:
        return messages.missing("new_str", name)
    if name == "str_replace" and command.old_str is None:
        return messages.missing("old_str", name)
    if name == "str_replace" and command.new_str == command.old_str:
        hint = "No replacement was performed. `new_str` and `old_str` must be different."
        return messages.invalid("new_str", command.new_str, hint)
    return None if name in messages.COMMANDS else messages.unknown_command(name)


def _expect_fitting(file: FileHandle) -> None:
    if not file.is_regular:
        raise messages.unfit(file.path, "It is not a regular file and cannot be read or edited by this tool.")
    megabytes = file.size / 1024 / 1024
    if megabytes > MAX_MEGABYTES:
        raise _too_large(file.path, f"{megabytes:.1f}")


async def _whole(file: FileHandle) -> bytes:
    _expect_fitting(file)
    data = await file.content(MAX_MEGABYTES << 20)
    if data is None:  # it has grown, or is one of /proc, which have size 0
        raise _too_large(file.path, f"more than {MAX_MEGABYTES}")
    return data


def _too_large(path: str, megabytes: str) -> EditorError:
    reason = f"File is too large ({megabytes}MB). Maximum allowed size is {MAX_MEGABYTES}MB."
    return messages.unfit(path, reason)
