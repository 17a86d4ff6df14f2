"""Edits that a model completes: an agent drafts the change, and the model writes the lines.

The caller provides the model: a function from chat messages to the text of its answer.
"""

from __future__ import annotations

import asyncio
import difflib
import heapq
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypedDict

from glovebox.client.runtime import Runtime
from glovebox.integrations.openhands.lint import Lint, LintError, diff, lint_failure
from glovebox.protocol.actions import FileEditAction, FileReadAction, FileWriteAction
from glovebox.protocol.base import Message, Unchecked
from glovebox.protocol.observations import ErrorObservation, FileEditObservation

LLM_BASED_EDIT = "llm_based_edit"
MOST_LINES = 300
TRIES = 3
FAILED = "Failed to get new file contents. Please try to reduce the number of edits and try again."
_CHUNK = 20
_SNIPPETS = 3
_CANDIDATES = 12
_CODE = re.compile(r"<updated_code>(.*)</updated_code>", re.DOTALL)
_SYSTEM = """\
You complete edits of files. You are given lines of a file, and a draft of how they should be. The draft may
leave out parts that stay as they are, with a comment in their place. Write the lines in full as they are
after the edit: nothing is left out, nothing that the draft does not change is changed, and indentation is
kept. Answer with these lines between <updated_code> and </updated_code>, and with nothing else."""


class ChatMessage(TypedDict):
    """A message to a model."""

    role: Literal["system", "user", "assistant"]
    content: str


Draft = Callable[[list[ChatMessage]], Awaitable[str]]


class _Range(Message):
    """The lines of a file that are edited: counted from 0, `stop` excluded."""

    lines: list[str]
    start: int
    stop: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines[self.start : self.stop])

    def replaced(self, new: Sequence[str]) -> str:
        """The text of the whole file with other lines in this range."""
        return "\n".join([*self.lines[: self.start], *new, *self.lines[self.stop :]])


async def edit_with_draft(
    box: Runtime, action: FileEditAction, draft: Draft, *, lint: Lint | None = None
) -> FileEditObservation | ErrorObservation:
    """Edit lines of a file as drafted in the action, or create the file.

    `lint` (for example `lint.lint_python`) checks the model's answer. If it finds errors, the model is asked
    again, up to `TRIES` times in all. A file with errors is not written.
    """
    path = action.path
    read = await box.execute(FileReadAction(path=path))
    if isinstance(read, ErrorObservation):
        if "file not found" not in read.content.lower():
            return read
        return await _create(box, path, str(action.content).strip())
    if read.content.startswith("data:") and ";base64," in read.content[:100]:
        return ErrorObservation(content="ERROR_BINARY_FILE")
    old = read.content
    lines = old.split("\n")
    start, end = action.start, action.end
    if problem := _range_problem(start, end, len(lines)):
        return ErrorObservation(content=problem)
    if start == -1:
        return await _append(box, path, old, str(action.content), lint)
    chosen = _Range(lines=lines, start=start - 1, stop=len(lines) if end == -1 else end)
    if chosen.stop - chosen.start > MOST_LINES + 1:
        return ErrorObservation(content=await asyncio.to_thread(_too_long, path, chosen, str(action.content)))
    new = await _ask_model(path, old, chosen, str(action.content), draft, lint)
    if isinstance(new, ErrorObservation):
        return new
    return await _write(box, path, old, new)


async def _create(box: Runtime, path: str, content: str) -> FileEditObservation | ErrorObservation:
    written = await box.execute(FileWriteAction(path=path, content=content))
    if isinstance(written, ErrorObservation):
        return written
    return _observation(path, "", content, existed=False)


async def _append(
    box: Runtime, path: str, old: str, content: str, lint: Lint | None
) -> FileEditObservation | ErrorObservation:
    glue = "" if not old or old.endswith("\n") else "\n"
    new = old + glue + content
    if lint is not None and (errors := await lint(path, old, new)):
        return ErrorObservation(content=lint_failure(path, old, new, errors))
    return await _write(box, path, old, new)


async def _write(box: Runtime, path: str, old: str, new: str) -> FileEditObservation | ErrorObservation:
    now = await box.execute(FileReadAction(path=path))
    if isinstance(now, ErrorObservation) or now.content != old:
        return ErrorObservation(
            content=f"{path} was changed while the edit was made, and the edit is not applied. Read it again."
        )
    change = changed_lines(old, new)
    if change is None:
        return _observation(path, old, old, existed=True)
    written = await box.execute(
        FileWriteAction(path=path, content=change.content, start=change.start, end=change.end)
    )
    if isinstance(written, ErrorObservation):
        return written
    return _observation(path, old, change.result, existed=True)


def _observation(path: str, old: str, new: str, *, existed: bool) -> FileEditObservation:
    return FileEditObservation(
        content=diff(old, new, path),
        path=path,
        prev_exist=existed,
        old_content=old,
        new_content=new,
        impl_source=LLM_BASED_EDIT,
    )


class _Change(Message):
    """Lines that replace others, and the resulting text of the file."""

    content: str
    start: int
    end: int
    result: str


def changed_lines(old: str, new: str) -> _Change | None:
    """The lines to write to turn one text into another; None if they are equal.

    Only lines that differ are written, so that a file keeps its line ends. At least one line is written, and
    always with a line end: if lines are only removed, a neighbour is written again.
    """
    before, after = _lines(old), _lines(new)
    if before == after:
        return None
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    shorter -= head
    tail = next((at for at in range(shorter) if before[-1 - at] != after[-1 - at]), shorter)
    unended = bool(old) and not old.endswith("\n")
    if head and (head + tail == len(after) or (unended and head == len(before))):
        head -= 1
    elif tail and head + tail == len(after):
        tail -= 1
    return _Change(
        content="\n".join(after[head : len(after) - tail]),
        start=head,
        end=len(before) - tail,
        result="\n".join(after) + ("" if tail and unended else "\n"),
    )


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


async def _ask_model(
    path: str, old: str, chosen: _Range, wanted: str, draft: Draft, lint: Lint | None
) -> str | ErrorObservation:
    """The new text of the file."""
    messages = _question(path, chosen, wanted)
    failure = FAILED
    for _ in range(TRIES):
        answer = await draft(list(messages))
        code = extract_code(answer)
        if code is None:
            continue
        new = chosen.replaced(code)
        errors = [] if lint is None else await lint(path, old, new)
        if not errors:
            return new
        failure = lint_failure(path, old, new, errors)
        messages = [*_question(path, chosen, wanted), *_correction(answer, errors)]
    return ErrorObservation(content=failure)


def _question(path: str, chosen: _Range, wanted: str) -> list[ChatMessage]:
    return [
        {"role": "system", "content": _SYSTEM},
        {
            "role": "user",
            "content": f"The file is {path}. Its lines:\n<original_code>\n{chosen.text}\n</original_code>\n"
            f"The draft:\n<draft>\n{wanted}\n</draft>",
        },
    ]


def _correction(answer: str, errors: list[LintError]) -> list[ChatMessage]:
    found = "\n".join(f"Line {error.line} of the file: {error.message}" for error in errors)
    return [
        {"role": "assistant", "content": answer},
        {
            "role": "user",
            "content": f"The file would have mistakes then:\n{found}\nWrite the lines again without them.",
        },
    ]


def extract_code(answer: str) -> list[str] | None:
    """The lines in a model's answer; None if it has none."""
    match = _CODE.search(answer)
    if match is None:
        return None
    code = match[1].replace("\r\n", "\n").removeprefix("\n").removesuffix("\n")
    return code.split("\n") if code else []


def _range_problem(start: Unchecked, end: Unchecked, total: int) -> str | None:
    about = f"Invalid range for editing: start={start}, end={end}, total lines={total}."
    if not isinstance(start, int) or (start != -1 and not 1 <= start <= total):
        return (
            f"{about} start must be >= 1 and <={total} (total lines of the edited file), start <= end, "
            "or start == -1 (append to the end of the file)."
        )
    if not isinstance(end, int) or (end != -1 and (not 1 <= end <= total or end < start)):
        return (
            f"{about} end must be >= 1 and <= {total} (total lines of the edited file), end >= start, "
            "or end == -1 (to edit till the end of the file)."
        )
    return None


def _too_long(path: str, chosen: _Range, wanted: str) -> str:
    count = chosen.stop - chosen.start
    text = (
        "[Edit error: The range of lines to edit is too long.]\n"
        f"[The maximum number of lines allowed to edit at once is {MOST_LINES}. "
        f"Got (L{chosen.start + 1}-L{chosen.stop}) {count} lines.]\n"
        "Here are some snippets that maybe relevant to the provided edit.\n"
    )
    for number, (first, lines, score) in enumerate(_snippets(chosen.lines, wanted), 1):
        last = first + len(lines) - 1
        shown = "".join(f"{at}|{line}\n" for at, line in enumerate(lines, first))
        text += (
            f"[begin relevant snippet {number}. Line range: L{first}-L{last}. Similarity: {score:.2f}]\n"
            f'[Browse around it via `open_file("{path}", {(first + last) // 2})`]\n'
            f"{shown}[end relevant snippet {number}]\n{'-' * 40}\n"
        )
    return (
        f"{text}Consider using `open_file` to explore around the relevant snippets if needed.\n"
        f"**IMPORTANT**: Please REDUCE the range of edits to less than {MOST_LINES} lines by setting `start` "
        f'and `end` in the edit action (e.g. `<file_edit path="{path}" start=[PUT LINE NUMBER HERE] '
        "end=[PUT LINE NUMBER HERE] />`). "
    )


def _snippets(lines: list[str], wanted: str) -> list[tuple[int, list[str], float]]:
    """The parts of a file that resemble a text most: first line number, lines, similarity."""
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)

    def likeness(chunk: tuple[int, list[str]], *, exact: bool) -> float:
        matcher.set_seq1("\n".join(chunk[1]))
        return matcher.ratio() if exact else matcher.quick_ratio()

    chunks = [(first + 1, lines[first : first + _CHUNK]) for first in range(0, len(lines), _CHUNK)]
    likely = heapq.nlargest(_CANDIDATES, chunks, key=lambda chunk: likeness(chunk, exact=False))
    scored = [(first, found, likeness((first, found), exact=True)) for first, found in likely]
    return sorted(scored, key=lambda snippet: -snippet[2])[:_SNIPPETS]
