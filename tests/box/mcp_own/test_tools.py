"""Tools of a box, called by clients of the MCP SDK through a real `glovebox mcp`."""

from __future__ import annotations

import base64
import concurrent.futures
import os
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from mcp.types import ImageContent

from tests.box.mcp_own.connecting import LIMIT, Connected, Heard, text_of
from tests.support.running import wait_until

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A pipe that a command waits at until the test has written to it."""
    os.mkfifo(tmp_path / "gate")
    return tmp_path / "gate"


def test_tools_are_listed_with_schemas_and_hints(client: Connected) -> None:
    tools = {tool.name: tool for tool in client.do(client.client.list_tools).tools}
    assert {"run", "read", "write", "edit", "glob", "grep", "stat", "move", "delete", "mkdir"} <= set(tools)
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.title
        assert tool.description
    assert tools["run"].input_schema["required"] == ["command"]
    assert tools["read"].annotations is not None
    assert tools["read"].annotations.read_only_hint is True
    assert tools["run"].annotations is not None
    assert tools["run"].annotations.read_only_hint is False


def test_who_it_is_and_what_it_can_do_is_told(client: Connected) -> None:
    assert client.client.server_info is not None
    assert client.client.server_info.name == "glovebox"
    assert client.client.server_info.version
    assert str(client.workspace) in (client.client.instructions or "")
    capabilities = client.client.server_capabilities
    assert capabilities.tools is not None
    assert capabilities.tools.list_changed
    assert capabilities.resources is not None


def test_files_are_written_read_edited_and_found(client: Connected) -> None:
    path = str(client.workspace / "notes.txt")
    client.text("write", path=path, content="one\ntwo\n")
    assert "two" in client.text("read", path=path)
    client.text("edit", command="str_replace", path=path, old_str="two", new_str="three")
    assert (client.workspace / "notes.txt").read_text() == "one\nthree\n"
    assert path in client.text("glob", pattern="*.txt", path=str(client.workspace))
    assert f"{path}:2:three" in client.text("grep", pattern="thr.e", path=str(client.workspace))


def test_a_shell_persists_and_its_exit_codes_are_told(client: Connected) -> None:
    client.text("run", command="export COLOUR=green; mkdir -p below; cd below")
    assert "green" in client.text("run", command="echo $COLOUR; pwd")
    answer = client.call("run", command="(exit 3)")
    assert not answer.is_error
    assert "exit code 3" in text_of(answer)


def test_what_goes_wrong_is_a_result_for_the_model(client: Connected) -> None:
    missing = client.call("read", path="/nowhere/at/all")
    assert missing.is_error
    assert "/nowhere/at/all" in text_of(missing)
    unknown = client.call("reed", path="x")
    assert unknown.is_error
    assert text_of(unknown).startswith("Unknown tool: reed")
    assert "Did you mean read" in text_of(unknown)
    argument = client.call("run", cmd="ls")
    assert argument.is_error
    assert "'command'" in text_of(argument)


def test_an_image_comes_as_an_image(client: Connected) -> None:
    (client.workspace / "dot.png").write_bytes(PNG)
    result = client.call("read", path="dot.png")
    (image,) = [part for part in result.content if isinstance(part, ImageContent)]
    assert image.mime_type == "image/png"
    assert base64.b64decode(image.data) == PNG


def test_output_that_is_not_text_is_shown_all_the_same(client: Connected) -> None:
    heard = Heard()
    result = client.begin("run", heard, command=r"printf 'a\xff\xfeb\n'").result(LIMIT)
    assert text_of(result).startswith("ab\n")
    assert heard.text.replace("\ufffd", "") == "ab\n"


# Progress


def test_progress_carries_output_while_a_command_runs(client: Connected, gate: Path) -> None:
    heard = Heard()
    call = client.begin("run", heard, command=f"echo first; cat {gate}; echo last")
    heard.wait_for("first\n")
    assert not call.done()
    gate.write_text("through the gate\n")
    assert "first\nthrough the gate\nlast" in text_of(call.result(LIMIT))
    assert heard.text == "first\nthrough the gate\nlast\n"
    assert heard.numbers == sorted(set(heard.numbers))
    assert heard.numbers[-1] == len(heard.text)


def test_no_output_is_lost_on_the_way(client: Connected) -> None:
    heard = Heard()
    result = client.begin("run", heard, command="seq 300000").result(LIMIT)
    assert heard.text.split() == [str(number) for number in range(1, 300_001)]
    assert len(text_of(result)) < 40_000
    assert len(heard.messages) < 300


def test_looking_at_a_running_command_tells_what_it_prints_meanwhile(client: Connected, gate: Path) -> None:
    ticking = f"echo early; while ! test -s {gate}-open; do echo tick; sleep 0.05; done; echo late"
    client.call("run", command=ticking, session="looked-at", timeout=1)
    heard = Heard()
    call = client.begin("run", heard, command="", session="looked-at", timeout=LIMIT)
    heard.wait_for("tick")
    Path(f"{gate}-open").write_text("now")
    assert "late" in text_of(call.result(LIMIT))
    assert heard.text.endswith("tick\nlate\n")
    assert "early" not in heard.text


# Giving up


def test_a_call_that_is_given_up_is_interrupted_and_its_shell_is_free(client: Connected) -> None:
    client.text("run", command="KEPT=variables", session="stopped")
    heard = Heard()
    call = client.begin("run", heard, command="(echo pid=$BASHPID; exec sleep 1000)", session="stopped")
    heard.wait_for("\n")
    pid = int(heard.text.partition("pid=")[2])
    call.cancel()
    answer = client.text("run", command="echo still has $KEPT", session="stopped")
    assert answer.startswith("still has variables\n")
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), LIMIT, "the command to end")


def test_a_command_that_ignores_signals_is_ended_all_the_same(modern: Connected) -> None:
    heard = Heard()
    deaf = "(trap '' INT TERM; echo listening; while true; do sleep 1000; done)"
    call = modern.begin("run", heard, command=deaf, session="deaf")
    heard.wait_for("listening")
    call.cancel()
    assert modern.text("run", command="echo free again", session="deaf").startswith("free again\n")


def test_giving_up_a_call_that_waits_its_turn_leaves_the_running_command_alone(
    modern: Connected, gate: Path
) -> None:
    heard = Heard()
    running = modern.begin("run", heard, command=f"echo running; cat {gate}; echo done", session="queue")
    heard.wait_for("running")
    waiting = modern.begin("run", Heard(), command="echo never", session="queue")
    assert "still" in modern.text("run", command="echo still", session="beside")
    waiting.cancel()
    assert "still" in modern.text("run", command="echo still", session="beside")
    gate.write_text("go on\n")
    assert "go on\ndone" in text_of(running.result(LIMIT))


def test_giving_up_looking_leaves_a_command_running(modern: Connected, gate: Path) -> None:
    modern.call("run", command=f"echo begun; cat {gate}; echo whole", session="kept", timeout=1)
    looking = modern.begin("run", Heard(), command="", session="kept", timeout=LIMIT)
    assert "still" in modern.text("run", command="echo still", session="beside")
    looking.cancel()
    assert "still" in modern.text("run", command="echo still", session="beside")
    gate.write_text("go on\n")
    answer = modern.text("run", command="", session="kept", timeout=LIMIT)
    assert "whole" in answer


# At once


def test_sessions_work_side_by_side(client: Connected, gate: Path) -> None:
    heard = Heard()
    reader = client.begin("run", heard, command=f"cat {gate}", session="reader")
    client.text("run", command=f"echo met > {gate}", session="writer")
    assert "met" in text_of(reader.result(LIMIT))


def test_clients_have_boxes_of_their_own(modern: Connected, legacy: Connected) -> None:
    with concurrent.futures.ThreadPoolExecutor() as threads:
        both = [
            threads.submit(one.text, "run", command=f"WHO={name}; echo I am $WHO", session="who")
            for one, name in ((modern, "modern"), (legacy, "legacy"))
        ]
        assert ["I am modern" in both[0].result(), "I am legacy" in both[1].result()] == [True, True]
    assert "modern" in modern.text("run", command="echo $WHO", session="who")
