"""The editor on files of a window: the same commands and words as in any other box."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import NamedTuple

from glovebox.box.files.disk.binary import is_binary, is_binary_name
from glovebox.box.files.disk.encoding import UTF8, Encodings, TextEncoding
from glovebox.box.files.disk.lines import line_end, raw_offset, shown, with_line_end
from glovebox.box.files.disk.workspace import SAMPLE_SIZE, normal
from glovebox.box.files.editor import convert, messages, text
from glovebox.box.files.editor.editor import MAX_MEGABYTES, Edited, EditorCommand
from glovebox.box.files.editor.history import History
from glovebox.box.files.editor.messages import BinaryFile, EditorError, MissingPath
from glovebox.box.threads import Threads
from glovebox.hub.window.content import ATTEMPTS, Loaded, Locks, TooMuch, create, load, replace
from glovebox.hub.window.directories import view_directory
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.window import PathInfo, Stat

_MOST_BYTES = MAX_MEGABYTES << 20
#: How much of earlier contents is kept for one window.
_HISTORY = 64 << 20
_CHANGES = ("str_replace", "insert", "undo_edit")


class _Text(NamedTuple):
    """A text file as it was found."""

    loaded: Loaded
    encoding: TextEncoding
    raw: str
    text: str


class WindowEditor:
    """Views, creates and changes files of a window, and remembers what they were.

    What the window refuses for reasons of its own is raised as it is (`OrderRefused`).
    """

    def __init__(self, hands: Hands, *, workspace: Callable[[], str], locks: Locks, threads: Threads) -> None:
        """`workspace`: where a relative path is looked for to suggest an absolute one."""
        self._hands = hands
        self._workspace = workspace
        self._locks = locks
        self._threads = threads
        self._encodings = Encodings()
        self._history = History(keep_bytes=_HISTORY)

    async def close(self) -> None:
        await self._threads.run(self._history.close)

    async def run(self, command: EditorCommand) -> Edited:
        """Carry out one command.

        Raises:
            MissingPath: nothing is at the path.
            EditorError: it could not be done; the text says why.
            Refused: the window says no.
            WindowError: the window cannot be asked.
        """
        path = normal(command.path)
        if command.command == "view":
            return await self.view(path, command.view_range)
        await self._expect_absolute(path)
        if command.command == "create":
            return await self._create(command, path)
        if command.command not in _CHANGES or convert.is_document(path):
            await self._expect_file(path)
            raise messages.unknown_command(command.command)
        async with self._locks.hold(path):
            for attempt in range(ATTEMPTS):
                try:
                    return await self._change(command, path)
                except OrderRefused as refused:
                    if refused.code != "changed_meanwhile" or attempt == ATTEMPTS - 1:
                        raise
        raise AssertionError("unreachable")

    async def view(self, path: str, view_range: object = None, *, text_only: bool = False) -> Edited:
        """A file's numbered lines, a document as Markdown, or a directory's tree.

        `text_only` refuses binary files before anything else is looked at, documents among them.

        Raises:
            BinaryFile: it is one.
            EditorError: it cannot be viewed; the text says why.
            Refused: the window says no.
            WindowError: the window cannot be asked.
        """
        path = normal(path)
        await self._expect_absolute(path)
        try:
            loaded = await self._load(path)
        except IsADirectoryError:
            if view_range:
                hint = "The `view_range` parameter is not allowed when `path` points to a directory."
                raise messages.invalid("view_range", view_range, hint) from None
            return Edited(await view_directory(self._hands, path), path)
        if text_only and is_binary(loaded.data[:SAMPLE_SIZE]):
            raise BinaryFile(path)
        if convert.is_document(path):
            return Edited(await self._threads.run(_converted, path, loaded.data), path)
        found = await self._threads.run(self._decoded, path, loaded)
        return Edited(text.view(found.text, path, view_range), path)

    async def _create(self, command: EditorCommand, path: str) -> Edited:
        if convert.is_document(path) or command.file_text is None:
            # What is there already is said first.
            if (await self._hands.do(Stat(path=path), PathInfo)).exists:
                raise messages.already_exists(path)
            _expect_no_document(path)
            raise messages.missing("file_text", command.command)
        try:
            data = UTF8.encode(command.file_text)
            async with self._locks.hold(path):
                await create(self._hands, path, data)
                await self._threads.run(self._history.push, path, data)
        except UnicodeEncodeError as error:
            raise messages.unwritable(path, error) from None
        except OrderRefused as refused:
            if refused.code in ("exists", "is_directory"):
                raise messages.already_exists(path) from None
            raise
        return Edited(f"File created successfully at: {path}", path, False, None, command.file_text)

    async def _change(self, command: EditorCommand, path: str) -> Edited:
        try:
            loaded = await self._load(path)
        except IsADirectoryError:
            raise _only_view(path) from None
        if command.command == "undo_edit":
            return await self._undo(path, loaded)
        found = await self._threads.run(self._decoded, path, loaded)
        if command.command == "insert":
            if command.insert_line is None:
                raise messages.missing("insert_line", command.command)
            if command.new_str is None:
                raise messages.missing("new_str", command.command)
            change = text.insertion(found.text, command.insert_line, command.new_str)
            after = shown(await self._apply(path, found, change))
            return Edited(text.inserted_text(after, change, path), path, True, found.text, after)
        if command.old_str is None:
            raise messages.missing("old_str", command.command)
        if command.new_str == command.old_str:
            hint = "No replacement was performed. `new_str` and `old_str` must be different."
            raise messages.invalid("new_str", command.new_str, hint)
        change = text.replacement(found.text, command.old_str, command.new_str or "", path)
        after = await self._apply(path, found, change)
        return Edited(text.replaced_text(shown(after), change, path), path, True, found.text, after)

    async def _undo(self, path: str, loaded: Loaded) -> Edited:
        found = await self._threads.run(self._decoded, path, loaded)
        data = await self._threads.run(self._history.last, path)
        if data is None:
            raise messages.no_history(path)
        before = await self._threads.run(self._decoded, path, Loaded(data, False))
        await replace(self._hands, path, data, loaded)
        await self._threads.run(self._history.drop_last, path)
        return Edited(text.undone_text(before.text, path), path, True, found.text, before.text)

    async def _apply(self, path: str, found: _Text, change: text.Change) -> str:
        """Put a change into the file, and return its text with the change as it was asked for.

        Lines that are not touched keep their ends, and new ones get those of the file.
        """
        after = raw = change.applied(found.text)
        if "\r" in found.raw:
            start, end = raw_offset(found.raw, change.start), raw_offset(found.raw, change.end)
            new = with_line_end(change.new, line_end(found.raw))
            raw = found.raw[:start] + new + found.raw[end:]
        try:
            data = found.encoding.encode(raw)
        except UnicodeEncodeError as error:
            raise messages.unwritable(path, error) from None
        await replace(self._hands, path, data, found.loaded)
        if found.encoding.codec != UTF8.codec:
            # What was a guess must not become another one because of the edit.
            self._encodings.remember(path, Loaded(data, False).status, found.encoding)
        await self._threads.run(self._history.push, path, found.loaded.data)
        return after

    async def _load(self, path: str) -> Loaded:
        """What a file holds.

        Raises:
            MissingPath: there is none.
            IsADirectoryError: it is a directory.
            EditorError: it is too large.
        """
        try:
            return await load(self._hands, path, _MOST_BYTES)
        except TooMuch as error:
            megabytes = error.size / 1024 / 1024
            reason = f"File is too large ({megabytes:.1f}MB). Maximum allowed size is {MAX_MEGABYTES}MB."
            raise messages.unfit(path, reason) from None
        except OrderRefused as refused:
            if refused.code in ("not_found", "not_directory"):
                raise MissingPath(path) from None
            if refused.code == "is_directory":
                raise IsADirectoryError(path) from None
            raise

    def _decoded(self, path: str, loaded: Loaded) -> _Text:
        """The text in a file. Blocks: an encoding may have to be guessed."""
        if is_binary_name(path) or is_binary(loaded.data[:SAMPLE_SIZE]):
            raise BinaryFile(path)
        try:
            raw, encoding = self._encodings.decode(path, loaded.status, loaded.data)
        except UnicodeDecodeError as error:
            raise messages.unreadable(path, error) from None
        return _Text(loaded, encoding, raw, shown(raw))

    async def _expect_absolute(self, path: str) -> None:
        if path.startswith("/"):
            return
        hint = "The path should be an absolute path, starting with `/`."
        suggestion = normal(f"{self._workspace().rstrip('/')}/{path}")
        try:
            if (await self._hands.do(Stat(path=suggestion), PathInfo)).exists:
                hint += f" Maybe you meant {suggestion}?"
        except OrderRefused:
            pass  # then there is nothing to suggest
        raise messages.invalid("path", path, hint)

    async def _expect_file(self, path: str) -> None:
        """Something is there, and it may be changed."""
        found = await self._hands.do(Stat(path=path), PathInfo)
        if not found.exists:
            raise MissingPath(path)
        if found.type == "directory":
            raise _only_view(path)
        _expect_no_document(path)


def _only_view(path: str) -> EditorError:
    hint = f"The path {path} is a directory and only the `view` command can be used on directories."
    return messages.invalid("path", path, hint)


def _expect_no_document(path: str) -> None:
    if convert.is_document(path):
        suffix = os.path.splitext(path)[1]
        hint = (
            f"The path {path} points to a binary file ({suffix}) and only the `view` command can be used on "
            "supported binary files."
        )
        raise messages.invalid("path", path, hint)


def _converted(path: str, data: bytes) -> str:
    """A document as Markdown; what converts it wants a file. Blocks."""
    with tempfile.NamedTemporaryFile(suffix=os.path.splitext(path)[1], prefix="glovebox-") as file:
        file.write(data)
        file.flush()
        try:
            return text.converted(path, convert.to_markdown(file.name))
        except convert.ConversionError as error:
            raise EditorError(
                f"Error in converting file to Markdown: {error}. Please use Python code to read {path}"
            ) from None
