"""A person at the same terminal: what they type, and when it is theirs alone."""

from __future__ import annotations

import pytest

from glovebox.box.terminal.commands import RunningCommand
from glovebox.box.terminal.manager import BoxSession
from glovebox.errors import SessionTaken
from glovebox.protocol.events import SessionChanged
from glovebox.protocol.observations import ErrorObservation
from tests.box.terminal.console import Console
from tests.support.waiting import LIMIT, until


def entered(session: BoxSession) -> list[RunningCommand]:
    """The commands that a person entered."""
    return [command for command in session.commands.of_session(session.name) if command.by == "person"]


async def enter(session: BoxSession, line: bytes) -> RunningCommand:
    """Type a line at the prompt and wait for its command to begin."""
    before = len(entered(session))
    session.shell.type(line + b"\r")
    await until(lambda: len(entered(session)) > before, f"{line!r} was entered")
    return entered(session)[-1]


async def test_what_a_person_enters_is_a_command_with_an_id(shell: Console) -> None:
    session = shell.terminal.session("main")
    command = await enter(session, b"echo from a 'person'; (exit 3)")
    await until(lambda: command.finished, "it ended")
    info = shell.terminal.command(command.id).info()
    assert (info.by, info.command, info.exit_code) == ("person", "echo from a 'person'; (exit 3)", 3)
    assert await command.read(0) == b"from a person\r\n"
    assert info.bill is not None
    assert await shell.output("echo agent") == "agent"
    assert entered(session) == [command]


async def test_an_agent_waits_for_the_program_of_a_person(shell: Console) -> None:
    session = shell.terminal.session("main")
    command = await enter(session, b"cat")
    assert session.info().command == command.id
    refused = await shell.run("echo no")
    assert (refused.content, refused.metadata.exit_code) == ("", -1)
    assert refused.metadata.suffix.startswith(
        '\n[Your command "echo no" is NOT executed. The previous command is still running - You CANNOT send'
    )
    session.shell.type(b"some text\r")
    await until(lambda: command.size >= len(b"some text\r\n") * 2, "it was echoed")
    session.shell.type(b"\x04")
    await until(lambda: command.finished, "it ended")
    assert await command.read(0) == b"some text\r\n" * 2
    answer = await shell.run("echo yes")
    assert (answer.content, answer.metadata.prefix) == ("yes", "")


async def test_an_agent_may_ask_for_what_a_person_runs_and_end_it(shell: Console) -> None:
    session = shell.terminal.session("main")
    command = await enter(session, b"echo visible; sleep 1000")
    await until(lambda: command.size > 0, "it printed")
    assert (await shell.poll(timeout=0.2)).content == "visible"
    ended = await shell.type("C-c")
    assert (ended.content, ended.metadata.exit_code) == ("^C", 130)
    assert await shell.output("echo yes") == "yes"


async def test_where_a_person_goes_the_agent_is(shell: Console) -> None:
    session = shell.terminal.session("main")
    (shell.workspace / "sub").mkdir()
    command = await enter(session, b"cd sub; variable=theirs")
    await until(lambda: command.finished, "it ended")
    answer = await shell.run('pwd; echo "$variable"')
    assert answer.content == f"{shell.workspace}/sub\ntheirs"
    assert shell.terminal.cwd == f"{shell.workspace}/sub"


async def test_several_lines_are_several_commands(shell: Console) -> None:
    session = shell.terminal.session("main")
    session.shell.type(b"echo one\recho two\r")
    await until(lambda: [one.finished for one in entered(session)] == [True, True], "both ended")
    assert [command.text for command in entered(session)] == ["echo one", "echo two"]
    assert [await command.read(0) for command in entered(session)] == [b"one\r\n", b"two\r\n"]
    assert await shell.output("echo three") == "three"


async def test_a_person_may_end_the_shell(shell: Console) -> None:
    session = shell.terminal.session("main")
    command = await enter(session, b"exit 4")
    await until(lambda: command.finished, "it ended")
    assert command.info().exit_code == 4
    answer = await shell.run("echo fresh")
    assert answer.content == "fresh"
    assert "The previous shell had ended with exit code 4" in answer.metadata.prefix


async def test_everything_on_the_terminal_can_be_followed(shell: Console) -> None:
    session = shell.terminal.session("main")
    begin = session.shell.position
    await shell.run("echo watched")
    seen = b""
    while b"watched\r\n" not in seen:
        await session.shell.changed(begin + len(seen))
        seen += await session.shell.read(begin + len(seen))
    assert session.shell.position >= begin + len(seen)


async def test_a_person_takes_a_session_over_and_hands_it_back(shell: Console) -> None:
    session = shell.terminal.session("main")
    person, other = object(), object()
    session.take(person)
    session.take(person)
    assert (session.taken_by(person), session.taken_by(other), session.info().taken) == (True, False, True)
    with pytest.raises(SessionTaken, match="Somebody else"):
        session.take(other)

    refused = await shell.answer("touch no")
    assert isinstance(refused, ErrorObservation)
    assert refused.content.startswith("ERROR: A person has taken over the session 'main'")
    assert isinstance(await shell.answer("y", is_input=True), ErrorObservation)
    assert "No previous running command" in (await shell.poll()).content
    assert await shell.output("echo free", session="two") == "free"

    session.release(other)
    assert session.taken_by(person)
    session.release(person)
    assert not session.info().taken
    assert await shell.output("ls; echo back") == "back"
    changes = [event for event in shell.events.since(0) if isinstance(event, SessionChanged)]
    assert [one.what for one in changes if one.what in ("taken", "released")] == [
        "taken",
        "taken",
        "released",
    ]


async def test_a_command_that_runs_when_a_person_comes_is_answered(shell: Console) -> None:
    session = shell.terminal.session("main")
    await shell.run('read -r line; echo "got $line"', timeout=0.2)
    session.take(session)
    assert isinstance(await shell.answer("C-c", is_input=True), ErrorObservation)
    session.shell.type(b"it\r")
    answer = await shell.poll(timeout=LIMIT, blocking=True)
    assert (answer.content, answer.metadata.exit_code) == ("it\ngot it", 0)
