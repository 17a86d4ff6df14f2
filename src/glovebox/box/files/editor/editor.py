"""The editor: carries out one command on one file, and reports in the contract's words."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any, NamedTuple

from glovebox.box.credentials import own_rights
from glovebox.box.files.disk import atomic
from glovebox.box.files.disk.binary import is_binary, is_binary_name
from glovebox.box.files.disk.encoding import UTF8, Encodings, TextEncoding
from glovebox.box.files.disk.lines import line_end, raw_offset, shown, with_line_end
from glovebox.box.files.disk.locks import PathLocks
from glovebox.box.files.disk.workspace import FileSource, normal
from glovebox.box.files.editor import convert, messages, text
from glovebox.box.files.editor.directory_view import view_directory
from glovebox.box.files.editor.history import History
from glovebox.box.files.editor.messages import BinaryFile, EditorError, MissingPath

#: Larger files are not opened.
MAX_MEGABYTES = 10


class EditorCommand(NamedTuple):
    """What the editor is asked to do."""

    command: str
    path: str
    file_text: str | None = None
    view_range: Any = None
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | None = None


class Edited(NamedTuple):
    """What a command came to; contents are there when it was one that changes files."""

    output: str
    path: str
    prev_exist: bool = True
    old_content: str | None = None
    new_content: str | None = None


class _Loaded(NamedTuple):
    """A text file as it was found."""

    data: bytes
    status: os.stat_result
    encoding: TextEncoding
    raw: str
    text: str


class Editor:
    """Views, creates and changes files, and remembers what they were.

    Blocking, and safe to use from several threads. `working_dir` is where a relative path is looked for to
    suggest an absolute one. New files go to `owner` if this process may give files away.
    """

    def __init__(
        self, *, working_dir: str | None, owner: int | None = None, locks: PathLocks | None = None
    ) -> None:
        self._working_dir = working_dir
        self._owner = owner
        self._locks = PathLocks() if locks is None else locks
        self._encodings = Encodings()
        self._history = History()
        self._changes: dict[str, Callable[[EditorCommand, str, str], Edited]] = {
            "str_replace": self._str_replace,
            "insert": self._insert,
            "undo_edit": self._undo,
        }

    def close(self) -> None:
        self._history.close()

    def run(self, command: EditorCommand) -> Edited:
        """Carry out one command.

        Raises:
            MissingPath: nothing is at the path.
            EditorError: it could not be done; the text says why.
        """
        path = normal(command.path)
        self._expect_absolute(path)
        if command.command == "view":
            return self.view(path, command.view_range)
        if command.command == "create":
            return self._create(command, path)
        _expect_file(path)
        change = self._changes.get(command.command)
        if change is None:
            raise messages.unknown_command(command.command)
        real = os.path.realpath(path)
        with self._locks.hold(real):
            return change(command, path, real)

    def view(self, path: str, view_range: Any = None, *, text_only: bool = False) -> Edited:
        """A file's numbered lines, a document as Markdown, or a directory's tree.

        `text_only` refuses binary files before anything else is looked at, documents among them.

        Raises:
            BinaryFile: it is one.
            EditorError: it cannot be viewed; the text says why.
        """
        path = normal(path)
        self._expect_absolute(path)
        try:
            with FileSource(path) as source:
                if not stat.S_ISDIR(source.status.st_mode):
                    return self._view_file(path, source, view_range, text_only=text_only)
        except (OSError, ValueError) as error:
            if not isinstance(error, PermissionError) and not os.path.exists(path):
                raise MissingPath(path) from None
            if not os.path.isdir(path):
                raise messages.unreadable(path, error) from None
        if view_range:
            hint = "The `view_range` parameter is not allowed when `path` points to a directory."
            raise messages.invalid("view_range", view_range, hint)
        return Edited(view_directory(path), path)

    def _view_file(self, path: str, source: FileSource, view_range: Any, *, text_only: bool) -> Edited:
        if text_only and stat.S_ISREG(source.status.st_mode) and _is_binary(source):
            raise BinaryFile(path)
        if convert.is_document(path):
            _expect_fitting(path, source.status)
            try:
                return Edited(text.converted(path, convert.to_markdown(path)), path)
            except convert.ConversionError as error:
                raise EditorError(
                    f"Error in converting file to Markdown: {error}. Please use Python code to read {path}"
                ) from None
        return Edited(text.view(self._decoded(path, source).text, path, view_range), path)

    def _create(self, command: EditorCommand, path: str) -> Edited:
        if os.path.exists(path):
            raise messages.already_exists(path)
        _expect_no_document(path)
        if command.file_text is None:
            raise messages.missing("file_text", command.command)
        try:
            data = UTF8.encode(command.file_text)
            real = os.path.realpath(path)
            with self._locks.hold(real):
                if os.path.islink(real):
                    os.stat(path)  # links in a circle, which this says
                owner = self._owner if os.geteuid() == 0 else None
                atomic.create(path, data, real=real, mode=None, owner=owner, exclusive=True)
                self._history.push(path, data)
        except FileExistsError:
            raise messages.already_exists(path) from None
        except (OSError, ValueError) as error:
            raise messages.unwritable(path, error) from None
        return Edited(f"File created successfully at: {path}", path, False, None, command.file_text)

    def _str_replace(self, command: EditorCommand, path: str, real: str) -> Edited:
        old, new = command.old_str, command.new_str
        if old is None:
            raise messages.missing("old_str", command.command)
        if new == old:
            hint = "No replacement was performed. `new_str` and `old_str` must be different."
            raise messages.invalid("new_str", new, hint)
        loaded = self._load(path)
        change = text.replacement(loaded.text, old, new or "", path)
        after = self._apply(path, real, loaded, change)
        return Edited(text.replaced_text(shown(after), change, path), path, True, loaded.text, after)

    def _insert(self, command: EditorCommand, path: str, real: str) -> Edited:
        if command.insert_line is None:
            raise messages.missing("insert_line", command.command)
        if command.new_str is None:
            raise messages.missing("new_str", command.command)
        loaded = self._load(path)
        change = text.insertion(loaded.text, command.insert_line, command.new_str)
        after = shown(self._apply(path, real, loaded, change))
        return Edited(text.inserted_text(after, change, path), path, True, loaded.text, after)

    def _undo(self, command: EditorCommand, path: str, real: str) -> Edited:
        loaded = self._load(path)
        data = self._history.last(path)
        if data is None:
            raise messages.no_history(path)
        raw, encoding = self._decode(path, loaded.status, data)
        self._replace(path, real, loaded, data, encoding)
        self._history.drop_last(path)
        before = shown(raw)
        return Edited(text.undone_text(before, path), path, True, loaded.text, before)

    def _apply(self, path: str, real: str, loaded: _Loaded, change: text.Change) -> str:
        """Put a change into the file, and return its text with the change as it was asked for.

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
        self._replace(path, real, loaded, data, loaded.encoding)
        self._history.push(path, loaded.data)
        return after

    def _replace(self, path: str, real: str, loaded: _Loaded, data: bytes, encoding: TextEncoding) -> None:
        try:
            atomic.replace(path, data, real=real, status=loaded.status, previous=loaded.data)
            if encoding.codec != UTF8.codec:
                # What was a guess must not become another one because of the edit.
                self._encodings.remember(path, os.stat(path), encoding)
        except OSError as error:
            raise messages.unwritable(path, error) from None

    def _load(self, path: str) -> _Loaded:
        try:
            with FileSource(path) as source:
                return self._decoded(path, source)
        except OSError as error:
            raise messages.unreadable(path, error) from None

    def _decoded(self, path: str, source: FileSource) -> _Loaded:
        status = source.status
        _expect_fitting(path, status)
        if is_binary_name(path) or _is_binary(source):
            raise BinaryFile(path)
        data = source.content(MAX_MEGABYTES << 20)
        if data is None:  # it has grown, or is one of /proc, which say they have no size
            raise _too_large(path, f"more than {MAX_MEGABYTES}")
        raw, encoding = self._decode(path, status, data)
        return _Loaded(data, status, encoding, raw, shown(raw))

    def _decode(self, path: str, status: os.stat_result, data: bytes) -> tuple[str, TextEncoding]:
        try:
            with own_rights():  # codecs are modules, imported when they are first used
                return self._encodings.decode(path, status, data)
        except UnicodeDecodeError as error:
            raise messages.unreadable(path, error) from None

    def _expect_absolute(self, path: str) -> None:
        if path.startswith("/"):
            return
        hint = "The path should be an absolute path, starting with `/`."
        if self._working_dir is not None:
            suggestion = normal(f"{self._working_dir.rstrip('/')}/{path}")
            if os.path.exists(suggestion):
                hint += f" Maybe you meant {suggestion}?"
        raise messages.invalid("path", path, hint)


def _is_binary(source: FileSource) -> bool:
    sample = source.sample()
    with own_rights():  # what guesses encodings is imported when it is first used
        return is_binary(sample)


def _expect_file(path: str) -> None:
    """Something is there, and it may be changed."""
    try:
        mode = os.stat(path).st_mode
    except PermissionError as error:
        raise messages.unreadable(path, error) from None
    except (OSError, ValueError):
        raise MissingPath(path) from None
    if stat.S_ISDIR(mode):
        hint = f"The path {path} is a directory and only the `view` command can be used on directories."
        raise messages.invalid("path", path, hint)
    _expect_no_document(path)


def _expect_no_document(path: str) -> None:
    if convert.is_document(path):
        suffix = os.path.splitext(path)[1]
        hint = (
            f"The path {path} points to a binary file ({suffix}) and only the `view` command can be used on "
            "supported binary files."
        )
        raise messages.invalid("path", path, hint)


def _expect_fitting(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise messages.unfit(path, "It is not a regular file and cannot be read or edited by this tool.")
    megabytes = status.st_size / 1024 / 1024
    if megabytes > MAX_MEGABYTES:
        raise _too_large(path, f"{megabytes:.1f}")


def _too_large(path: str, megabytes: str) -> EditorError:
    reason = f"File is too large ({megabytes}MB). Maximum allowed size is {MAX_MEGABYTES}MB."
    return messages.unfit(path, reason)
