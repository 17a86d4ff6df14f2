from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest

from glovebox import settings
from glovebox.box.box import Box
from glovebox.box.events import EventLog
from glovebox.box.executor import Call, Executor
from glovebox.box.machine import MainShell
from glovebox.box.startup import Startup
from glovebox.box.tools import Toolbox, ToolSource, session_of
from glovebox.errors import McpError, UnknownTool
from glovebox.protocol.actions import (
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
)
from glovebox.protocol.events import ActionStarted
from glovebox.protocol.files import StatAction
from glovebox.protocol.observations import (
    CmdOutputObservation,
    FileReadObservation,
    FileWriteObservation,
    MCPObservation,
)
from glovebox.protocol.terminal import CommandObservation
from glovebox.protocol.tools.actions import ENTRIES
from glovebox.protocol.tools.base import ImagePart, Tool, ToolCall, ToolResult
from tests.support.running import wait_until
from tests.support.waiting import LIMIT


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    chosen = settings.load({"working_dir": str(tmp_path)}, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    async with Box(chosen, Startup()) as box:
        yield box


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


async def together(box: Box, *calls: ToolCall) -> list[ToolResult]:
    """The results of calls of one turn, within a limit."""
    async with asyncio.timeout(LIMIT):
        return await box.toolbox.call_all(calls)


# One call.


async def test_a_box_lists_what_it_can_do(box: Box) -> None:
    names = [tool.name for tool in await box.toolbox.tools()]
    assert names[0] == "run"
    assert set(names) == set(ENTRIES) - {"run_ipython"}


async def test_calls_are_carried_out_and_told_to_the_model(box: Box, tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "a.txt")
    assert "I wrote to" in (await box.toolbox.call(call("write", path=path, content="one\ntwo\n"))).text
    assert (await box.toolbox.call(call("read", path=path))).text == "one\ntwo\n"
    numbered = await box.toolbox.call(call("read", path=path, view_range=[2, 2]))
    assert numbered.text.endswith("     2\ttwo\n")
    ran = await box.toolbox.call(call("run", command="wc -l < deep/a.txt; false"))
    assert ran.text.startswith("2\n")
    assert ran.text == f"2\n[The command ended with exit code 1. Current directory: {tmp_path}]"
    assert not ran.is_error
    assert isinstance(ran.observation, CommandObservation)
    assert path in (await box.toolbox.call(call("grep", pattern="two"))).text
    assert (await box.toolbox.call(call("delete", path="deep", recursive=True))).is_error is False
    assert not (tmp_path / "deep").exists()


async def test_tools_of_other_makers_work(box: Box, tmp_path: Path) -> None:
    path = str(tmp_path / "a.py")
    created = call("str_replace_based_edit_tool", command="create", path=path, file_text="x = 1\n")
    assert "created successfully" in (await box.toolbox.call(created)).text
    inserted = call("str_replace_editor", command="insert", path=path, insert_line=1, insert_text="y = 2")
    assert "     2\ty = 2" in (await box.toolbox.call(inserted)).text
    refused = await box.toolbox.call(
        call("str_replace_editor", command="str_replace", path=path, old_str="z")
    )
    assert refused.is_error
    assert "did not appear verbatim" in refused.text
    assert (
        "y = 2" in (await box.toolbox.call(call("execute_bash", command="cat a.py", is_input="false"))).text
    )
    assert "a.py" in (await box.toolbox.call(call("view", path=str(tmp_path)))).text


async def test_a_picture_is_shown_as_one(box: Box, tmp_path: Path) -> None:
    data = b"\x89PNG\r\n\x1a\n\0\0"
    (tmp_path / "a.png").write_bytes(data)
    picture = ImagePart(media_type="image/png", data=base64.b64encode(data).decode())
    absolute = str(tmp_path / "a.png")
    for made in (
        call("read", path="a.png"),
        call("read", path=absolute),
        call("edit", command="view", path=absolute),
        call("str_replace_based_edit_tool", command="view", path=absolute),
    ):
        assert (await box.toolbox.call(made)).parts == [picture]


async def test_an_action_has_the_id_that_its_caller_chose(box: Box) -> None:
    await box.toolbox.call(call("stat", path="/"), action_id="chosen")
    events = box.executor.events.since(0)
    assert [one.action_id for one in events if isinstance(one, ActionStarted)] == ["chosen"]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (call("bsh", command="ls"), "Unknown tool: bsh. Did you mean bash? Tools: run, read, write,"),
        (call("frobnicate"), "Unknown tool: frobnicate. Tools: run, "),
        (call("run_ipython", code="1"), "Unknown tool: run_ipython."),
        (call("run", cmd="ls"), "run has no argument 'cmd'. Did you mean 'command'?"),
        (call("read", path="/no/such/file"), "File not found: /no/such/file."),
        (call("stat", path="/no/such/file"), "/no/such/file does not exist."),
        (call("bash", restart="perhaps"), "bash: restart must be true or false, not 'perhaps'."),
        (ToolCall(name="run", problem="The arguments are no JSON."), "The arguments are no JSON."),
    ],
)
async def test_what_goes_wrong_is_a_result_that_says_so(box: Box, made: ToolCall, words: str) -> None:
    result = await box.toolbox.call(made)
    assert result.is_error
    assert result.text.startswith(words)


async def test_an_unknown_tool_is_no_action(box: Box) -> None:
    with pytest.raises(UnknownTool, match=r"^Unknown tool: nope\."):
        await box.toolbox.action(call("nope"))


async def test_a_command_that_waits_is_told_and_answered(box: Box) -> None:
    asking = "read -s -p 'Code word: ' x; echo; echo got $x; read -p 'Sure? ' y; echo $y"
    asked = await box.toolbox.call(call("run", command=asking))
    assert asked.text.startswith("Code word:\n[The command waits for a password: Code word:; call again")
    busy = await box.toolbox.call(call("run", command="echo no"))
    assert busy.is_error
    assert "is busy: the command" in busy.text
    again = await box.toolbox.call(call("run", command="sesame", is_input=True))
    assert "got sesame" in again.text
    assert "[The command waits for input: Sure?;" in again.text
    ended = await box.toolbox.call(call("run", command="", keys=["y", "Enter"]))
    assert "The command ended with exit code 0." in ended.text
    assert "got" not in ended.text
    nothing = await box.toolbox.call(call("run", command=""))
    assert nothing.text == "No command runs in the session 'main'."


async def test_a_script_is_one_command_and_no_words_of_the_contract_are_shown(box: Box) -> None:
    ran = await box.toolbox.call(call("run", command="sleep 0.1\necho late\n(exit 3)"))
    assert ran.text.startswith("late\n[The command ended with exit code 3. Current directory: ")
    long = await box.toolbox.call(call("bash", command="echo begun; sleep 1000", timeout=0.3))
    assert long.text.startswith("begun\n[The command still runs.")
    for word in ("execute_bash", "previous command", "Python interpreter"):
        assert word not in ran.text + long.text
    ended = await box.toolbox.call(call("bash", command="C-c"))
    assert "The command ended with exit code 130." in ended.text


async def test_a_restart_gives_a_fresh_shell_whatever_runs_in_the_old_one(box: Box, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    await box.toolbox.call(call("bash", command="cd sub; x=old"))
    busy = asyncio.create_task(
        box.toolbox.call(
            call(
                "run", command="trap '' INT TERM HUP; touch ../busy; while :; do sleep 0.1; done", timeout=60
            )
        )
    )
    await asyncio.to_thread(wait_until, (tmp_path / "busy").exists)
    async with asyncio.timeout(LIMIT):
        restarted = await box.toolbox.call(call("bash", restart=True))
        assert (restarted.text, restarted.is_error) == ("tool has been restarted.", False)
        assert "The command ended with exit code -1." in (await busy).text
        fresh = await box.toolbox.call(call("bash", command="echo [$x] $PWD"))
    assert fresh.text.startswith(f"[] {tmp_path}\n")


# Calls of one turn.


async def test_calls_in_different_sessions_run_at_once(box: Box, tmp_path: Path) -> None:
    # Each waits for the other: whoever is alone never ends.
    await box.toolbox.call(call("run", command="mkfifo there back"))
    first, second = await together(
        box,
        call("run", session="a", command=f"cd {tmp_path}; echo hello > there; cat back", timeout=LIMIT),
        call("run", session="b", command=f"cd {tmp_path}; cat there; echo bye > back", timeout=LIMIT),
    )
    assert first.text.startswith("bye\n")
    assert second.text.startswith("hello\n")


async def test_calls_in_one_session_run_in_order_and_are_answered_in_order(box: Box) -> None:
    calls = [call("run", command=f"x=${{x}}{number}; echo $x") for number in range(5)]
    results = await together(box, *calls)
    assert [one.text.splitlines()[0] for one in results] == ["0", "01", "012", "0123", "01234"]


async def test_what_is_written_is_there_for_what_follows(box: Box) -> None:
    results = await together(
        box,
        call("write", path="a.sh", content="echo one"),
        call("edit", command="str_replace", path="/nowhere", old_str="a", new_str="b"),
        call("run", command="sh a.sh"),
        call("write", path="a.sh", content="echo two"),
        call("run", command="sh a.sh", session="other"),
    )
    assert [one.is_error for one in results] == [False, True, False, False, False]
    assert results[4].text.startswith("two\n")


async def test_a_session_is_used_by_one_call_at_a_time() -> None:
    happened = []

    async def run(action: CmdRunAction, call: Call) -> CmdOutputObservation:
        happened.append(f"begin {action.command}")
        for _ in range(20):
            await asyncio.sleep(0)
        happened.append(f"end {action.command}")
        return CmdOutputObservation(command=action.command)

    tools = Toolbox(Executor([run], EventLog()), [CmdRunAction], Elsewhere())
    calls = [call("run", command="1"), call("run", command="2", session="b"), call("bash", command="3")]
    await tools.call_all(calls)
    assert happened.index("begin 2") < happened.index("end 1") < happened.index("begin 3")


async def test_nothing_begins_before_earlier_calls_on_files_have_ended() -> None:
    happened = []

    async def write(action: FileWriteAction, call: Call) -> FileWriteObservation:
        happened.append(f"begin {action.path}")
        for _ in range(20):
            await asyncio.sleep(0)  # whoever could go on meanwhile would
        happened.append(f"end {action.path}")
        return FileWriteObservation(path=action.path)

    async def run(action: CmdRunAction, call: Call) -> CmdOutputObservation:
        happened.append(action.command)
        return CmdOutputObservation(command=action.command)

    tools = Toolbox(Executor([write, run], EventLog()), [FileWriteAction, CmdRunAction], Elsewhere())
    await tools.call_all(
        [
            call("run", command="first"),
            call("write", path="a", content=""),
            call("write", path="b", content=""),
            call("run", command="last"),
        ]
    )
    assert happened == ["first", "begin a", "end a", "begin b", "end b", "last"]


async def test_files_do_not_wait_for_a_command_before_them(box: Box) -> None:
    # The command ends when the file is written, which comes after it.
    waiting = "until [ -e go ]; do sleep 0.01; done; cat go"
    ran, wrote = await together(
        box, call("run", command=waiting, timeout=LIMIT), call("write", path="go", content="went")
    )
    assert ran.text.startswith("went\n")
    assert not wrote.is_error


async def test_a_call_that_cannot_be_read_leaves_the_others_alone(box: Box) -> None:
    results = await together(
        box,
        ToolCall(name="run", problem="cut off"),
        call("nope"),
        call("run", command="echo fine"),
        call("run"),
    )
    assert [one.is_error for one in results] == [True, True, False, True]
    assert results[2].text.startswith("fine\n")


def test_what_an_action_has_to_itself() -> None:
    assert session_of(CmdRunAction(command="")) == session_of(CmdRunAction(command="x", is_input=True))
    assert session_of(CmdRunAction(command="")) != session_of(CmdRunAction(command="", session="b"))
    assert session_of(CmdRunAction(command="", is_static=True)) is None
    assert session_of(IPythonRunCellAction(code="")) != session_of(IPythonRunCellAction(code="", kernel="b"))
    assert session_of(BrowseURLAction(url="")) == session_of(BrowseInteractiveAction(browser_actions=""))
    assert session_of(FileReadAction(path="")) == session_of(StatAction(path="")) == "files"
    assert session_of(MCPAction(name="t")) is None


# Tools from elsewhere.


class Elsewhere:
    """A source of tools: what a box has when MCP servers are routed."""

    shell: MainShell | None = None

    def __init__(self, *names: str, broken: bool = False) -> None:
        self._names = names
        self._broken = broken

    @property
    def routed(self) -> ToolSource:
        return self

    async def tools(self, taken: Collection[str] = ()) -> list[Tool]:
        if self._broken:
            raise McpError("no server answers")
        names = [name for name in self._names if name not in taken]
        return [Tool(name=name, description="", input_schema={"type": "object"}) for name in names]

    async def knows(self, name: str) -> bool:
        return name in self._names

    def missing(self) -> list[str]:
        return []


async def answer(action: MCPAction, call: Call) -> MCPObservation:
    if action.name == "gone":
        raise asyncio.CancelledError
    return MCPObservation(content=json.dumps({"content": [{"type": "text", "text": f"from {action.name}"}]}))


async def read(action: FileReadAction, call: Call) -> FileReadObservation:
    return FileReadObservation(content="read", path=action.path)


def toolbox(source: Elsewhere) -> Toolbox:
    return Toolbox(Executor([answer, read], EventLog()), [MCPAction, FileReadAction], source)


async def test_foreign_tools_come_after_the_own_ones_unless_their_name_is_taken() -> None:
    tools = await toolbox(Elsewhere("fetch", "read", "view", "bash")).tools()
    assert [tool.name for tool in tools] == ["read", "fetch", "bash"]


async def test_a_foreign_tool_is_called_by_its_name() -> None:
    box = toolbox(Elsewhere("fetch", "read"))
    made = ToolCall(name="fetch", arguments={"url": "http://a", "n": None})
    assert await box.action(made) == MCPAction(name="fetch", arguments={"url": "http://a", "n": None})
    assert (await box.call(made)).text == "from fetch"
    assert (await box.call(call("read", path="a"))).text == "read"
    assert (
        await box.call(call("fetsh"))
    ).text == "Unknown tool: fetsh. Did you mean fetch? Tools: read, fetch."


async def test_what_is_wrong_elsewhere_is_a_result() -> None:
    box = toolbox(Elsewhere(broken=True))
    unreachable, own = await box.call_all([call("fetch"), call("read", path="a")])
    assert (unreachable.is_error, unreachable.text) == (True, "no server answers")
    assert own.text == "read"


async def test_a_call_that_is_cancelled_leaves_the_others_alone() -> None:
    box = toolbox(Elsewhere("gone", "fetch"))
    gone, fetched, own = await box.call_all([call("gone"), call("fetch"), call("read", path="a")])
    assert (gone.is_error, gone.text) == (True, "The call was cancelled.")
    assert fetched.text == "from fetch"
    assert own.text == "read"
