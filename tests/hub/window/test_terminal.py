"""`run` in a window: the contract's answers, from what the window tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from glovebox.errors import OutputGone, WindowLost
from glovebox.hub.window.shell import MemoryLog
from glovebox.hub.window_client import OrderRefused
from glovebox.protocol.actions import CmdRunAction
from glovebox.protocol.events import ActionOutput
from glovebox.protocol.terminal import Limits
from glovebox.protocol.window import EndSession, Input, Order, Run, RunApart, RunEnded
from tests.hub.window.window_box import Acting, acting, failing
from tests.support.waiting import LIMIT, until


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Acting]:
    async with acting(tmp_path) as box:
        yield box


async def is_busy(box: Acting) -> bool:
    return bool((await box.client.get("/sessions/main")).json()["command"])


async def is_idle(box: Acting) -> bool:
    return not await is_busy(box)


async def test_a_command_answers_with_its_output_status_and_directory(box: Acting, tmp_path: Path) -> None:
    ran = await box.run("echo hello; mkdir -p sub && cd sub && (exit 3)")
    assert (ran.content, ran.metadata.exit_code) == ("hello", 3)
    assert ran.metadata.working_dir == str(tmp_path / "sub")
    assert ran.metadata.suffix == "\n[The command completed with exit code 3.]"
    assert (ran.metadata.username, ran.metadata.py_interpreter_path) == ("", "")
    assert await box.output("X=kept; pwd") == str(tmp_path / "sub")
    assert await box.output("echo $X") == "kept"


async def test_colours_and_progress_are_rendered_and_streams_hear_it_as_it_comes(box: Acting) -> None:
    ran = await box.run(r"printf '\e[31mred\e[0m 10%%\r100\n'; printf 'x\ty\n'")
    assert ran.content == "100 10%\nx       y"
    told = [event for event in box.box.executor.events.since(0) if isinstance(event, ActionOutput)]
    assert "".join(event.text for event in told).startswith("red 10%\r100\n")
    assert "\x1b" not in "".join(event.text for event in told)


async def test_a_terminal_that_has_to_be_opened_may_take_longer_to_say_something(box: Acting) -> None:
    assert await box.output("sleep 1.3; echo first") == "first"


async def test_the_end_of_the_shell_is_told_and_the_next_one_begins_where_it_was(
    box: Acting, tmp_path: Path
) -> None:
    await box.run("mkdir sub; cd sub")
    ended = await box.run("echo bye; exit 5")
    assert (ended.content, ended.metadata.exit_code) == ("bye", 5)
    assert "The shell itself ended with exit code 5" in ended.metadata.suffix
    assert await box.output("pwd") == str(tmp_path / "sub")


async def test_a_shell_whose_directory_is_gone_begins_in_the_first_folder(
    box: Acting, tmp_path: Path
) -> None:
    def missing(order: Order) -> None:
        if isinstance(order, Run | RunApart) and order.cwd.endswith("sub"):
            raise OrderRefused("not_found", f"{order.cwd} does not exist.")

    await box.run("mkdir sub; cd sub")
    await box.run("rmdir ../sub; exit 0")
    box.hands.before = missing
    assert await box.output("pwd") == str(tmp_path)
    assert await box.output("pwd", is_static=True, cwd=f"{tmp_path}/sub") == str(tmp_path)


async def test_a_window_without_a_folder_decides_where_nothing_runs() -> None:
    async with acting() as box:
        assert (await box.refused(CmdRunAction(command="pwd"))).error_id == "no_folder"


async def test_an_unknown_exit_code_is_minus_one_with_the_reason(box: Acting) -> None:
    box.hands.after = lambda end: RunEnded(exit_code=None, cwd="")
    ran = await box.run("echo it")
    assert (ran.content, ran.metadata.exit_code) == ("it", -1)
    assert "VS Code did not tell the exit code" in ran.metadata.suffix


async def test_several_commands_and_what_no_shell_takes_are_refused(box: Acting) -> None:
    refused = await box.refused(CmdRunAction(command="echo a\necho b"))
    assert refused.content.startswith("ERROR: Cannot execute multiple commands at once.")
    assert "NUL" in (await box.refused(CmdRunAction(command="a\0b"))).content
    assert "limited" in (await box.refused(CmdRunAction(command="a", limits=Limits(memory=1 << 30)))).content
    assert "session" in (await box.refused(CmdRunAction(command="a", session="no/such"))).content
    assert box.hands.orders == []


async def test_sessions_have_a_shell_each_and_run_at_the_same_time(box: Acting, tmp_path: Path) -> None:
    await asyncio.gather(box.run("X=one"), box.run("X=two", session="other"))
    waiting = asyncio.create_task(
        box.run("until [ -e go ]; do sleep 0.02; done; echo $X", timeout=LIMIT, blocking=True)
    )
    assert await box.output("touch go; echo $X", session="other") == "two"
    assert (await waiting).content == "one"
    assert [one["name"] for one in (await box.client.get("/sessions")).json()] == ["main", "other"]
    assert (await box.client.delete("/sessions/other")).status_code == 204
    assert isinstance(box.hands.orders[-1], EndSession)
    assert (await box.client.get("/sessions/other")).status_code == 404
    assert await box.output("echo [$X]", session="other") == "[]"


async def test_a_static_command_runs_apart_and_leaves_no_trace(box: Acting, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert await box.output("X=1; cd sub; pwd", is_static=True) == str(tmp_path / "sub")
    assert await box.output("pwd; echo [$X]", is_static=True, cwd=str(tmp_path / "sub")) == (
        f"{tmp_path}/sub\n[]"
    )
    assert await box.output("pwd; echo [$X]") == f"{tmp_path}\n[]"
    assert [type(order) for order in box.hands.orders] == [RunApart, RunApart, Run]


async def test_what_the_window_refuses_is_an_error_with_its_code_and_the_next_one_runs(box: Acting) -> None:
    box.hands.before = failing("busy", Run)
    refused = await box.refused(CmdRunAction(command="echo a"))
    assert (refused.error_id, refused.content) == ("busy", "because of busy")
    assert await box.output("echo b") == "b"
    box.hands.acting.trusted = False
    assert (await box.refused(CmdRunAction(command="echo c"))).error_id == "untrusted"


async def test_a_window_that_is_lost_fails_the_action_and_polls_are_told_once(box: Acting) -> None:
    box.hands.before = failing(WindowLost("The window was reloaded."), Run)
    with pytest.raises(WindowLost, match="reloaded"):
        await box.run("echo a")
    assert (await box.run("")).content.startswith("ERROR: No previous running command")
    assert await box.output("echo b") == "b"


async def test_input_that_comes_too_late_is_no_failure(box: Acting) -> None:
    await box.run("true")
    await box.run("sleep 3; echo done", timeout=0.2, blocking=True)
    box.hands.before = failing("no_session", Input)
    ended = await box.run("x", is_input=True, timeout=LIMIT, blocking=True)
    assert ended.content == "done"


async def test_long_output_is_kept_in_part_and_can_be_read_and_digested(box: Acting) -> None:
    ran = await box.run("seq 20000", budget=500)
    assert len(ran.content) <= 500
    assert "20,000 lines" in ran.content
    short = await box.run("seq 60000")
    assert "[Previous command outputs are truncated." in short.metadata.prefix
    ended = [event for event in box.box.executor.events.since(0) if event.event == "command_ended"]
    command = ended[0].command  # type: ignore[attr-defined]
    page = (await box.client.get(f"/commands/{command.id}/output", params={"offset": 3, "limit": 6})).json()
    assert page["text"].split() == ["2", "3"]
    found = await box.client.get(f"/commands/{command.id}/output", params={"search": "19999"})
    assert found.json()["matches"][0]["line"] == 19999
    info = (await box.client.get(f"/commands/{command.id}")).json()
    assert (info["state"], info["exit_code"]) == ("ended", 0)


async def test_a_signal_is_sent_by_its_key(box: Acting) -> None:
    await box.run("true")
    await box.run("sleep 30", timeout=0.2, blocking=True)
    assert (await box.client.post("/sessions/main/signal", json={"signal": "KILL"})).status_code == 422
    command = (await box.client.get("/sessions/main")).json()["command"]
    assert (await box.client.post(f"/commands/{command}/signal", json={"signal": "INT"})).status_code == 200
    assert (await box.run("", timeout=LIMIT, blocking=True)).metadata.exit_code == 130
    assert (await box.client.post("/sessions/main/signal", json={"signal": "INT"})).status_code == 409


async def test_keys_at_the_idle_prompt_are_answered(box: Acting) -> None:
    await box.run("true")
    pressed = await box.run("C-z")
    assert pressed.metadata.suffix == "\n[The command completed with exit code 0. CTRL+Z was sent.]"
    ended = await box.run("C-d")
    assert "The shell itself ended" in ended.metadata.suffix
    await until(lambda: box.hands.acting.terminals.find("main") is None, "the end of the shell")
    assert await box.output("echo again") == "again"
    assert (await box.run("C-c")).metadata.exit_code == 130


async def test_a_session_that_is_ended_answers_the_command_that_waits(box: Acting) -> None:
    await box.run("true")
    waiting = asyncio.create_task(
        box.box.executor.execute(
            CmdRunAction(command="while :; do sleep 0.05; done", timeout=60, blocking=True)
        )
    )
    await until(lambda: is_busy(box), "the command")
    assert (await box.client.delete("/sessions/main")).status_code == 204
    assert (await waiting).content == "Bash session was likely interrupted..."
    assert await box.output("echo new") == "new"


def test_the_log_keeps_the_newest_and_says_what_is_gone() -> None:
    log = MemoryLog(keep=1 << 20)
    for number in range(4):
        assert log.append(bytes([number]) * (1 << 20)) == number << 20
    assert log.begin > 0
    assert log.fetch(log.end - 2, 10) == b"\3\3"
    assert log.fetch(log.end) == b""
    with pytest.raises(OutputGone):
        log.fetch(0)


async def test_a_refusal_while_typing_is_an_error_and_the_command_goes_on(box: Acting) -> None:
    await box.run("true")
    await box.run("sleep 3; echo done", timeout=0.2, blocking=True)
    box.hands.before = failing("untrusted", Input)
    refused = await box.refused(CmdRunAction(command="x", is_input=True))
    assert refused.error_id == "untrusted"
    assert (await box.run("", timeout=LIMIT, blocking=True)).content == "done"


async def test_commands_outside_the_contract_run_in_a_window(box: Acting, tmp_path: Path) -> None:
    answer = await box.client.post("/commands", json={"command": "cd /\necho one\n(exit 3)"})
    result = answer.json()
    assert answer.status_code == 200, result
    assert (result["output"], result["command"]["exit_code"]) == ("one\n", 3)
    begun = (
        await box.client.post("/commands", json={"command": "echo ready; read x; echo [$x]", "timeout": 1})
    ).json()
    assert begun["timed_out"]
    path = f"/commands/{begun['command']['id']}"
    busy = await box.client.post("/commands", json={"command": "true"})
    assert busy.headers["x-glovebox-error"] == "session_busy"
    assert (await box.client.post(f"{path}/input", json={"text": "typed\n"})).status_code == 200
    ended = (await box.client.post(f"{path}/wait", json={"timeout": LIMIT})).json()
    assert ended["command"]["exit_code"] == 0
    assert "[typed]" in ended["output"]
