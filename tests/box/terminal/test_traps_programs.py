"""Programs that take the terminal for themselves, or do not want to end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.box.terminal.console import Console, console
from tests.box.terminal.test_lifetime import running
from tests.support.waiting import LIMIT, until


@pytest.mark.skipif(shutil.which("vi") is None, reason="needs vi")
async def test_an_editor_is_used_and_left_by_keys(impatient: Console) -> None:
    screen = await impatient.run("vi -u NONE file")
    assert screen.metadata.exit_code == -1
    assert "hello" in (await impatient.type("ihello")).content
    await impatient.type("C-[")
    left = await impatient.type(":wq", timeout=LIMIT, blocking=True)
    assert (left.content, left.metadata.exit_code) == ("", 0)
    assert (impatient.workspace / "file").read_text() == "hello\n\n"
    assert await impatient.output("echo next") == "next"


@pytest.mark.skipif(shutil.which("less") is None, reason="needs less")
async def test_a_pager_is_left_by_a_key_and_what_is_typed_after_it_does_no_harm(impatient: Console) -> None:
    first = await impatient.run("seq 5000 | less")
    assert first.content.startswith("1\n2\n3\n")
    left = await impatient.type("q", timeout=LIMIT, blocking=True)
    assert left.metadata.exit_code == 0
    assert await impatient.output("echo next") == "next"


async def test_a_monitor_is_left_by_a_key(shell: Console) -> None:
    program = next((name for name in ("htop", "top") if shutil.which(name)), None)
    if program is None:
        pytest.skip("needs htop or top")
    first = await shell.run(program, timeout=1)
    assert (first.metadata.exit_code, first.content != "") == (-1, True)
    assert (await shell.type("q")).metadata.exit_code == 0
    assert await shell.output("echo next") == "next"


async def test_control_c_in_a_python_prompt_does_not_end_it(impatient: Console) -> None:
    await impatient.run("python3 -q", timeout=10)
    await impatient.type("import time; time.sleep(1000)")
    assert "KeyboardInterrupt" in (await impatient.type("C-c")).content
    assert "42" in (await impatient.type("print(6 * 7)")).content
    assert (await impatient.type("C-d", timeout=LIMIT, blocking=True)).metadata.exit_code == 0


async def test_a_stopped_job_can_be_killed(shell: Console) -> None:
    await shell.run("sleep 1000", timeout=0.2)
    assert (await shell.type("C-z")).metadata.exit_code == 148
    assert (await shell.run("kill %1; wait %1 2>/dev/null; jobs")).metadata.exit_code == 0
    assert await shell.output("jobs") == ""


async def test_control_c_ends_a_loop_of_programs_and_the_rest_of_the_list(shell: Console) -> None:
    await shell.run("while :; do sleep 1; done; echo rest", timeout=0.3)
    answer = await shell.type("C-c")
    assert (answer.content, answer.metadata.exit_code) == ("^C", 130)
    assert await shell.output("echo next") == "next"


async def test_a_pipeline_that_ignores_control_c_is_killed_and_a_daemon_of_it_ends_with_the_terminal(
    tmp_path: Path, kind: str
) -> None:
    async with console(tmp_path, kind=kind, no_change_timeout=0.3) as shell:
        await shell.run(
            "echo | bash -c 'trap \"\" INT; setsid sleep 1000 & echo $! > daemon; sleep 1000; true'"
        )
        ignored = await shell.type("C-c")
        assert (ignored.content, ignored.metadata.exit_code) == ("^C", -1)
        await shell.terminal.session("main").shell.signal("KILL")
        killed = await shell.poll(timeout=LIMIT, blocking=True)
        assert killed.metadata.exit_code == 137
        assert await shell.output("echo next") == "next"
        daemon = int((shell.workspace / "daemon").read_text())
    await until(lambda: not running(daemon), "the daemon has ended")


async def test_a_program_that_leaves_the_mouse_on_and_the_screen_raw_does_not_spoil_the_next(
    impatient: Console,
) -> None:
    (impatient.workspace / "rude.sh").write_text(
        "stty raw -echo\nprintf '\\033[?1049h\\033[?1000h\\033[?1006h\\033[Hrude'\nhead -c 1 >/dev/null\n"
    )
    assert (await impatient.run("bash rude.sh")).content == "rude"
    assert (await impatient.type("x", timeout=LIMIT, blocking=True)).metadata.exit_code == 0
    answer = await impatient.run("printf 'a\\nb\\n'; (exit 5)")
    assert (answer.content, answer.metadata.exit_code) == ("a\nb", 5)


async def test_jobs_that_print_at_once_with_a_command_leave_it_whole(shell: Console) -> None:
    await shell.run("for i in 1 2 3; do (while [ ! -e stop ]; do echo noise $i; done) & done")
    for number in range(10):
        answer = await shell.run(f"echo begin-{number}; echo end-{number}; (exit {number})", hidden=True)
        lines = answer.content.splitlines()
        assert answer.metadata.exit_code == number
        assert lines.index(f"begin-{number}") < lines.index(f"end-{number}")
    await shell.run("touch stop; wait")
    assert await shell.output("echo quiet") == "quiet"
