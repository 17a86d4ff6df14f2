"""Commands of a `Box`: results, time limits, questions, handles."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox import AsyncBox, Box, CommandHandle
from glovebox.errors import (
    CommandEnded,
    CommandFailed,
    CommandTimeout,
    CommandWaits,
    PortClosed,
    SessionBusy,
)
from tests.client.support import OneBox, cutter, served
from tests.support.running import RunningBox
from tests.support.waiting import LIMIT, until, wait_until


@pytest.fixture
def used(box: RunningBox) -> Iterator[Box]:
    with Box(backend=OneBox(box.url)) as made:
        yield made


def test_a_command_has_output_exit_code_and_time(used: Box) -> None:
    done = used.run("echo out; echo err >&2; (exit 3)")
    assert (done.output.split(), done.exit_code, done.ok) == (["out", "err"], 3, False)
    assert (done.stdout, done.stderr) == (done.output, "")
    assert done.seconds >= 0
    assert repr(done).startswith("<CommandOutcome 'echo out; echo err >&2; (exit 3)': exit code 3, ")
    assert str(done) == done.output
    with pytest.raises(CommandFailed, match=r"(?s)exit code 3.*err") as failed:
        done.check()
    assert (failed.value.exit_code, failed.value.output) == (3, done.output)
    assert used.run("true").check().ok


def test_a_script_of_several_lines_is_one_command_and_its_state_lasts(used: Box, tmp_path: Path) -> None:
    assert (
        used.run(f"cd {tmp_path}\nX=1\nif true; then\n  echo in $PWD\nfi").output.strip() == f"in {tmp_path}"
    )
    assert used.run('echo "$X"').output.strip() == "1"
    assert used.run('echo "[$X]"', session="other").output.strip() == "[]"
    assert {"main", "other"} <= {session.name for session in used.sessions.list()}
    used.sessions.end("other")


def test_output_is_reported_in_the_callers_thread_where_the_box_may_be_used(
    used: Box, tmp_path: Path
) -> None:
    pieces: list[str] = []

    def report(text: str) -> None:
        pieces.append(text)
        if "ready" in text:
            used.exec(["touch", str(tmp_path / "go")])

    script = f"echo ready; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo done"
    done = used.run(script, on_output=report, timeout=LIMIT)
    assert "".join(pieces).split() == done.output.split() == ["ready", "done"]


def test_a_failed_callback_ends_the_wait_and_is_raised(used: Box) -> None:
    def fail(text: str) -> None:
        raise LookupError(text)

    with pytest.raises(LookupError, match="first"):
        used.run("echo first; sleep 600", on_output=fail, session="callback")
    used.sessions.end("callback")


def test_a_command_that_takes_too_long_goes_on_and_can_be_waited_for(used: Box, tmp_path: Path) -> None:
    with pytest.raises(CommandTimeout, match=r"(?s)still runs after 1 s.*begun") as late:
        used.run(f"echo begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo ended", timeout=1)
    assert isinstance(late.value, TimeoutError)
    assert late.value.output.strip() == "begun"
    handle = late.value.command
    assert isinstance(handle, CommandHandle)
    with pytest.raises(SessionBusy):
        used.run("echo next")
    used.exec(["touch", str(tmp_path / "go")])
    assert handle.result(LIMIT).output.split() == ["begun", "ended"]
    assert used.run("echo next").output.strip() == "next"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_command_that_asks_is_told_in_words_and_answered(used: Box, streamed: bool) -> None:
    pieces: list[str] = []
    with pytest.raises(CommandWaits, match="waits for input: Name\\?") as asked:
        used.run("read -p 'Name? ' name; echo hello $name", on_output=pieces.append if streamed else None)
    if streamed:
        assert "".join(pieces).strip() == "Name?"
    assert (asked.value.prompt, asked.value.asks_password) == ("Name?", False)
    asked.value.command.send("Ada\n")
    assert asked.value.command.result(LIMIT).output.splitlines()[-1] == "hello Ada"


def test_a_password_is_known_as_one(used: Box) -> None:
    with used.start("read -s -p 'Password: ' x; echo; echo got ${#x}") as job:
        status = job.wait(LIMIT)
        assert (status.asks_password, status.waits, status.ended) == (True, True, False)
        assert status.description == "waits for a password: Password:"
        assert "waits for a password" in repr(status)
        job.send("secret\n")
    assert job.output().splitlines()[-1] == "got 6"
    assert job.wait().exit_code == 0
    assert job.session not in {session.name for session in used.sessions.list()}


def test_a_pager_is_left_with_a_key(used: Box) -> None:
    with pytest.raises(CommandWaits, match="pager") as asked:
        used.run("seq 1 5000 | LESS= less")
    asked.value.command.keys("q")
    assert asked.value.command.result(LIMIT).ok


def test_a_started_command_is_followed_signalled_and_killed(used: Box) -> None:
    job = used.start("echo one; echo two; sleep 600")
    assert repr(job).startswith("<CommandHandle 'echo one; echo two; sleep 600' in start-")
    lines = iter(job)
    text = ""
    while "two" not in text:
        text += next(lines)
    assert text.split() == ["one", "two"]
    assert job.status().state == "running"
    job.signal("INT")
    assert job.result(LIMIT).exit_code == 130
    with pytest.raises(CommandEnded):
        job.send("x")
    job.kill()  # once more does nothing
    endless = used.start("while true; do sleep 0.1; done")
    endless.kill()
    assert repr(endless) == f"<CommandHandle 'while true; do sleep 0.1; done' in {endless.session}, killed>"
    assert "no exit code" in repr(endless.result())
    assert (endless.wait().ended, endless.result().exit_code) == (True, -1)
    assert endless.session not in {session.name for session in used.sessions.list()}


@pytest.mark.parametrize(
    "script",
    [
        "while true; do sleep 0.1; done",
        "trap '' INT; sleep 600",
        "bash -c \"trap '' INT; while true; do sleep 0.1; done\"",
    ],
)
def test_a_command_of_a_shared_session_is_killed_and_the_session_goes_on(used: Box, script: str) -> None:
    with pytest.raises(CommandTimeout) as late:
        used.run(script, timeout=0.2)
    late.value.command.kill()
    assert late.value.command.wait().ended
    assert used.run("echo next").output.strip() == "next"
    used.run("trap - INT")


def test_the_end_of_a_block_kills_what_waits_serves_or_failed(used: Box) -> None:
    with used.start("cat") as waiting:
        assert waiting.wait(LIMIT).waits
    with pytest.raises(LookupError), used.start("sleep 600") as running:
        raise LookupError
    sessions = {session.name for session in used.sessions.list()}
    assert not sessions & {waiting.session, running.session}


def test_a_server_is_waited_for_until_its_port_is_open(used: Box) -> None:
    serve = "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler); "
    program = f"{serve}print('port', s.server_port, flush=True); s.serve_forever()"
    with used.start(f'exec python3 -c "{program}"') as server:
        wait_until(
            lambda: (
                ("port " in server.output() and server.output().endswith("\n")) or server.output().split()[1:]
            )
        )
        port = int(server.output().split()[1])
        server.wait_for_port(port, timeout=LIMIT)
    assert server.session not in {session.name for session in used.sessions.list()}


def test_a_server_that_fails_is_told_with_its_output(used: Box) -> None:
    with (
        used.start("echo no such module; exit 1") as server,
        pytest.raises(PortClosed, match="no such module"),
    ):
        server.wait_for_port(1, timeout=LIMIT)
    with used.start("sleep 600") as silent, pytest.raises(PortClosed, match="within 1 s"):
        silent.wait_for_port(1, timeout=1)


def test_commands_are_listed(used: Box) -> None:
    done = used.run("echo listed")
    assert done.id in {command.id for command in used.sessions.commands()}


async def test_a_broken_connection_loses_and_repeats_nothing(box: RunningBox, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"seq 1 20000; until [ -e {go} ]; do sleep 0.05; done; echo end"
    async with cutter(box.url) as proxy, AsyncBox(backend=OneBox(proxy.url)) as used:
        text = ""
        async with await used.start(script) as job:
            async for piece in job:
                text += piece
                if "\n10000\n" in text and not go.exists():
                    proxy.cut()
                    go.touch()
        assert text.split() == [*map(str, range(1, 20001)), "end"]


async def test_a_box_that_is_killed_and_started_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    state, runs, go = tmp_path / "state", tmp_path / "runs", tmp_path / "go"
    script = f"echo run >> {runs}; seq 1 5000; until [ -e {go} ]; do sleep 0.05; done; echo end; exit 7"
    pieces: list[str] = []
    with served(tmp_path / "box", "--state-dir", str(state)) as box:
        async with AsyncBox(backend=OneBox(box.url)) as used:
            running = [
                asyncio.create_task(used.run(f"({script})", timeout=LIMIT)),
                asyncio.create_task(used.run(f"({script})", session="b", on_output=pieces.append)),
            ]
            program = asyncio.create_task(used.exec(script))
            await until(
                lambda: runs.exists() and len(runs.read_text().split()) == 3 and "5000" in "".join(pieces)
            )
            await asyncio.to_thread(box.kill)
            await asyncio.to_thread(box.start)
            go.touch()
            for outcome in await asyncio.gather(*running):
                assert outcome.output.split() == [*map(str, range(1, 5001)), "end"]
                assert outcome.exit_code == 7
            done = await program
            assert (done.stdout.split()[-1], done.exit_code) == ("end", 7)
            assert "".join(pieces).split() == [*map(str, range(1, 5001)), "end"]
            assert len(runs.read_text().split()) == 3
