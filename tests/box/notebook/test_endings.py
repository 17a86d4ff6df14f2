from __future__ import annotations

import pytest

from glovebox.box.notebook.messages import describe_status


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exit status 0"),
        (3, "exit status 3"),
        (127, "exit status 127 (not found)"),
        (139, "killed by signal 11 (SIGSEGV)"),
        (137, "killed by signal 9 (SIGKILL), possibly for lack of memory"),
        (128 + 62, "killed by signal 62"),
        (None, "it is not known how"),
    ],
)
def test_an_exit_status_is_put_into_words(status: int | None, words: str) -> None:
    assert describe_status(status) == words


def test_what_the_system_says_of_memory_is_repeated() -> None:
    said = "Out of memory: the system killed python (pid 5, 2 GB)."
    assert describe_status(137, said) == f"killed by signal 9 (SIGKILL). {said[:-1]}"
