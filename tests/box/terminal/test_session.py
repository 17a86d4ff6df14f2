"""What the `run` action promises: answers, timeouts, input and keys."""

from __future__ import annotations

import asyncio
import getpass
import os
import time
from pathlib import Path

import pytest

from glovebox.protocol.observations import CmdOutputMetadata, CmdOutputObservation, ErrorObservation
from tests.box.terminal.console import Console, console
from tests.support.waiting import LIMIT, until

#: Goes on until a file is there, so that an answer on a busy machine is not too late to see it running.
UNTIL_GO = "until [ -e go ]; do sleep 0.02; done"
CONTINUED = "[Below is the output of the previous command.]\n"
HINT = (
    "You may wait longer to see additional output by sending empty command '', send other commands to "
    'interact with the current process, send keys ("C-c", "C-z", "C-d") to interrupt/kill the previous '
    "command before sending your new command, or use the timeout parameter in execute_bash for future "
    "commands.]"
)


async def test_a_command_that_ends_tells_everything_the_prompt_knows(shell: Console) -> None:
    answer = await shell.run("echo hi")
    assert answer.content == "hi"
    assert answer.command == "echo hi"
    assert answer.metadata == CmdOutputMetadata(
        exit_code=0,
        pid=-1,
        username=getpass.getuser(),
        hostname=os.uname().nodename.split(".")[0],
        working_dir=str(shell.workspace),
        py_interpreter_path=answer.metadata.py_interpreter_path,
        prefix="",
        suffix="\n[The command completed with exit code 0.]",
    )


async def test_the_interpreter_is_the_first_python_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\n")
    async with console(tmp_path, PATH=f"/nowhere:{tmp_path / 'bin'}:{os.environ['PATH']}") as shell:
        assert (await shell.run("true")).metadata.py_interpreter_path != str(python)
        python.chmod(0o755)
        assert (await shell.run("true")).metadata.py_interpreter_path == str(python)
        assert (await shell.run("PATH=/bin/nowhere")).metadata.py_interpreter_path == ""


async def test_state_persists_from_command_to_command(shell: Console) -> None:
    await shell.run("export A='one two'; B=3; f() { echo \"f:$1\"; return 7; }; mkdir sub; cd sub")
    answer = await shell.run('echo "$A $B"; f x')
    assert answer.content == "one two 3\nf:x"
    assert answer.metadata.exit_code == 7
    assert answer.metadata.working_dir == str(shell.workspace / "sub")
    assert shell.terminal.cwd == str(shell.workspace / "sub")
    assert await shell.output("echo $?") == "7"


@pytest.mark.parametrize(
    "name", ["a b", "it's", 'q"q', "a\nb", "tab\there", "ü — 日本", "$HOME", "back\\slash"]
)
async def test_any_directory_can_be_entered(shell: Console, name: str) -> None:
    (shell.workspace / name).mkdir()
    answer = await shell.run(f"cd {_quoted(name)}")
    assert answer.metadata.working_dir == str(shell.workspace / name)
    assert shell.terminal.cwd == str(shell.workspace / name)


async def test_a_directory_whose_name_is_no_text_can_be_entered(shell: Console) -> None:
    os.mkdir(os.fsencode(shell.workspace) + b"/\xffx")
    answer = await shell.run("cd *x")
    assert answer.metadata.working_dir == f"{shell.workspace}/\ufffdx"
    assert os.fsencode(shell.terminal.cwd) == os.fsencode(shell.workspace) + b"/\xffx"


async def test_job_control_is_that_of_a_person_at_a_terminal(shell: Console) -> None:
    answer = await shell.run("sleep 60 &")
    assert answer.content == f"[1] {answer.metadata.pid}"
    assert (await shell.run("jobs")).content.split() == ["[1]+", "Running", "sleep", "60", "&"]
    later = await shell.run('kill %1; wait %1 2>/dev/null; echo "rc $?"')
    assert later.content == "rc 143"
    assert later.metadata.pid == answer.metadata.pid


async def test_the_end_of_a_killed_job_is_told_with_the_command_that_killed_it(shell: Console) -> None:
    await shell.run("sleep 60 &")
    assert (await shell.run("kill %1")).content == "[1]+  Terminated              sleep 60"


async def test_silence_is_reported_and_the_command_runs_on(impatient: Console) -> None:
    answer = await impatient.run("printf 'first\\n'; read -r line; echo \"got $line\"")
    assert answer.content == "first"
    assert answer.metadata == CmdOutputMetadata(
        suffix=f"\n[The command has no new output after 0.3 seconds. {HINT}"
    )
    assert not answer.success
    done = await impatient.type("it")
    assert (done.content, done.metadata.exit_code, done.metadata.prefix) == ("got it", 0, "")


async def test_a_whole_number_of_silent_seconds_is_written_as_such(tmp_path: Path) -> None:
    async with console(tmp_path, no_change_timeout=1.0) as shell:
        answer = await shell.run("sleep 60")
        assert answer.metadata.suffix.startswith("\n[The command has no new output after 1 seconds. You")


async def test_steady_output_is_no_silence(impatient: Console) -> None:
    answer = await impatient.run("for i in 1 2 3 4 5; do echo $i; sleep 0.15; done")
    assert answer.content == "1\n2\n3\n4\n5"


async def test_a_hard_timeout_is_reported_and_the_command_runs_on(shell: Console) -> None:
    begin = time.monotonic()
    answer = await shell.run(f"{UNTIL_GO}; echo woke", timeout=0.25)
    assert time.monotonic() - begin >= 0.25
    (shell.workspace / "go").touch()
    assert (answer.content, answer.metadata.exit_code) == ("", -1)
    assert answer.metadata.suffix == f"\n[The command timed out after 0.25 seconds. {HINT}"
    later = await shell.poll(timeout=LIMIT)
    assert (later.content, later.metadata.exit_code, later.metadata.prefix) == ("woke", 0, "")


async def test_a_whole_number_of_seconds_is_written_as_a_float(shell: Console) -> None:
    answer = await shell.run("sleep 60", timeout=1)
    assert answer.metadata.suffix.startswith("\n[The command timed out after 1.0 seconds. You")


async def test_a_blocking_command_may_be_silent(impatient: Console) -> None:
    assert await impatient.output("sleep 0.6; echo done", blocking=True, timeout=LIMIT) == "done"
    answer = await impatient.run("sleep 60", blocking=True, timeout=0.5)
    assert "timed out after 0.5 seconds" in answer.metadata.suffix


async def test_each_report_has_what_came_since_the_last(shell: Console) -> None:
    first = await shell.run("for i in 1 2 3; do echo $i; read -r line; done", timeout=1)
    assert (first.content, first.metadata.prefix) == ("1", "")
    second = await shell.type("go", timeout=1)
    assert (second.content, second.metadata.prefix) == ("2", CONTINUED)
    third = await shell.type("go", timeout=1)
    assert (third.content, third.metadata.prefix) == ("3", CONTINUED)
    nothing = await shell.poll(timeout=0.1)
    assert (nothing.content, nothing.metadata.prefix) == ("", CONTINUED)
    last = await shell.type("go")
    assert (last.content, last.metadata.prefix, last.metadata.exit_code) == ("", "", 0)


async def test_a_new_command_is_refused_while_one_runs(shell: Console) -> None:
    await shell.run('read -r line; echo "got $line"', timeout=0.1)
    for command in ("echo no", "C-c"):
        answer = await shell.run(command, hidden=True)
        assert (answer.content, answer.command, answer.hidden) == ("", command, True)
        assert answer.metadata == CmdOutputMetadata(
            prefix=CONTINUED,
            suffix=f'\n[Your command "{command}" is NOT executed. The previous command is still running - '
            "You CANNOT send new commands until the previous command is completed. "
            f"By setting `is_input` to `true`, you can interact with the current process: {HINT}",
        )
    assert (await shell.type("it")).content == "got it"


async def test_nothing_runs_so_nothing_can_be_polled_or_talked_to(shell: Console) -> None:
    nothing = CmdOutputObservation(
        content="ERROR: No previous running command to retrieve logs from.", command=""
    )
    assert await shell.poll() == nothing
    assert await shell.run("  \n ") == nothing
    assert await shell.type("") == nothing
    assert await shell.type("hello") == CmdOutputObservation(
        content="ERROR: No previous running command to interact with.", command=""
    )


async def test_several_commands_at_once_are_refused(shell: Console) -> None:
    assert await shell.answer("echo a\necho b") == ErrorObservation(
        content="ERROR: Cannot execute multiple commands at once.\n"
        "Please run each command separately OR chain them into a single command via && or ;\n"
        "Provided commands:\n(1) echo a\n(2) echo b"
    )
    assert await shell.output("echo still here") == "still here"


async def test_a_command_that_ended_between_calls_is_reported_by_a_poll(shell: Console) -> None:
    await shell.run(f"{UNTIL_GO}; echo done > marker; echo done; (exit 5)", timeout=0.1)
    (shell.workspace / "go").touch()
    await until((shell.workspace / "marker").exists, "the command goes on")
    answer = await shell.poll()
    assert (answer.content, answer.metadata.exit_code) == ("done", 5)
    assert (await shell.poll()).content.startswith("ERROR: No previous running command")


async def test_a_command_that_ended_between_calls_makes_room_for_the_next(shell: Console) -> None:
    pid = int(await shell.output("echo $$"))
    await shell.run(f"{UNTIL_GO}; echo done", timeout=0.1)
    refused = await shell.run("echo next")
    assert (refused.content, refused.metadata.exit_code) == ("", -1)
    (shell.workspace / "go").touch()
    (command,) = shell.terminal.session("main").commands.of_session("main")[1:]
    await until(lambda: command.info().state == "ended", "the command ended")
    await until(lambda: _has_the_terminal(pid), "the prompt")
    answer = await shell.run("echo next")
    assert answer.content == "done\n\n\necho next\nnext"
    assert answer.metadata.prefix == ""
    assert await shell.output("echo clean") == "clean"


async def test_input_for_a_command_that_ended_is_not_run_as_a_command(shell: Console) -> None:
    pid = int(await shell.output("echo $$"))
    await shell.run(f"{UNTIL_GO}; touch marker", timeout=0.05)
    (shell.workspace / "go").touch()
    looks = 0

    def at_the_prompt() -> bool:
        nonlocal looks
        looks = looks + 1 if (shell.workspace / "marker").exists() and _has_the_terminal(pid) else 0
        return looks > 5

    await until(at_the_prompt, "the command ended")
    answer = await shell.type("touch wrong")
    assert answer.metadata.exit_code == 0
    assert 'Your input "touch wrong" was NOT sent' in answer.metadata.suffix
    assert not (shell.workspace / "wrong").exists()


async def test_control_c_interrupts(shell: Console) -> None:
    await shell.run("sleep 100; echo the rest must not run", timeout=0.5)
    answer = await shell.type("C-c")
    assert (answer.content, answer.command) == ("^C", "C-c")
    assert answer.metadata.exit_code == 130
    assert answer.metadata.suffix == "\n[The command completed with exit code 130. CTRL+C was sent.]"
    assert await shell.output("echo $?") == "130"


async def test_control_c_interrupts_a_loop_of_the_shell_itself(shell: Console) -> None:
    await shell.run("while :; do :; done", timeout=0.1)
    assert (await shell.type("C-c")).metadata.exit_code == 130


async def test_control_z_stops_and_control_d_ends_input(shell: Console) -> None:
    await shell.run("cat", timeout=1)
    stopped = await shell.type("C-z")
    assert stopped.content == "^Z\n[1]+  Stopped                 cat"
    assert stopped.metadata.exit_code == 148
    await shell.run("fg", timeout=1)
    echoed = await shell.type("echo me", timeout=1)
    assert echoed.content == "echo me"
    ended = await shell.type("C-d")
    assert (ended.content, ended.metadata.exit_code) == ("", 0)
    assert ended.metadata.suffix == "\n[The command completed with exit code 0. CTRL+D was sent.]"


async def test_a_child_that_ignores_control_c_runs_on(shell: Console) -> None:
    await shell.run("bash -c 'trap \"\" INT; read -r line; echo survived'", timeout=1)
    answer = await shell.type("C-c", timeout=1)
    assert (answer.content, answer.metadata.exit_code) == ("^C", -1)
    assert (await shell.type("go")).content == "survived"


async def test_a_python_prompt_can_be_used(shell: Console) -> None:
    await shell.run("python3 -q", timeout=3)
    assert "42" in (await shell.type("print(6 * 7)", timeout=2)).content
    answer = await shell.type("C-d")
    assert answer.metadata.exit_code == 0


async def test_keys_at_the_idle_prompt(shell: Console) -> None:
    await shell.run("(exit 3)")
    harmless = await shell.run("C-a")
    assert (harmless.content, harmless.metadata.exit_code) == ("", 3)
    interrupted = await shell.run("C-c")
    assert (interrupted.content, interrupted.metadata.exit_code) == ("^C", 130)
    assert await shell.output("echo fine") == "fine"


async def test_a_password_is_not_echoed(shell: Console) -> None:
    asked = await shell.run("read -s -p 'password: ' P; echo; echo \"${#P} characters\"", timeout=1)
    assert asked.content == "password:"
    assert (await shell.type("secret")).content == "6 characters"


async def test_input_that_nobody_reads_does_not_spoil_the_next_command(shell: Console) -> None:
    await shell.run(f"echo once >> log; {UNTIL_GO}", timeout=0.1)
    await shell.type("C-v", timeout=0.1)  # no line end, so it stays on the line
    (shell.workspace / "go").touch()
    assert (await shell.poll(timeout=LIMIT)).metadata.exit_code == 0
    assert await shell.output("echo next") == "next"
    assert await shell.output("cat log") == "once"


async def test_long_output_is_cut_in_the_middle_unless_hidden(shell: Console) -> None:
    assert len(await shell.output("printf 'a%.0s' {1..30000}")) == 30_000
    cut = await shell.output("printf 'a%.0s' {1..30001}")
    assert len(cut) == 30_047
    assert cut[15_000:15_047] == "\n[... Observation truncated due to length ...]\n"
    answer = await shell.run("printf 'a%.0s' {1..31000}", hidden=True)
    assert (len(answer.content), answer.hidden) == (31_000, True)


async def test_lines_beyond_the_history_are_gone_and_the_answer_says_so(shell: Console) -> None:
    whole = await shell.run("seq 10976", hidden=True)
    assert (whole.content[:4], whole.metadata.prefix) == ("1\n2\n", "")
    answer = await shell.run("seq 12000", hidden=True)
    assert answer.content.startswith("1989\n")
    assert answer.content.endswith("\n12000")
    assert answer.metadata.prefix == (
        "[Previous command outputs are truncated. Showing the last 10013 lines of the output below.]\n"
    )
    assert await shell.output("echo still fine") == "still fine"


async def test_much_output_does_not_stay_in_memory(shell: Console) -> None:
    await shell.run("head -c 1000000 /dev/zero | tr '\\0' x")
    before = _memory()
    answer = await shell.run("yes 0123456789012345678901234567890123456789 | head -c 30000000", blocking=True)
    assert answer.metadata.exit_code == 0
    assert "truncated" in answer.metadata.prefix
    assert _memory() - before < 40_000_000  # of which 8 are the event log


async def test_output_is_passed_on_while_it_happens(shell: Console) -> None:
    waiting = asyncio.ensure_future(
        shell.run("printf 'caf\\xc3'; printf '\\xa9\\n'; read -r line; echo after")
    )
    await until(lambda: "café\n" in shell.streamed(), "the first line")
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    answer = await shell.type("go")
    assert answer.content == "café\ngo\nafter"
    assert shell.streamed().endswith("after\n")


async def test_commands_run_in_the_order_of_their_arrival(shell: Console) -> None:
    commands = [
        asyncio.ensure_future(shell.run(f"sleep 0.05; echo {number} | tee -a log")) for number in range(5)
    ]
    answers = await asyncio.gather(*commands)
    assert [answer.content for answer in answers] == ["0", "1", "2", "3", "4"]
    assert (shell.workspace / "log").read_text() == "0\n1\n2\n3\n4\n"


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800", "\udcff"])
async def test_what_no_shell_can_read_is_refused(shell: Console, command: str) -> None:
    answer = await shell.answer(command)
    assert isinstance(answer, ErrorObservation)
    assert answer.content.startswith("ERROR: The command cannot be run: it contains ")
    assert await shell.output("echo fine") == "fine"


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "'\\''") + "'"


def _has_the_terminal(pid: int) -> bool:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0] == "S" and fields[5] == str(pid)


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
