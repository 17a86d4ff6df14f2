from __future__ import annotations

import json
from pathlib import Path

import pytest

from glovebox.box.terminal.shell.command_splitter import split_commands

#: Texts, and the commands that the contract's parser (bashlex 0.18) finds in each if there are several.
RECORDED: list[tuple[str, list[str] | None]] = json.loads(
    Path(__file__).with_name("splitting.json").read_text()
)


def test_a_text_is_split_as_the_contract_splits_it() -> None:
    assert len(RECORDED) > 1000
    wrong = [text for text, commands in RECORDED if split_commands(text) != (commands or [text])]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "echo a; echo b",
        "a && b",
        "a &&\nb",
        "a |\nb",
        "for i in 1 2; do\n  echo $i\ndone",
        "if true\nthen\n  ls\nfi",
        "f() {\n  echo one\n  echo two\n}",
        "cat <<EOF\nhello\n\nworld\nEOF",
        "echo 'one\ntwo'",
        "echo one \\\n  two",
        "echo a # c\n# d",
        "# only a comment",
        "# comment\necho after",
        "echo a\n\n\n",
    ],
)
def test_this_is_one_command(text: str) -> None:
    assert split_commands(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "[[ -f a ]]\nls",
        "case a in\n  a) ls;;\nesac\nls",
        "echo $((1 + 1))\nls",
        "time ls\nls",
        "a=(1 2)\nls",
        "echo 'unclosed\nls",
        "echo `unclosed\nls",
        "cat <<EOF\nnever ends",
        "cat <<'EOF'\nquoted\nEOF\nls",
    ],
)
def test_what_the_parser_does_not_understand_is_one_command(text: str) -> None:
    assert split_commands(text) == [text]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("echo a\necho b", ["echo a", "echo b"]),
        ("ls &\necho b", ["ls &", "echo b"]),
        ("a && b\nc", ["a && b", "c"]),
        ("for i in 1; do\nls\ndone\necho z", ["for i in 1; do\nls\ndone", "echo z"]),
        ("f() { ls; }\nf", ["f() { ls; }", "f"]),
        ("((x++))\nls", ["((x++))", "ls"]),
        ("cat <(ls)\nls", ["cat <(ls)", "ls"]),
        ("cat <<EOF\nbody\nEOF\necho second", ["cat <<EOF\nbody\nEOF", "echo second"]),
        ("echo a # one\n# two\n\necho b", ["echo a # one\n# two", "echo b"]),
        ("# first\necho a\necho b", ["# first\necho a", "echo b"]),
    ],
)
def test_commands_on_lines_of_their_own_are_several(text: str, commands: list[str]) -> None:
    assert split_commands(text) == commands


@pytest.mark.parametrize(
    "text",
    [
        "echo a\n" * 150_000,
        "(" * 9_000 + "\n",
        "echo " + "$(" * 3_000 + "ls" + ")" * 3_000 + "\nls",
        "if true; then\n" * 600,
    ],
)
@pytest.mark.timeout(30)
def test_an_absurd_text_is_decided(text: str) -> None:
    assert split_commands(text)
