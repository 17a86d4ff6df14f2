"""People who watch a session see the commands of an agent as if they were typed."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from glovebox.box.terminal.output.rendering import end_column, render
from glovebox.box.terminal.shell.integration import without_typed_line
from tests.box.terminal.console import Console, console
from tests.box.terminal.test_native_command import command
from tests.support.waiting import until


async def screen(shell: Console, *, width: int) -> list[str]:
    """What a terminal of that width shows once the prompt is back."""
    terminal = shell.terminal.session("main").shell

    def lines() -> list[str]:
        return render(terminal.log.fetch(0, 1 << 20), rows=1000, columns=width)

    await until(lambda: lines()[-1].endswith((" $", " #")), "the prompt")
    return lines()


def as_typed(lines: list[str]) -> list[str]:
    return [line.rpartition("workspace ")[2].removeprefix("# ").removeprefix("$ ") for line in lines]


async def test_commands_are_seen_as_if_they_were_typed(shell: Console) -> None:
    await command(shell, "echo one")
    await command(shell, "for i in 1 2; do\n\techo $i\ndone")
    await shell.run("echo contract")
    lines = as_typed(await screen(shell, width=shell.terminal.session("main").shell.terminal.columns))
    assert lines[:-1] == [
        "echo one", "one",
        "for i in 1 2; do", "        echo $i", "done", "1", "2",
        "echo contract", "contract",
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [20, 33, 47, 61, 120])
async def test_a_line_that_wraps_is_replaced_too(tmp_path: Path, columns: int) -> None:
    async with console(tmp_path, kind="tmux") as shell:
        session = shell.terminal.session("main")
        session.shell.resize(40, columns)
        # A prompt that ends at the margin.
        margin = tmp_path / ("x" * (columns - (len(f"{tmp_path}/ # ") % columns)))
        margin.mkdir()
        await command(shell, f"cd {margin}")
        await command(shell, "cd /")
        for directory in ("/", "/usr", "/usr/share", "/usr/lib"):
            await command(shell, f"cd {directory}")
            assert (await command(shell, "echo out")).notes == []
        line = shlex.split(session.info().attach or "")
        at = line.index("attach")

        def shown() -> str:
            capture = [*line[:at], "capture-pane", "-pJ", "-t", line[-1]]
            done = subprocess.run(capture, capture_output=True, text=True, check=True)
            return "\n".join(line.rstrip() for line in done.stdout.rstrip().split("\n"))

        await until(lambda: shown().endswith(("/usr/lib #", "/usr/lib $")), "the prompt")
        assert "__gb" not in shown()
        assert shown().count("echo out\nout\n") == 4
        seen = without_typed_line(session.shell.log.fetch(0, 1 << 20))
        assert b"\\__gb" not in seen
        assert seen.count(b"echo out\r\n") == 4


async def test_output_of_a_job_at_the_prompt_stays(shell: Console) -> None:
    await command(shell, "cd /")  # a short prompt: where a line wraps, readline does not know of the output
    flag = shell.workspace / "flag"
    await command(shell, f"(until [ -e {flag} ]; do sleep 0.01; done; printf 'from the job') &")
    flag.touch()
    terminal = shell.terminal.session("main").shell
    await until(lambda: terminal.log.fetch(0, 1 << 20).endswith(b"from the job"), "the job")
    await command(shell, "echo next")
    seen = "\n".join(await screen(shell, width=terminal.terminal.columns))
    assert "from the jobecho next\nnext" in seen
    assert "__gb" not in seen


async def test_history_has_nothing_of_it(shell: Console) -> None:
    await command(shell, "echo one two")
    assert (await command(shell, "history; fc -l 2>/dev/null; echo [$_]")).content == "[-l]\n"


def test_the_column_after_a_prompt_is_counted_in_cells() -> None:
    assert end_column(b"") == 0
    assert end_column(b"above\r\n\x1b[1m~ \x1b[0m$ ") == 4
    assert end_column("日本 $ ".encode()) == 7
