"""Programs that print the marks of their own end: only the shell itself can end a command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.box.terminal.console import Console
from tests.box.terminal.test_resilience import FORGED
from tests.support.running import running_box
from tests.support.waiting import LIMIT, until

pytestmark = [
    pytest.mark.attack,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

#: Finds the tokens of its shell in the shell's memory and prints that its command has ended with status 0.
LIAR = r"""
import os, re, sys, time

def memory(pid):
    for line in open(f"/proc/{pid}/maps"):
        area, rights, *_ = line.split()
        if rights.startswith("rw"):
            begin, end = (int(part, 16) for part in area.split("-"))
            with open(f"/proc/{pid}/mem", "rb") as file:
                file.seek(begin)
                yield file.read(end - begin)

def tokens(pid):
    found = b"".join(memory(pid))
    commands = set(re.findall(rb"__gb ([\w-]{8});", found)) | set(re.findall(rb"\0([\w-]{8})\0", found))
    return commands, set(re.findall(rb"1807;A;([0-9a-f]{16})", found))

def lie(shell, status=0):
    commands, sessions = tokens(shell)
    assert commands and sessions
    lies = b"".join(
        b"\033]1807;D;%s\x1f%d\x1f\x1fme\x1fhost\x1f'/'\x1f''\a\033]1807;A;%s\a$ \033]1807;B;%s\a"
        % (command, status, session, session)
        for command in commands for session in sessions
    )
    os.write(1, lies)

shell, (how, *_) = os.getppid(), sys.argv[1:]
if how == "exit":
    lie(shell)
    os._exit(1)
elif how == "stay":
    lie(shell)
    while not os.path.exists("go"):
        time.sleep(0.01)
    print("stayed")
    sys.exit(3)
elif how == "leave":
    if os.fork() == 0:
        os.setsid()
        open("lying", "w").close()
        while not os.path.exists("stop"):
            lie(shell)
            time.sleep(0.001)
        open("gone", "w").close()
        os._exit(0)
    while not os.path.exists("lying"):
        time.sleep(0.01)
    time.sleep(0.2)
    print("left")
    sys.exit(4)
"""


@pytest.fixture
def liar(shell: Console) -> str:
    (shell.workspace / "liar.py").write_text(LIAR)
    return f"{sys.executable} -S liar.py"


async def test_a_program_that_says_it_succeeded_and_fails_has_failed(shell: Console, liar: str) -> None:
    for _ in range(10):
        answer = await shell.run(f"{liar} exit")
        assert answer.metadata.exit_code == 1, answer
        assert answer.metadata.working_dir == str(shell.workspace)
        assert await shell.output("echo next") == "next"


async def test_a_program_that_says_it_has_ended_still_runs(shell: Console, liar: str) -> None:
    answer = await shell.run(f"{liar} stay", timeout=1)
    assert answer.metadata.exit_code == -1
    (shell.workspace / "go").touch()
    ended = await shell.poll()
    assert (ended.content.splitlines()[-1], ended.metadata.exit_code) == ("stayed", 3)
    assert await shell.output("echo next") == "next"


async def test_a_process_that_was_left_behind_ends_no_command(shell: Console, liar: str) -> None:
    answer = await shell.run(f"{liar} leave")
    assert ("left" in answer.content, answer.metadata.exit_code) == (True, 4)
    for number in range(1, 6):
        answer = await shell.run(f"sleep 0.05; echo told; (exit {number})")
        assert ("told" in answer.content, answer.metadata.exit_code) == (True, number)
    (shell.workspace / "stop").touch()
    await until((shell.workspace / "gone").exists, "the lies are over")
    await shell.run("true")
    assert await shell.output("echo next") == "next"


async def test_a_job_in_the_background_ends_no_command(shell: Console) -> None:
    forge = f"printf '{FORGED}' $__gb_token"
    for number in range(1, 6):
        line = f"(while [ ! -e stop ]; do {forge}; done) & sleep 0.1; (exit {number})"
        answer = await shell.run(line, timeout=LIMIT)  # on a busy machine so many marks take a while to read
        assert answer.metadata.exit_code == number
        (shell.workspace / "stop").touch()
        await shell.run("wait; rm stop")


async def test_what_a_person_runs_cannot_lie_either(shell: Console) -> None:
    (shell.workspace / "liar.py").write_text(LIAR)
    session = shell.terminal.session("main")
    await shell.run("true")
    session.shell.type(f"{sys.executable} -S liar.py stay\r".encode())
    await until(lambda: session.info().command is not None, "it runs")
    poll = await shell.poll(timeout=1)
    assert poll.metadata.exit_code == -1
    (shell.workspace / "go").touch()
    assert (await shell.poll()).metadata.exit_code == 3


async def test_a_restarted_server_does_not_believe_it_either(tmp_path: Path) -> None:
    from tests.survival.mortal import mortal_box

    with mortal_box(tmp_path) as box:
        (box.workspace / "liar.py").write_text(LIAR)
        asked = box.execute("run", command=f"{sys.executable} -S liar.py stay", timeout=1)
        assert asked["extras"]["metadata"]["exit_code"] == -1
        box.kill()
        box.start()
        refused = box.execute("run", command="echo new")
        assert "NOT executed" in refused["extras"]["metadata"]["suffix"]
        (box.workspace / "go").touch()
        assert box.execute("run", command="")["extras"]["metadata"]["exit_code"] == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_where_a_process_cannot_be_named_a_program_in_the_foreground_is_not_believed(tmp_path: Path) -> None:
    readonly = ["unshare", "-m", "sh", "-c", 'mount -o remount,bind,ro /proc && exec "$@"', "sh"]
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "liar.py").write_text(LIAR)
    with running_box(tmp_path / "workspace", prefix=readonly) as box:
        assert box.run("cat /proc/$$/comm") == "bash"
        answer = box.execute("run", command=f"{sys.executable} -S liar.py stay", timeout=1)
        assert answer["extras"]["metadata"]["exit_code"] == -1
        (tmp_path / "workspace" / "go").touch()
        assert box.execute("run", command="")["extras"]["metadata"]["exit_code"] == 3
        assert box.run("echo next") == "next"


async def test_hooks_of_the_user_cost_no_answer(shell: Console) -> None:
    (shell.workspace / "go").touch()
    await shell.run("PROMPT_COMMAND='until [ -e go ]; do sleep 0.01; done; echo hook $?'")
    first = await shell.run("rm go; echo one; (exit 3)")
    assert (first.content, first.metadata.exit_code) == ("one", 3)
    (shell.workspace / "go").touch()
    second = await shell.run("echo two $?")
    assert (second.content, second.metadata.exit_code) == ("two 3", 0)


async def test_hooks_of_the_user_follow_the_directory_with_the_status_of_the_command(shell: Console) -> None:
    await shell.run("mkdir a b; PROMPT_COMMAND=('echo a$? >>~/log' 'echo b$? >>~/log')")
    await shell.run("cd a; : >~/log; (exit 5)")
    await shell.run("(exit 9)")
    await shell.run("cd ../b; (exit 6)")
    assert await shell.output("cat ~/log") == "a5\nb5\na6\nb6"
    assert "echo a$? >>~/log" in await shell.output('echo "$PROMPT_COMMAND"')
    await shell.run('PROMPT_COMMAND="echo c$? >>~/log;$PROMPT_COMMAND"')
    await shell.run(": >~/log; cd ../a; (exit 7)")
    assert await shell.output("cat ~/log") == "c0\na0\nb7"
    await shell.run("PROMPT_COMMAND=${PROMPT_COMMAND//echo c0/echo d0}; unset 'PROMPT_COMMAND[1]'")
    await shell.run(": >~/log; cd ../b")
    assert (await shell.output("cat ~/log")).startswith("d0\na0")


async def test_hooks_of_the_user_run_at_every_prompt_of_a_person(shell: Console) -> None:
    session = shell.terminal.session("main")
    await shell.run("PROMPT_COMMAND='echo x >>~/log'")
    await shell.run(": >~/log")
    session.take(person := object())
    log = shell.workspace.parent / "home" / "log"
    session.shell.type(b"true\r")
    await until(lambda: log.read_text() == "x\n", "the hook")
    session.shell.type(b"true\r")
    await until(lambda: log.read_text() == "x\nx\n", "the hook again")
    session.release(person)
    # What the person typed may be on the screen only now.
    assert (await shell.output("cat ~/log")).splitlines()[-2:] == ["x", "x"]


@pytest.mark.parametrize(
    "command",
    ["PROMPT_COMMAND+='; if'", "PROMPT_COMMAND='true'; readonly PROMPT_COMMAND", "PROMPT_COMMAND='('"],
)
async def test_a_hook_that_cannot_be_parsed_or_taken_back_does_no_harm(shell: Console, command: str) -> None:
    await shell.run(command)
    for number in (5, 6):
        answer = await shell.run(f"echo one; (exit {number})")
        assert (answer.content, answer.metadata.exit_code) == ("one", number)
        assert await shell.output("echo $?") == str(number)
