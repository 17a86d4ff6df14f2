"""Commands of an agent in a terminal of a VS Code window."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from glovebox import SyncRuntime
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import Output
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from tests.support.waiting import LIMIT, wait_until
from tests.vscode.harness.workstation import Window, Workstation

#: For some of them VS Code's shell integration reports no end or no output if they are typed directly.
SHAPES = {
    "plain": ("echo plain", "plain", 0),
    "a subshell alone": ("( echo in; exit 3 )", "in", 3),
    "a subshell in a pipe": ("( echo b; echo a ) | sort", "a\nb", 0),
    "a brace group": ("{ echo one; echo two; }", "one\ntwo", 0),
    "a loop over several lines": ("for n in 1 2; do\n  echo $n\ndone", "1\n2", 0),
    "a here-document": ("cat <<'END'\nfirst\n\n  $HOME\nEND", "first\n\n  $HOME", 0),
    "a newline in quotes": ("printf '%s\\n' 'a\nb'", "a\nb", 0),
    "a line that goes on": ("echo one && \\\n  echo two", "one\ntwo", 0),
    "a comment first": ("# words\necho after", "after", 0),
    "one that fails": ("echo before; false", "before", 1),
    "no such program": ("no-such-program-at-all 2>/dev/null", "", 127),
    "no output": ("true", "", 0),
    "no end of line": ("printf unfinished", "unfinished", 0),
    "not ASCII": ("echo 'größer ✓ 漢字'", "größer ✓ 漢字", 0),
    "a long one": (f"echo {'x' * 10_000} | wc -c", "10001", 0),
    "a function": ("greet() { echo hi; }; greet", "hi", 0),
    "a list": ("cd . && echo one; echo two 2>&1 | cat", "one\ntwo", 0),
    "an exclamation mark": ('echo "hi!"', "hi!", 0),
    "a comment at the end": ("echo a # b", "a", 0),
    "a background process": ("(true & wait); echo waited", "waited", 0),
    "a tab": ("printf '%s' 'a\tb' | wc -c", "3", 0),
    "leading spaces": ("  echo led", "led", 0),
    "a loop on one line": ("for n in 1 2; do echo $n; done", "1\n2", 0),
    "a long line": ("head -c 20000 /dev/zero | tr '\\0' x | wc -c", "20000", 0),
}


def run(agent: SyncRuntime, command: str, **fields: object) -> CmdOutputObservation:
    """Run a command, and check that it was executed."""
    answer = agent.run(CmdRunAction(command=command, **fields))  # type: ignore[arg-type]
    assert isinstance(answer, CmdOutputObservation), answer
    return answer


@pytest.mark.parametrize("shape", SHAPES)
def test_a_command_of_any_shape_ends_with_its_output_and_its_exit_code(
    agent: SyncRuntime, shape: str
) -> None:
    command, content, code = SHAPES[shape]
    answer = run(agent, command, timeout=LIMIT)
    assert (answer.content, answer.metadata.exit_code) == (content, code)


#: What shells of users have: that of Debian leaves commands out of its history, and has aliases.
SHELLS = {
    "bash": {},
    "bash as in Debian": {
        ".bashrc": "PS1='\\[\\e[32m\\]\\u@\\h:\\w\\[\\e[0m\\]\\$ '\n"
        "HISTCONTROL=ignoreboth\nalias ls='ls -F'\n"
    },
    "zsh": {".zshrc": "PROMPT='%1~ %# '\n"},
}
MATRIX = ["plain", "a subshell alone", "a here-document", "a list", "one that fails", "an exclamation mark",
          "a loop over several lines", "a comment at the end", "no such program"]  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_of_users_run_every_shape_again_and_again_and_show_only_what_is_run(
    workstation: Workstation, shell: str
) -> None:
    program = shutil.which(shell.split()[0])
    if program is None:
        pytest.skip(f"there is no {shell}")
    profile = f'{{"mine": {{"path": "{program}"}}}}'
    settings = (
        f'{{"terminal.integrated.profiles.linux": {profile}, '
        '"terminal.integrated.defaultProfile.linux": "mine"}'
    )
    folder = workstation.folder(f"shell {shell}", {".vscode/settings.json": settings})
    with user_files(workstation, SHELLS[shell]), workstation.window(folder) as window:
        # VS Code detects shells when it opens the first terminal, and may use another one until then.
        window.command("Terminal: Create New Terminal")
        wait_until(lambda: window.terminal_text() != "", what="a prompt")
        window.connect()
        with window.agent() as agent:
            for _ in range(3):
                for command, content, code in map(SHAPES.__getitem__, MATRIX):
                    answer = run(agent, command, timeout=LIMIT)
                    assert (answer.content, answer.metadata.exit_code) == (content, code), command
            assert run(agent, "( exit 3 )", timeout=LIMIT).metadata.exit_code == 3
            assert run(agent, "echo $?", timeout=LIMIT).content == "3"
            wait_until(lambda: "echo $?" in window.terminal_text(), what="the last command")
            text = window.terminal_text()
    for shown in ("( exit 3 )", "> done"):
        assert shown in text
    assert "/gb-" not in text


@contextlib.contextmanager
def user_files(workstation: Workstation, files: Mapping[str, str]) -> Iterator[None]:
    """Files in the user's home directory."""
    home = workstation.server.home
    before = {name: (home / name).read_text() if (home / name).exists() else "" for name in files}
    for name, text in files.items():
        (home / name).write_text(text)
    yield
    for name, text in before.items():
        (home / name).write_text(text)


def test_values_of_variables_that_a_program_sets_are_not_shown(agent: SyncRuntime, window: Window) -> None:
    run(agent, "export SECRET_KEY='hush-hush'; export OTHER=quiet;", session="variables", timeout=LIMIT)
    assert run(agent, "echo ${#SECRET_KEY} set", session="variables", timeout=LIMIT).content == "9 set"
    wait_until(lambda: "9 set" in window.terminal_text(), what="the output in the terminal")
    assert "export SECRET_KEY=...; export OTHER=...;" in window.terminal_text()
    assert "hush" not in window.terminal_text()


@pytest.mark.parametrize(
    ("command", "error"), [("echo 'never closed", "unexpected EOF"), ("echo )", "unexpected token")]
)
def test_a_command_that_cannot_be_parsed_is_an_error_of_the_shell(
    agent: SyncRuntime, command: str, error: str
) -> None:
    answer = run(agent, command, timeout=LIMIT)
    assert error in answer.content
    assert answer.metadata.exit_code > 0
    assert run(agent, "echo next").content == "next"


def test_lines_that_are_commands_of_their_own_are_refused_as_everywhere(agent: SyncRuntime) -> None:
    answer = agent.run("echo one\necho two")
    assert isinstance(answer, ErrorObservation)
    assert "Cannot execute multiple commands at once" in answer.content


def test_a_shell_remembers_directory_variables_and_functions(agent: SyncRuntime, window: Window) -> None:
    (window.folder / "below").mkdir()
    answer = run(
        agent, "cd below && export COLOUR=blue && paint() { echo painted $COLOUR; }", session="state"
    )
    assert answer.metadata.working_dir == str(window.folder / "below")
    assert run(agent, "paint; pwd", session="state").content == f"painted blue\n{window.folder}/below"


def test_every_one_of_20000_lines_arrives_as_it_is_printed(agent: SyncRuntime) -> None:
    items = list(agent.stream(CmdRunAction(command="seq 20000", timeout=60)))
    printed = "".join(item.text for item in items if isinstance(item, Output))
    assert printed.replace("\r\n", "\n").split() == [str(number) for number in range(1, 20001)]
    assert sum(isinstance(item, Output) for item in items) < 2000
    last = items[-1]
    assert isinstance(last, CmdOutputObservation)
    assert last.metadata.exit_code == 0
    assert last.content.endswith("\n19999\n20000")


def test_control_sequences_are_for_the_user_not_for_the_agent(agent: SyncRuntime) -> None:
    answer = run(agent, r"printf '\033[31mred\033[0m \033]0;title\007end\n'; printf '10%%\r100%%\n'")
    assert answer.content == "red end\n100%"


@pytest.mark.parametrize(("command", "status"), [("exit 7", 7), ("set -e; echo before; false", 1)])
def test_the_end_of_a_shell_is_reported_and_the_next_command_has_a_new_one(
    agent: SyncRuntime, command: str, status: int
) -> None:
    session = f"ends-{status}"
    answer = run(agent, command, session=session, timeout=LIMIT)
    assert answer.metadata.exit_code == status
    assert f"shell itself ended with exit code {status}" in answer.metadata.suffix
    assert run(agent, "echo alive", session=session, timeout=LIMIT).content == "alive"


def test_a_command_that_reads_input_gets_that_of_the_agent(agent: SyncRuntime) -> None:
    prompt = run(agent, "read -p 'Your name? ' name && echo Hello, $name", timeout=10)
    assert prompt.metadata.exit_code == -1
    assert "Your name?" in prompt.content
    assert "timed out" in prompt.metadata.suffix
    answer = run(agent, "Ada", is_input=True, timeout=LIMIT)
    assert answer.content.endswith("Hello, Ada")
    assert answer.metadata.exit_code == 0


def test_a_command_is_not_started_while_another_runs_which_ctrl_c_ends(agent: SyncRuntime) -> None:
    first = run(agent, "echo begun; sleep 600", session="busy", timeout=10)
    assert (first.content, first.metadata.exit_code) == ("begun", -1)
    second = run(agent, "echo second", session="busy")
    assert "NOT executed" in second.metadata.suffix
    ended = run(agent, "C-c", session="busy", is_input=True, timeout=LIMIT)
    assert ended.metadata.exit_code == 130
    assert run(agent, "echo third", session="busy").content == "third"


def test_sessions_run_beside_each_other(agent: SyncRuntime) -> None:
    with ThreadPoolExecutor(2) as threads:
        waits = threads.submit(
            run, agent, "until test -e met; do sleep 0.05; done; echo met", session="waits"
        )
        assert run(agent, "touch met; echo done", session="meets", timeout=LIMIT).content == "done"
        assert waits.result().content == "met"


def test_many_commands_in_a_row_are_answered_right(agent: SyncRuntime) -> None:
    for number in range(40):
        answer = run(agent, f"echo number {number}; (exit {number % 5})")
        assert (answer.content, answer.metadata.exit_code) == (f"number {number}", number % 5)


@pytest.fixture
def dated(workstation: Workstation) -> Iterator[None]:
    """Shells that report their commands to VS Code with the time."""
    original = (workstation.server.home / ".bashrc").read_text()
    with user_files(workstation, {".bashrc": f"{original}HISTTIMEFORMAT='%F %T '\n"}):
        yield


@pytest.mark.usefixtures("dated")
def test_a_shell_that_reports_its_commands_with_their_time_works(agent: SyncRuntime) -> None:
    seen = []
    for number in range(4):
        answer = run(agent, f"echo dated {number}; (exit {number})", session="dated", timeout=LIMIT)
        assert answer.metadata.exit_code == number
        seen.append(answer.content)
    # This is detected by the first command, whose output may be lost.
    assert seen[-2:] == ["dated 2", "dated 3"]
    prompt = run(agent, "read -p 'Which? ' which; echo got $which; (exit 4)", session="dated", timeout=10)
    assert (prompt.content, prompt.metadata.exit_code) == ("Which?", -1)
    answer = run(agent, "this", session="dated", is_input=True, timeout=LIMIT)
    assert answer.content.endswith("got this")
    assert answer.metadata.exit_code == 4


def test_the_user_sees_the_command_and_its_output(agent: SyncRuntime, window: Window) -> None:
    run(agent, "echo seen$((40 + 2))by the user", session="seen")
    wait_until(lambda: "seen42by the user" in window.terminal_text(), what="the output in the terminal")
    assert "echo seen$((40 + 2))by the user" in window.terminal_text()


def test_a_new_terminal_does_not_take_the_focus(agent: SyncRuntime, window: Window) -> None:
    window.open_file("notes.txt")
    run(agent, "echo here", session="polite")
    wait_until(lambda: "here" in window.terminal_text(), what="the new terminal")
    assert window.has_focus(".monaco-editor")


def test_what_the_user_types_in_the_terminal_does_not_confuse_the_next_command(
    agent: SyncRuntime, window: Window
) -> None:
    run(agent, "echo mine", session="ours")
    window.command("Terminal: Focus Terminal")
    window.type("echo by-$((1 + 1))-hand\n")
    wait_until(lambda: "by-2-hand" in window.terminal_text(), what="the user's command")
    assert run(agent, "echo mine again", session="ours", timeout=LIMIT).content == "mine again"


def test_a_terminal_that_the_user_closes_is_reported_and_replaced(agent: SyncRuntime, window: Window) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(run, agent, "echo waiting; sleep 600", session="closed", timeout=500)
        wait_until(lambda: "waiting" in window.terminal_text(), what="the command")
        window.command("Terminal: Kill the Active Terminal Instance")
        answer = waiting.result()
    assert "ended" in answer.metadata.suffix
    assert run(agent, "echo again", session="closed", timeout=LIMIT).content == "again"


# A shell without integration.


@pytest.fixture(scope="module")
def plain(workstation: Workstation) -> Iterator[SyncRuntime]:
    """An agent in a window whose terminals are a plain sh."""
    settings = """{
        "terminal.integrated.profiles.linux": {"plain": {"path": "/bin/sh"}},
        "terminal.integrated.defaultProfile.linux": "plain",
        "glovebox.shellIntegrationTimeout": 1
    }"""
    with workstation.window(workstation.folder("plain", {".vscode/settings.json": settings})) as window:
        # VS Code detects shells when it opens the first terminal, and may use another one until then.
        window.command("Terminal: Create New Terminal")
        wait_until(lambda: window.terminal_text() != "", what="a prompt")
        window.connect()
        with window.agent() as agent:
            assert run(agent, "readlink /proc/$$/exe", timeout=LIMIT).content == os.path.realpath("/bin/sh")
            yield agent


@pytest.mark.parametrize(
    "shape", ["plain", "a subshell alone", "a here-document", "one that fails", "not ASCII"]
)
def test_a_shell_without_integration_runs_commands_too(plain: SyncRuntime, shape: str) -> None:
    command, content, code = SHAPES[shape]
    answer = run(plain, command, timeout=LIMIT)
    assert (answer.content, answer.metadata.exit_code) == (content, code)


def test_a_shell_without_integration_remembers_its_directory(plain: SyncRuntime) -> None:
    assert run(plain, "mkdir -p below && cd below", timeout=LIMIT).metadata.exit_code == 0
    assert run(plain, "pwd", timeout=LIMIT).content.endswith("/plain/below")


def test_a_shell_without_integration_is_interrupted_too(plain: SyncRuntime) -> None:
    assert run(plain, "echo begun; sleep 600", session="busy", timeout=10).content == "begun"
    assert run(plain, "C-c", session="busy", is_input=True, timeout=LIMIT).metadata.exit_code == 130
    assert run(plain, "echo next", session="busy", timeout=LIMIT).content == "next"
