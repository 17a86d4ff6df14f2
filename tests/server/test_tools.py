"""Tools through the door: definitions for every provider, calls as their models make them."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.protocol.tools.formats import bodies
from tests.server.reading import streaming
from tests.support.running import RunningBox, running_box

PATH = "/tools/call"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")


def called(box: RunningBox, body: Any) -> Any:
    answer = box.client.post(PATH, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def sessions(box: RunningBox, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The names of two shells of a test's own."""
    names = (f"one-{tmp_path.name[-20:]}", f"two-{tmp_path.name[-20:]}")
    yield names
    for name in names:
        box.client.delete(f"/sessions/{name}")


# Definitions


def names_in(kind: str, told: Any) -> list[str]:
    if kind == "gemini":
        told = told[0]["functionDeclarations"]
    tools = told["tools"] if kind == "mcp" else told
    return [tool.get("function", tool)["name"] for tool in tools]


@pytest.mark.parametrize("kind", ["openai", "anthropic", "mcp", "gemini"])
def test_the_tools_of_the_box_are_told_in_every_format(box: RunningBox, kind: str) -> None:
    told = box.client.get("/tools", params={"format": kind}).json()
    assert {"run", "read", "write", "edit", "glob", "grep"} <= set(names_in(kind, told))
    some = box.client.get("/tools", params={"format": kind, "names": "read, run"}).json()
    assert sorted(names_in(kind, some)) == ["read", "run"]


def test_openai_is_the_format_unless_another_is_asked_for(box: RunningBox) -> None:
    assert box.client.get("/tools").json() == box.client.get("/tools?format=openai&api=chat").json()
    flat = box.client.get("/tools?api=responses&names=run").json()
    assert (flat[0]["type"], flat[0]["name"], flat[0]["parameters"]["required"]) == (
        "function", "run", ["command"],
    )  # fmt: skip


def test_anthropics_own_tools_can_be_offered_and_are_understood(box: RunningBox, tmp_path: Path) -> None:
    told = box.client.get("/tools?format=anthropic&builtin=true").json()
    names = {tool["name"] for tool in told}
    assert {"bash", "str_replace_based_edit_tool", "read"} <= names
    assert not {"run", "edit"} & names
    create = {"command": "create", "path": f"{tmp_path}/a.txt", "file_text": "made\n"}
    [made, shown] = called(
        box,
        [
            bodies.anthropic_call("t1", "str_replace_based_edit_tool", create),
            bodies.anthropic_call("t2", "bash", {"command": f"cat {tmp_path}/a.txt"}),
        ],
    )
    assert "is_error" not in made
    assert shown["content"][0]["text"].startswith("made")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("format=cobol", "openai, anthropic, mcp, gemini"),
        ("api=soap", "chat, responses"),
        ("builtin=perhaps", "valid boolean"),
        ("names=rnu", "There is no tool named rnu. There are: run,"),
    ],
)
def test_a_format_or_tool_that_is_not_there_is_refused(box: RunningBox, query: str, words: str) -> None:
    answer = box.client.get(f"/tools?{query}")
    assert (answer.status_code, answer.headers["x-glovebox-error"]) == (422, "request_invalid")
    assert words in answer.text


def test_a_box_starts_without_the_formats() -> None:
    script = (
        "import sys; import glovebox.server.run; from glovebox.box import plugin_life\n"
        "for name, where in plugin_life.OWN.items(): plugin_life.load(name, where)\n"
        "print([name for name in sys.modules if name.startswith('glovebox.protocol.tools.')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['glovebox.protocol.tools.base']"


# Calls


def test_a_call_of_each_format_is_answered_in_it(box: RunningBox) -> None:
    def ran(kind: str) -> Any:
        return called(box, bodies.CALLS[kind]("c1", "run", {"command": "echo hel''lo"}))

    chat = ran("chat")
    assert (chat["role"], chat["tool_call_id"]) == ("tool", "c1")
    assert chat["content"].startswith("hello\n")
    responses = ran("responses")
    assert (responses["type"], responses["call_id"]) == ("function_call_output", "c1")
    assert responses["output"].startswith("hello\n")
    anthropic = ran("anthropic")
    assert (anthropic["type"], anthropic["tool_use_id"]) == ("tool_result", "c1")
    assert anthropic["content"][0]["text"].startswith("hello\n")
    gemini = ran("gemini")["functionResponse"]
    assert (gemini["id"], gemini["name"]) == ("c1", "run")
    assert gemini["response"]["output"].startswith("hello\n")
    mcp = ran("mcp")
    assert (mcp["jsonrpc"], mcp["id"], mcp["result"]["isError"]) == ("2.0", "c1", False)
    assert mcp["result"]["content"][0]["text"].startswith("hello\n")
    openhands = ran("openhands")
    assert (openhands["observation"], openhands["content"]) == ("run", "hello")
    assert openhands["tool_call_metadata"]["tool_call_id"] == "c1"


def test_the_calls_of_a_turn_run_at_once_and_are_answered_in_order(
    box: RunningBox, tmp_path: Path, sessions: tuple[str, str]
) -> None:
    box.run(f"mkfifo {tmp_path}/there {tmp_path}/back")
    asks = {"command": f"echo ping > {tmp_path}/there; cat {tmp_path}/back", "session": sessions[0]}
    answers = {
        "command": f"read line < {tmp_path}/there; echo $line > {tmp_path}/back; echo served",
        "session": sessions[1],
    }
    message = bodies.chat_message(bodies.chat_call("c1", "run", asks), bodies.chat_call("c2", "run", answers))
    first, second = called(box, message)
    assert (first["tool_call_id"], first["content"].split("\n")[0]) == ("c1", "ping")
    assert (second["tool_call_id"], second["content"].split("\n")[0]) == ("c2", "served")


def test_calls_that_build_on_each_other_run_in_order(box: RunningBox, tmp_path: Path) -> None:
    told = called(
        box,
        bodies.anthropic_response(
            bodies.anthropic_call("t1", "run", {"command": f"cd {tmp_path}; word=kept"}),
            bodies.anthropic_call("t2", "write", {"path": f"{tmp_path}/a.sh", "content": "echo ran $1"}),
            bodies.anthropic_call("t3", "run", {"command": "bash a.sh $word"}),
        ),
    )
    assert told["role"] == "user"
    assert [block["tool_use_id"] for block in told["content"]] == ["t1", "t2", "t3"]
    assert told["content"][2]["content"][0]["text"].startswith("ran kept\n")


def test_what_is_wrong_with_a_call_is_its_result_and_the_others_run(box: RunningBox, tmp_path: Path) -> None:
    told = called(
        box,
        bodies.chat_response(
            bodies.chat_call("c1", "run", '{"command": "touch '),
            bodies.chat_call("c2", "rnu", {"command": "ls"}),
            bodies.chat_call("c3", "run", {"cmd": "ls"}),
            bodies.chat_call("c4", "read", {"path": f"{tmp_path}/missing"}),
            bodies.chat_call("c4", "run", {"command": f"touch {tmp_path}/ran; (exit 3)"}),
        ),
    )
    cut, unknown, wrong, missing, failed = [one["content"] for one in told]
    assert [one["tool_call_id"] for one in told] == ["c1", "c2", "c3", "c4", "c4"]
    assert cut.startswith("The arguments of run are cut off")
    assert unknown.startswith("Unknown tool: rnu. Did you mean run?")
    assert "'cmd'" in wrong
    assert "command" in wrong
    assert str(tmp_path / "missing") in missing
    assert "exit code 3" in failed
    assert (tmp_path / "ran").exists()


def test_errors_are_marked_where_a_format_has_a_mark(box: RunningBox) -> None:
    def failed(kind: str) -> Any:
        return called(box, bodies.CALLS[kind]("c1", "rnu", {}))

    assert failed("anthropic")["is_error"] is True
    assert "Unknown tool: rnu" in failed("gemini")["functionResponse"]["response"]["error"]
    assert failed("mcp")["result"]["isError"] is True
    assert failed("openhands")["observation"] == "error"
    ended = called(box, bodies.anthropic_call("t", "run", {"command": "false"}))
    assert "is_error" not in ended


def test_a_picture_is_shown_where_a_format_can_hold_one(box: RunningBox, tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    data = base64.b64encode(PNG).decode()

    def read(kind: str) -> Any:
        return called(box, bodies.CALLS[kind]("c1", "read", {"path": f"{tmp_path}/dot.png"}))

    source = {"type": "base64", "media_type": "image/png", "data": data}
    assert {"type": "image", "source": source} in read("anthropic")["content"]
    assert {"inlineData": {"mimeType": "image/png", "data": data}} in read("gemini")["functionResponse"][
        "parts"
    ]
    assert {"type": "image", "data": data, "mimeType": "image/png"} in read("mcp")["result"]["content"]
    urls = [part.get("image_url") for part in read("responses")["output"]]
    assert f"data:image/png;base64,{data}" in urls
    chat = read("chat")["content"]
    assert "A picture (image/png)" in chat
    assert data not in chat


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"", "request_invalid", "json_invalid"),
        (b"{", "request_invalid", "json_invalid"),
        (b'"\xff"', "request_invalid", "json_invalid"),
        (b"null", "not_a_tool_call", "tool_use blocks"),
        (b'{"role": "assistant", "content": "Done."}', "not_a_tool_call", "tool_use blocks"),
        (b'{"action": {"action": "run", "args": {"command": "ls"}}}', "not_a_tool_call", "functionCall"),
    ],
)  # fmt: skip
def test_a_body_without_a_call_is_refused(box: RunningBox, body: bytes, code: str, words: str) -> None:
    answer = box.client.post(PATH, content=body)
    assert (answer.status_code, answer.headers["x-glovebox-error"]) == (422, code)
    assert words in answer.text


def test_large_arguments_arrive_whole(box: RunningBox, tmp_path: Path) -> None:
    text = "line ä\n" * 500_000
    called(box, bodies.chat_call("c1", "write", {"path": f"{tmp_path}/big.txt", "content": text}))
    assert (tmp_path / "big.txt").read_text() == text


# Tools of MCP servers

WEATHER = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SCHEMA = {
    "type": "object", "properties": {"at": {"$ref": "#/$defs/Place"}}, "required": ["at"],
    "$defs": {"Place": {"type": "object", "properties": {"city": {"type": ["string", "null"]}}}},
}

async def tools(context, params):
    return {"tools": [{"name": "weather.get", "description": "The weather.", "inputSchema": SCHEMA}]}

async def call(context, params):
    text = "sun in " + params.arguments["at"]["city"]
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"degrees": 25}}

async def main():
    server = Server("weather", on_list_tools=tools, on_call_tool=call)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())

anyio.run(main)
"""


def test_a_tool_whose_name_providers_refuse_is_offered_and_called_by_another(tmp_path: Path) -> None:
    (tmp_path / "weather.py").write_text(WEATHER)
    server = {"name": "weather", "command": sys.executable, "args": [str(tmp_path / "weather.py")]}
    with running_box(tmp_path / "workspace") as box:
        assert box.client.post("/update_mcp_server", json=[server]).status_code == 200
        for kind in ("openai", "anthropic", "gemini"):
            assert "weather_get" in names_in(kind, box.client.get(f"/tools?format={kind}").json())
        [mcp] = box.client.get("/tools?format=mcp&names=weather.get").json()["tools"]
        assert mcp["name"] == "weather.get"
        [group] = box.client.get("/tools?format=gemini&names=weather.get").json()
        place = {"type": "object", "properties": {"city": {"type": "string", "nullable": True}}}
        assert group["functionDeclarations"][0]["parameters"]["properties"] == {"at": place}
        for name in ("weather_get", "weather.get"):
            call = bodies.gemini_call("c1", name, {"at": {"city": "Rome"}})
            answer = {"id": "c1", "name": name, "response": {"output": "sun in Rome"}}
            assert called(box, call) == {"functionResponse": answer}
        call = bodies.mcp_call(1, "weather_get", {"at": {"city": "Rome"}})
        assert called(box, call)["result"]["structuredContent"] == {"degrees": 25}
        observed = box.client.post("/execute_action", json={"action": call}).json()
        assert (observed["observation"], observed["extras"]["name"]) == ("mcp", "weather.get")


# Calls in /execute_action


@pytest.mark.parametrize("kind", bodies.CALLS)
def test_one_call_is_carried_out_as_the_action_it_means(box: RunningBox, kind: str) -> None:
    call = bodies.CALLS[kind]("c1", "run", {"command": "echo done"})
    answer = box.client.post("/execute_action", json={"action": call, "details": True}).json()
    metadata, details = answer.pop("tool_call_metadata"), answer.pop("details")
    plain = box.execute("run", command="echo done")
    assert answer == plain
    assert (metadata["function_name"], metadata["tool_call_id"]) == ("run", "c1")
    assert metadata == call.get("tool_call_metadata", metadata)
    assert details["command"]["state"] == "ended"


@pytest.mark.parametrize(
    "message",
    [
        bodies.chat_response(bodies.chat_call("c1", "run", {"command": "echo done"})),
        bodies.responses_response(bodies.responses_call("c1", "run", {"command": "echo done"})),
        bodies.anthropic_response(bodies.anthropic_call("c1", "bash", {"command": "echo done"})),
        bodies.gemini_response(bodies.gemini_call("c1", "run", {"command": "echo done"})),
    ],
)
def test_a_response_with_one_call_is_carried_out_too(box: RunningBox, message: dict[str, Any]) -> None:
    answer = box.client.post("/execute_action", json={"action": message}).json()
    assert (answer["observation"], answer["content"]) == ("run", "done")
    assert answer["tool_call_metadata"]["tool_call_id"] == "c1"


@pytest.mark.parametrize(
    ("envelope", "code", "words"),
    [
        (bodies.chat_call("c1", "rnu", {}), "unknown_tool", "Unknown tool: rnu"),
        (bodies.chat_call("c1", "run", {"cmd": "ls"}), "wrong_tool_arguments", "'cmd'"),
        (bodies.chat_call("c1", "run", '{"command"'), "wrong_tool_arguments", "are cut off"),
        (bodies.chat_message(*[bodies.chat_call("c1", "run", {"command": "touch ran"})] * 2), "action_failed",
         "2 tool calls in this, and an action is one. Send them to /tools/call."),
        ({"role": "assistant", "content": "Done."}, "unknown_event", "Unknown event type: {'role'"),
        ({**bodies.chat_call("c1", "run", {}), "observation": "run"}, "action_failed",
         "400: Invalid action type"),
    ],
)  # fmt: skip
def test_a_call_that_cannot_be_carried_out_fails_as_actions_do(
    box: RunningBox, tmp_path: Path, envelope: dict[str, Any], code: str, words: str
) -> None:
    answer = box.client.post("/execute_action", json={"action": envelope})
    assert (answer.status_code, answer.headers["x-glovebox-error"]) == (500, code)
    assert answer.json()["detail"].startswith("Internal server error: ")
    assert words in answer.json()["detail"]
    assert not (tmp_path / "ran").exists()
    with streaming(box, {"action": envelope}) as told:
        last = list(told)[-1]
    assert (last.event, last.json["code"]) == ("error", code)
    # How long until an MCP server is started again is another number each time.
    details = (last.json["detail"], answer.json()["detail"])
    told_twice = [text.partition(" The MCP server ")[0] for text in details]
    assert told_twice[0] == told_twice[1]


def test_a_call_runs_once_with_a_key_and_can_be_followed(box: RunningBox, tmp_path: Path) -> None:
    call = bodies.anthropic_call(
        "t1", "bash", {"command": f"echo x >> {tmp_path}/log; wc -l < {tmp_path}/log"}
    )
    body = {"action": call, "idempotency_key": f"call-{tmp_path}"}
    with streaming(box, body) as told:
        live = list(told)
    assert (live[0].event, live[0].json["action"]) == ("started", "run")
    assert "output" in [message.event for message in live]
    again = box.client.post("/execute_action", json=body)
    assert again.content == live[-1].data.encode()
    assert again.json()["content"] == "1"
    with streaming(box, body) as told:
        assert [(message.event, message.data) for message in told] == [
            (live[0].event, live[0].data), (live[-1].event, live[-1].data),
        ]  # fmt: skip
    other = {**body, "action": bodies.anthropic_call("t2", "bash", {"command": "true"})}
    refused = box.client.post("/execute_action", json=other)
    assert refused.headers["x-glovebox-error"] == "idempotency_key_reused"


# The page about tools


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page_work_as_they_are_written(box: RunningBox) -> None:
    script = "".join(blocks("sh")).replace("http://127.0.0.1:8000", box.url)
    script = script.replace("curl -s", f"echo; curl -s -H 'X-Session-API-Key: {box.key}'")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    tools, one, two, action = [json.loads(line) for line in done.stdout.splitlines() if line]
    assert tools == box.client.get("/tools").json()
    assert one["content"].startswith("hello\n")
    assert two[1]["content"][0]["text"].startswith("42\n")
    assert action["tool_call_metadata"]["tool_call_id"] == "toolu_3"


class Said(dict[str, Any]):
    """What a model put out, as the libraries of providers give it."""

    def __getattr__(self, name: str) -> Any:
        value = self[name]
        if isinstance(value, list):
            return [Said(one) for one in value]
        return Said(value) if isinstance(value, dict) else value

    def to_json(self) -> str:
        return json.dumps(self, indent=2)


class Model:
    """Stands in for a provider: says what was written down for it, and remembers what it was sent."""

    def __init__(self, *responses: dict[str, Any]) -> None:
        self._responses = list(responses)
        self.sent: list[dict[str, Any]] = []
        self.chat = self.completions = self.messages = self

    def create(self, **request: Any) -> Said:
        self.sent.append({**request, "messages": list(request["messages"])})
        return Said(self._responses.pop(0))


def converse(
    box: RunningBox, monkeypatch: pytest.MonkeyPatch, library: str, maker: str, model: Model
) -> None:
    """Run the page's agent for a library with a model that says what was written down."""
    [program] = [
        block for block in blocks("python") if f"import {maker}" in block or f"import {library}" in block
    ]
    module = ModuleType(library)
    setattr(module, maker, lambda: model)
    monkeypatch.setitem(sys.modules, library, module)
    here = (
        f'httpx.Client(base_url="{box.url}", headers={{"X-Session-API-Key": "{box.key}"}}, trust_env=False, '
    )
    program = program.replace('httpx.Client(base_url="http://127.0.0.1:8000", ', here)
    space: dict[str, Any] = {}
    exec(compile(program, "docs/tools.md", "exec"), space)
    space["box"].close()


def test_the_pages_agent_for_openai_works(
    box: RunningBox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [bodies.chat_call("c1", "run", {"command": "echo 3.11"}), bodies.chat_call("c2", "nope", {})]
    last = bodies.chat_response()
    last["choices"][0]["message"] |= {"content": "Python 3.11.", "tool_calls": None}
    model = Model(bodies.chat_response(*calls), last)
    converse(box, monkeypatch, "openai", "OpenAI", model)
    assert capsys.readouterr().out == "Python 3.11.\n"
    assert model.sent[0]["tools"] == box.client.get("/tools").json()
    user, asked, first, second = model.sent[1]["messages"]
    assert (user["role"], asked["tool_calls"]) == ("user", calls)
    assert (first["role"], first["tool_call_id"], second["tool_call_id"]) == ("tool", "c1", "c2")
    assert first["content"].startswith("3.11\n")


def test_the_pages_agent_for_anthropic_works(
    box: RunningBox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = bodies.anthropic_call("t1", "bash", {"command": "echo 3.11"})
    last = {**bodies.anthropic_response(), "stop_reason": "end_turn"}
    model = Model(bodies.anthropic_response(call), last)
    converse(box, monkeypatch, "anthropic", "Anthropic", model)
    assert capsys.readouterr().out == "I'll run it.\n"
    assert {"type": "bash_20250124", "name": "bash"} in model.sent[0]["tools"]
    _, asked, result = model.sent[1]["messages"]
    assert (asked["role"], asked["content"][-1]) == ("assistant", call)
    assert (result["role"], result["content"][0]["tool_use_id"]) == ("user", "t1")
    assert result["content"][0]["content"][0]["text"].startswith("3.11\n")
