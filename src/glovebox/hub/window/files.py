"""The `read`, `write` and `edit` actions on files of a window."""

from __future__ import annotations

from glovebox.box.executor import Call, Handler
from glovebox.box.files.actions.reader import data_url, media_type
from glovebox.box.files.disk.binary import BINARY_FILE, is_binary, is_binary_name
from glovebox.box.files.disk.lines import cut, shown, splice
from glovebox.box.files.disk.workspace import SAMPLE_SIZE, resolve
from glovebox.box.files.editor.diff import unified
from glovebox.box.files.editor.editor import EditorCommand
from glovebox.box.files.editor.messages import BinaryFile, EditorError, MissingPath, line_number
from glovebox.box.threads import Threads
from glovebox.errors import ActionError
from glovebox.hub.window.content import ATTEMPTS, Locks, TooMuch, create, load, replace
from glovebox.hub.window.editor import WindowEditor
from glovebox.hub.window.terminal import WindowTerminal
from glovebox.hub.window_client import Hands, OrderRefused
from glovebox.protocol.actions import FileEditAction, FileReadAction, FileWriteAction
from glovebox.protocol.observations import (
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
)

_EDITOR = "oh_aci"
_SHOWN = "shown"


class WindowFiles:
    """Carries out file actions.

    They do not wait for the shell. Only before an answer says that a file is missing, the commands that were
    accepted earlier get the time to make it.
    """

    def __init__(self, hands: Hands, *, terminal: WindowTerminal, threads: Threads) -> None:
        self._hands = hands
        self._shell = terminal
        self._threads = threads
        self._locks = Locks()
        self._editor = WindowEditor(
            hands, workspace=lambda: terminal.workspace, locks=self._locks, threads=threads
        )

    def handlers(self) -> list[Handler]:
        return [self.read, self.write, self.edit]

    async def close(self) -> None:
        """Forget the history of edits."""
        await self._editor.close()

    async def read(self, action: FileReadAction, call: Call) -> FileReadObservation | ErrorObservation:
        """Read a file: its lines, or what the editor's `view` makes of it."""
        if is_binary_name(action.path):
            return ErrorObservation(content=BINARY_FILE)
        try:
            if action.impl_source == _EDITOR:
                return await self._view(action)
            answer = await self._read(action)
            if answer is None:
                await self._shell.settled()
                answer = await self._read(action)
        except OrderRefused as refused:
            return refusal(refused)
        if answer is None:
            cwd = self._shell.cwd
            path = resolve(action.path, cwd)
            return ErrorObservation(
                content=f"File not found: {path}. Your current working directory is {cwd}."
            )
        return answer

    async def write(self, action: FileWriteAction, call: Call) -> FileWriteObservation | ErrorObservation:
        """Write lines into a file."""
        path = resolve(action.path, self._shell.cwd)
        async with self._locks.hold(path):
            for _ in range(ATTEMPTS):
                try:
                    problem = await self._write(path, action)
                except OrderRefused as refused:
                    answer = refusal(refused)
                    if refused.code not in ("changed_meanwhile", "exists"):
                        break
                else:
                    return ErrorObservation(content=problem) if problem else FileWriteObservation(path=path)
        return answer

    async def edit(self, action: FileEditAction, call: Call) -> FileEditObservation | ErrorObservation:
        """Carry out a command of the editor."""
        if action.impl_source != _EDITOR:
            raise ActionError("")  # the contract has no words for it
        try:
            content, diff = await self._edit(action)
        except EditorError as error:
            content, diff = _error(error), ""
        except OrderRefused as refused:
            return refusal(refused)
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
        media = media_type(path)
        # The contract tests what it can open without asking the shell. Of other files, pictures are shown,
        # and to tools they are shown by any path.
        test_binary = action.path.startswith("/") and not (action.impl_source == _SHOWN and media)
        try:
            data = (await load(self._hands, path)).data
        except TooMuch as error:
            return ErrorObservation(
                content=f"{path} is too large to be read at once: {error} Read a part of it, for example "
                "with sed -n '1,200p'."
            )
        except OrderRefused as refused:
            if refused.code in ("not_found", "not_directory"):
                return None
            if refused.code == "is_directory":
                return ErrorObservation(content=f"Path is a directory: {path}. You can only read files")
            raise
        if test_binary and is_binary(data[:SAMPLE_SIZE]):
            return ErrorObservation(content=BINARY_FILE)
        if media is not None:
            return FileReadObservation(content=data_url(media, [data]), path=path)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return ErrorObservation(content=f"File could not be decoded as utf-8: {path}.")
        return FileReadObservation(content=cut(shown(text), action.start, action.end), path=path)

    async def _view(self, action: FileReadAction) -> FileReadObservation | ErrorObservation:
        try:
            try:
                edited = await self._editor.view(action.path, action.view_range, text_only=True)
            except MissingPath:
                await self._shell.settled()
                edited = await self._editor.view(action.path, action.view_range, text_only=True)
        except BinaryFile:
            return ErrorObservation(content=BINARY_FILE)
        except EditorError as error:
            content = _error(error)
        else:
            content = edited.output
        return FileReadObservation(content=content, path=action.path, impl_source=_EDITOR)

    async def _write(self, path: str, action: FileWriteAction) -> str:
        """Put lines into a file, making it where it is missing; why not, if it will not do."""
        try:
            before = await load(self._hands, path)
        except TooMuch as error:
            return f"{path} is too large to be written in part: {error}"
        except OrderRefused as refused:
            if refused.code == "is_directory":
                return f"Path is a directory: {path}. You can only write to files"
            if refused.code != "not_found":
                raise
            await create(self._hands, path, (action.content + "\n").encode())
            return ""
        try:
            text = splice(before.data.decode(), action.content, action.start, action.end)
        except UnicodeDecodeError:
            return f"File could not be decoded as utf-8: {path}"
        await replace(self._hands, path, text.encode(), before)
        return ""

    async def _edit(self, action: FileEditAction) -> tuple[str, str]:
        """The editor's answer and the diff of what it did."""
        command = EditorCommand(
            command=str(action.command),
            path=action.path,
            file_text=action.file_text,
            old_str=action.old_str,
            new_str=action.new_str,
            insert_line=line_number(action.insert_line),
        )
        try:
            edited = await self._editor.run(command)
        except MissingPath:
            await self._shell.settled()
            edited = await self._editor.run(command)
        old, new = edited.old_content or "", edited.new_content or ""
        return edited.output, await self._threads.run(unified, old, new, command.path)


def refusal(refused: OrderRefused) -> ErrorObservation:
    """What an agent is told that can go on."""
    return ErrorObservation(content=str(refused), error_id=refused.code)


def _error(error: EditorError) -> str:
    return f"ERROR:\n{error}"
