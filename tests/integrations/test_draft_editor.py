from __future__ import annotations

from pathlib import Path

import pytest

from glovebox.integrations.openhands.draft_editor import FAILED, ChatMessage, edit_with_draft
from glovebox.integrations.openhands.lint import LintError, lint_failure, lint_python
from glovebox.protocol.actions import FileEditAction
from glovebox.protocol.observations import ErrorObservation, FileEditObservation
from tests.client.asked import connected
from tests.support.running import RunningBox


class Model:
    """Answers what it was told to answer, and remembers what it was asked."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[list[ChatMessage]] = []

    async def __call__(self, messages: list[ChatMessage]) -> str:
        self.asked.append(messages)
        return self._answers.pop(0)


def code(text: str) -> str:
    return f"Here it is:\n<updated_code>\n{text}\n</updated_code>"


def action(path: Path, content: str, start: int = 1, end: int = -1) -> FileEditAction:
    return FileEditAction(path=str(path), content=content, start=start, end=end, impl_source="llm_based_edit")


async def edited(
    box: RunningBox, wanted: FileEditAction, *answers: str, lint: bool = False
) -> FileEditObservation:
    async with connected(box) as runtime:
        observation = await edit_with_draft(
            runtime, wanted, Model(*answers), lint=lint_python if lint else None
        )
    assert isinstance(observation, FileEditObservation), observation
    return observation


async def refused(box: RunningBox, wanted: FileEditAction, *answers: str, lint: bool = False) -> str:
    async with connected(box) as runtime:
        observation = await edit_with_draft(
            runtime, wanted, Model(*answers), lint=lint_python if lint else None
        )
    assert isinstance(observation, ErrorObservation), observation
    return observation.content


async def test_a_file_that_is_not_there_is_made_of_the_draft(shared_box: RunningBox, tmp_path: Path) -> None:
    path = tmp_path / "new.py"
    observation = await edited(shared_box, action(path, "\nprint(1)\n"))
    assert path.read_text() == "print(1)\n"
    assert not observation.prev_exist
    assert (observation.old_content, observation.new_content) == ("", "print(1)")
    assert observation.impl_source == "llm_based_edit"
    assert observation.diff is None
    assert observation.content == f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-\n+print(1)"


CASES = {
    "in the middle": ("a\nb\nc\n", 2, 2, "B1\nB2", "a\nB1\nB2\nc\n"),
    "all": ("a\nb\n", 1, -1, "x\ny\n", "x\ny\n"),
    "the last line": ("a\nb\nc\n", 3, 3, "C", "a\nb\nC\n"),
    "to the end": ("a\nb\nc\n", 2, -1, "B", "a\nB\n"),
    "removed": ("a\nb\nc\n", 2, 2, "", "a\nc\n"),
    "removed at the top": ("a\nb\nc\n", 1, 2, "", "c\n"),
    "put before": ("a\nb\n", 1, 1, "0\na", "0\na\nb\n"),
    "no end of line, elsewhere": ("a\nb", 1, 1, "A", "A\nb"),
    "no end of line, there": ("a\nb", 2, 2, "b\nc", "a\nb\nc\n"),
    "repeated": ("x\nx\nx\n", 2, 2, "x\nx", "x\nx\nx\nx\n"),
    "empty": ("", 1, -1, "a", "a\n"),
    "ends of lines stay": ("a\r\nb\r\nc\r\n", 1, -1, "A\nb\nC\n", "A\r\nb\r\nC\r\n"),
    "nothing": ("a\nb\n", 1, 1, "a", "a\nb\n"),
}


@pytest.mark.parametrize("case", CASES)
async def test_lines_are_replaced_and_no_others_are_touched(
    shared_box: RunningBox, tmp_path: Path, case: str
) -> None:
    old, start, end, answer, new = CASES[case]
    path = tmp_path / "file"
    path.write_bytes(old.encode())
    observation = await edited(shared_box, action(path, "draft", start, end), code(answer))
    assert path.read_bytes().decode() == new
    assert observation.prev_exist
    assert observation.new_content == new.replace("\r\n", "\n")
    assert observation.old_content == old.replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("old", "new"), [("a\n", "a\nb\nc\n"), ("a", "a\nb\nc\n"), ("", "b\nc\n"), ("a\r\n", "a\r\nb\r\nc\r\n")]
)
async def test_a_draft_is_appended_as_it_is(
    shared_box: RunningBox, tmp_path: Path, old: str, new: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(old.encode())
    await edited(shared_box, action(path, "b\nc", start=-1))
    assert path.read_bytes().decode() == new


async def test_the_model_sees_the_lines_and_the_draft_and_is_asked_three_times(
    shared_box: RunningBox, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_text("one\ntwo\nthree\n")
    model = Model("no code", "none either", code("TWO"))
    async with connected(shared_box) as runtime:
        await edit_with_draft(runtime, action(path, "make it loud", 2, 2), model)
        assert path.read_text() == "one\nTWO\nthree\n"
        failed = await edit_with_draft(runtime, action(path, "x"), Model("a", "b", "c", code("never")))
    assert len(model.asked) == 3
    text = model.asked[0][-1]["content"]
    assert "\nTWO\n" not in text
    assert "\ntwo\n" in text
    assert "three" not in text
    assert "make it loud" in text
    assert isinstance(failed, ErrorObservation)
    assert failed.content == FAILED


async def test_ranges_that_are_none(shared_box: RunningBox, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a\nb\n")
    assert await refused(shared_box, action(path, "x", 4, 5)) == (
        "Invalid range for editing: start=4, end=5, total lines=3. start must be >= 1 and <=3 (total lines "
        "of the edited file), start <= end, or start == -1 (append to the end of the file)."
    )
    assert await refused(shared_box, action(path, "x", 2, 1)) == (
        "Invalid range for editing: start=2, end=1, total lines=3. end must be >= 1 and <= 3 (total lines of "
        "the edited file), end >= start, or end == -1 (to edit till the end of the file)."
    )
    assert "start must be" in await refused(shared_box, action(path, "x", 0))
    assert "end must be" in await refused(shared_box, action(path, "x", 1, 4))


async def test_too_many_lines_are_answered_with_where_to_look(shared_box: RunningBox, tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    lines = [f"value_{number} = {number}" for number in range(400)]
    lines[105] = "def the_one_that_is_meant(argument): return argument"
    path.write_text("\n".join(lines))
    told = await refused(shared_box, action(path, "def the_one_that_is_meant(argument): return argument + 1"))
    assert told.startswith(
        "[Edit error: The range of lines to edit is too long.]\n"
        "[The maximum number of lines allowed to edit at once is 300. Got (L1-L400) 400 lines.]\n"
        "Here are some snippets that maybe relevant to the provided edit.\n"
        "[begin relevant snippet 1. Line range: L101-L120. Similarity: "
    )
    assert f'[Browse around it via `open_file("{path}", 110)`]\n101|value_100 = 100\n' in told
    assert told.count("[end relevant snippet ") == 3
    assert told.endswith("end=[PUT LINE NUMBER HERE] />`). ")
    await edited(shared_box, action(path, "x", 100, 400), code("done"))
    assert path.read_text().count("\n") == 100


async def test_what_cannot_be_read_is_not_edited(shared_box: RunningBox, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\0\xff" * 100)
    (tmp_path / "picture.svg.png").write_text("only text")
    assert await refused(shared_box, action(tmp_path / "binary", "x")) == "ERROR_BINARY_FILE"
    assert await refused(shared_box, action(tmp_path / "picture.svg.png", "x")) == "ERROR_BINARY_FILE"
    assert "directory" in await refused(shared_box, action(tmp_path, "x"))


async def test_a_file_that_changed_meanwhile_is_left_alone(shared_box: RunningBox, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a\n")

    async def slow(messages: list[ChatMessage]) -> str:
        path.write_text("by somebody else\n")
        return code("b")

    async with connected(shared_box) as runtime:
        observation = await edit_with_draft(runtime, action(path, "x", 1, 1), slow)
    assert isinstance(observation, ErrorObservation)
    assert "was changed while the edit was made" in observation.content
    assert path.read_text() == "by somebody else\n"


async def test_mistakes_are_sent_back_to_the_model(shared_box: RunningBox, tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text("a = 1\nb = 2\n")
    model = Model(code("b = ("), code("b = 3"))
    async with connected(shared_box) as runtime:
        await edit_with_draft(runtime, action(path, "x", 2, 2), model, lint=lint_python)
    assert path.read_text() == "a = 1\nb = 3\n"
    roles = [message["role"] for message in model.asked[1]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "was never closed" in model.asked[1][-1]["content"]


async def test_mistakes_that_stay_are_told_and_not_written(shared_box: RunningBox, tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text("a = 1\nb = 2\n")
    told = await refused(shared_box, action(path, "x", 2, 2), *[code("b = (")] * 3, lint=True)
    assert told == (
        f"\n[Linting failed for edited file {path}. 1 lint errors found.]\n[begin attempted changes]\n"
        f"[Changes are NOT applied to {path} - Here's how the file looks like if changes are applied.]\n"
        "[begin of ATTEMPTED edit 1 / 1]\n(content before ATTEMPTED edit)\n 1|a = 1\n-2|b = 2\n 3|\n"
        "(content after ATTEMPTED edit)\n 1|a = 1\n+2|b = (\n 3|\n[end of ATTEMPTED edit 1 / 1]\n"
        f"[end attempted changes]\n{'-' * 40}\n{'-' * 20}First 5 lint errors{'-' * 20}\n"
        "[begin lint error 0]\nLine 2, column 5: '(' was never closed\n1|a = 1\n2|b = (\n3|\n"
        f"[end lint error 0]\n{'-' * 40}\n"
    )
    assert path.read_text() == "a = 1\nb = 2\n"
    assert "was never closed" in await refused(shared_box, action(path, "c = (", start=-1), lint=True)


async def test_only_new_mistakes_in_python_count() -> None:
    assert await lint_python("a.txt", "", "(") == []
    assert await lint_python("a.py", "(", "((") == []
    assert await lint_python("a.py", "", "x = 1\n") == []
    assert await lint_python("a.py", "", "x = \0") != []
    assert [type(error) for error in await lint_python("a.py", "", "def")] == [LintError]
    await lint_python("a.py", "", "-" * 200_000 + "1")  # is not allowed to end this process


def test_hunks_show_both_sides() -> None:
    old = "\n".join(f"line {number}" for number in range(1, 13))
    new = old.replace("line 2\n", "line 2\nline 2b\n").replace("line 11", "LINE 11\n")
    shown = "\n".join(
        [
            "[Changes are NOT applied to f - Here's how the file looks like if changes are applied.]",
            "[begin of ATTEMPTED edit 1 / 2]",
            "(content before ATTEMPTED edit)",
            " 1|line 1",
            " 2|line 2",
            " 3|line 3",
            " 4|line 4",
            "(content after ATTEMPTED edit)",
            " 1|line 1",
            " 2|line 2",
            "+3|line 2b",
            " 4|line 3",
            " 5|line 4",
            "[end of ATTEMPTED edit 1 / 2]",
            "-------------------------",
            "[begin of ATTEMPTED edit 2 / 2]",
            "(content before ATTEMPTED edit)",
            "  9|line 9",
            " 10|line 10",
            "-11|line 11",
            " 12|line 12",
            "(content after ATTEMPTED edit)",
            " 10|line 9",
            " 11|line 10",
            "+12|LINE 11",
            "+13|",
            " 14|line 12",
            "[end of ATTEMPTED edit 2 / 2]",
        ]
    )
    assert f"[begin attempted changes]\n{shown}\n[end attempted changes]" in lint_failure("f", old, new, [])
