"""The action `command`: a text of any shape as one command, answered when it ends, waits or runs late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from glovebox.box.terminal.results import command_result
from glovebox.errors import BadInput, CommandEnded, SessionBusy, SessionTaken
from glovebox.protocol.observations import CmdOutputObservation
from glovebox.protocol.terminal import CommandAction, CommandObservation, CommandResult
from tests.box.terminal.console import Console
from tests.support.waiting import LIMIT, until

PASSWORD = """python3 -c 'import getpass; print("got", getpass.getpass("Code word: "))'"""


async def command(shell: Console, text: str, **args: Any) -> CommandObservation:
    action = CommandAction(command=text, **args)
    answer = await asyncio.wait_for(shell.executor.execute(action), LIMIT)
    assert isinstance(answer, CommandObservation)
    return answer


async def waited(shell: Console, command_id: str, *, offset: int = 0, **args: Any) -> CommandResult:
    running = shell.terminal.command(command_id)
    outcome = await asyncio.wait_for(running.wait(timeout=None, **args), LIMIT)
    return await command_result(running, outcome, shell.terminal._threads, offset=offset)


async def test_a_script_of_several_lines_is_one_command(shell: Console) -> None:
    script = "cd /tmp\nfor i in 1 2; do\n  echo $i\ndone\ncat <<END\n  a 'b' \"c\"\nEND\nX=kept\n(exit 3)\n"
    answer = await command(shell, script)
    assert answer.content == "1\n2\n  a 'b' \"c\"\n"
    info = answer.command
    assert (info.state, info.exit_code, info.cwd, info.session) == ("ended", 3, "/tmp", "main")
    assert (answer.timed_out, answer.truncated, answer.notes, answer.success) == (False, False, [], False)
    assert info.bill is not None
    assert (await command(shell, "echo $X; pwd")).content == "kept\n/tmp\n"


async def test_a_syntax_error_is_told_in_the_words_of_bash(shell: Console) -> None:
    answer = await command(shell, "echo before\nif true; then")
    assert answer.command.exit_code == 2
    assert "syntax error" in answer.content
    answer = await command(shell, "echo 'open")
    assert answer.command.exit_code == 2
    assert "unexpected EOF" in answer.content
    assert (await command(shell, "echo fine")).content == "fine\n"


@pytest.mark.parametrize("text", ["", " \n", "echo a\0b", "echo \ud800"])
async def test_what_no_shell_can_be_given_is_refused(shell: Console, text: str) -> None:
    with pytest.raises(BadInput):
        await command(shell, text)


async def test_a_command_beyond_its_time_goes_on_and_its_rest_stays_its_own(shell: Console) -> None:
    first = await command(shell, "echo one; until [ -e flag ]; do sleep 0.01; done; echo two", timeout=0.3)
    assert (first.timed_out, first.content, first.command.exit_code) == (True, "one\n", None)
    with pytest.raises(SessionBusy, match=first.command.id):
        await command(shell, "echo refused")
    (shell.workspace / "flag").touch()
    rest = await waited(shell, first.command.id, offset=first.output_end)
    assert (rest.output, rest.command.exit_code) == ("two\n", 0)
    assert (await command(shell, "echo three")).content == "three\n"


async def test_an_end_that_nobody_saw_is_a_note_of_the_next_command(shell: Console) -> None:
    first = await command(shell, "echo one; until [ -e flag ]; do sleep 0.01; done; echo late", wait=False)
    assert first.command.state != "ended"
    (shell.workspace / "flag").touch()
    running = shell.terminal.command(first.command.id)
    await until(lambda: running.finished, "its end")
    second = await command(shell, "echo second")
    assert second.content == "second\n"
    assert first.command.id in second.notes[0]


async def test_output_of_background_jobs_is_marked(shell: Console) -> None:
    await command(shell, "(until [ -e flag ]; do sleep 0.01; done; echo from the job; touch said) &")
    (shell.workspace / "flag").touch()
    await until((shell.workspace / "said").exists, "the job's end")
    session = shell.terminal.session("main")
    await until(lambda: b"from the job" in session.shell.log.fetch(0, 1 << 20), "its output")
    answer = await command(shell, "echo mine")
    assert answer.content == "mine\n"
    assert "from the job" in answer.notes[0]


async def test_a_prompt_is_answered_while_somebody_waits(shell: Console) -> None:
    asked = await command(shell, PASSWORD, on_wait="return")
    info = asked.command
    assert (info.state, info.prompt, info.echo_off) == ("waiting_for_input", "Code word:", True)
    waiting = asyncio.ensure_future(waited(shell, info.id, offset=asked.output_end))
    await shell.terminal.command(info.id).send("sesame\n", ())
    result = await waiting
    assert (result.output.strip(), result.command.exit_code) == ("got sesame", 0)
    with pytest.raises(CommandEnded):
        await shell.terminal.command(info.id).send("more", ())


async def test_each_prompt_of_a_program_is_returned(shell: Console) -> None:
    answer = await command(shell, 'for i in 1 2 3; do read -p "number $i? " x; done', on_wait="return")
    for number in (1, 2, 3):
        assert answer.command.prompt == f"number {number}?"
        running = shell.terminal.command(answer.command.id)
        await running.send(f"{number}\n", ())
        result = await waited(shell, answer.command.id, offset=answer.output_end, for_input=True)
        answer = CommandObservation.of(result)
    assert answer.command.exit_code == 0


async def test_pagers_and_keys(shell: Console) -> None:
    (shell.workspace / "text").write_text("".join(f"line {number}\n" for number in range(5000)))
    asked = await command(shell, "less text", on_wait="return")
    assert asked.command.state == "pager"
    running = shell.terminal.command(asked.command.id)
    with pytest.raises(BadInput, match="Nokey"):
        await running.send("", ["Nokey"])
    await running.send("", ["Down", "End", "q"])
    assert (await waited(shell, asked.command.id)).command.exit_code == 0


async def test_input_before_a_command_has_begun_reaches_it(shell: Console) -> None:
    begun = await command(shell, 'read x; echo "[$x]"', wait=False)
    running = shell.terminal.command(begun.command.id)
    await running.send("early\n", ())
    assert (await waited(shell, begun.command.id)).output.endswith("[early]\n")


async def test_a_shell_that_ended_is_a_note_and_the_next_one_too(shell: Console) -> None:
    answer = await command(shell, "exit 5")
    assert answer.command.exit_code == 5
    assert "ended with exit code 5" in answer.notes[-1]
    assert (await command(shell, "echo again")).content == "again\n"


async def test_the_contract_goes_on_beside_it(shell: Console) -> None:
    first = await command(shell, "echo one; until [ -e flag ]; do sleep 0.01; done; echo two", timeout=0.3)
    refused = await shell.run("echo no")
    assert "NOT executed" in refused.metadata.suffix
    (shell.workspace / "flag").touch()
    await waited(shell, first.command.id)
    after = await shell.run("echo contract")
    assert isinstance(after, CmdOutputObservation)
    assert after.content == "contract"
    assert (await command(shell, "echo native")).content == "native\n"


async def test_a_person_keeps_commands_out(shell: Console) -> None:
    session = shell.terminal.session("main")
    session.take(self := object())
    with pytest.raises(SessionTaken):
        await command(shell, "echo no")
    session.release(self)


async def test_much_output_has_its_beginning_and_its_end(shell: Console) -> None:
    answer = await command(shell, "seq 1 20000")
    assert answer.content == "".join(f"{number}\n" for number in range(1, 20001))
    answer = await command(shell, "yes 0123456789 | head -n 400000; echo last")
    assert answer.truncated
    assert answer.content.startswith("0123456789\n")
    assert answer.content.endswith("\nlast\n")
    assert "are left out here" in answer.content
    short = await command(shell, "seq 1 20000", budget=500)
    assert short.truncated
    assert len(short.content) <= 600


async def test_the_terminal_has_the_size_that_a_command_wants(shell: Console) -> None:
    size = "stty size; echo $COLUMNS; tput cols"
    assert (await command(shell, size)).content == "40 120\n120\n120\n"
    assert (await shell.run(size)).content == "1000 1000\n1000\n1000"
    assert (await command(shell, size)).content == "40 120\n120\n120\n"
    assert (await command(shell, "echo same")).notes == []
    info = shell.terminal.session("main").info()
    assert (info.rows, info.columns) == (40, 120)
    long = "x" * 500
    assert (await command(shell, f"echo {long}")).content == f"{long}\n"
    shell.terminal.session("main").shell.resize(30, 90)
    while (await command(shell, size)).content != "30 90\n90\n90\n":  # tmux takes its time
        pass
    assert (await shell.run(size)).content == "30 90\n90\n90"
