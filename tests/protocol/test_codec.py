from __future__ import annotations

from typing import Any

import msgspec
import pytest

from glovebox.errors import ActionError, UnknownAction, UnknownEvent, WrongArguments
from glovebox.protocol.actions import CmdRunAction, FileEditAction, FileReadAction, FileWriteAction
from glovebox.protocol.observations import (
    CmdOutputMetadata,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
)
from glovebox.protocol.openhands import Codec, Refusal, decode_observation, encode_action, encode_observation
from glovebox.protocol.terminal import Limits

CODEC = Codec()


def decode(action: str, args: Any = None, **beside: Any) -> Any:
    envelope: dict[str, Any] = {"action": action, **beside}
    if args is not None:
        envelope["args"] = args
    return CODEC.decode_action(envelope)


def test_arguments_become_fields_and_the_rest_defaults() -> None:
    assert decode("read", {"path": "a"}) == FileReadAction(path="a")
    assert decode("run", {"command": "ls"}, timeout=120) == CmdRunAction(command="ls", timeout=120.0)


def test_metadata_of_a_whole_event_is_accepted_and_ignored() -> None:
    call = {"function_name": "f", "tool_call_id": "1", "model_response": {}, "total_calls_in_response": 1}
    action = decode(
        "run", {"command": "ls"}, id=3, timestamp="2025-01-01T00:00:00", source="agent", message="m", cause=2,
        tool_call_metadata=call, llm_metrics={"accumulated_cost": 0},
    )  # fmt: skip
    assert action == CmdRunAction(command="ls")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"timestamp": "2025-01-01T00:00:00"}, {}),
        ({"is_confirmed": "rejected"}, {"confirmation_state": "rejected"}),
        ({"is_confirmed": None}, {}),
        ({"keep_prompt": True}, {}),
        ({"task_completed": "true"}, {}),
        ({"security_risk": 2}, {"security_risk": 2}),
        ({"security_risk": 99}, {}),
        ({"security_risk": "high"}, {}),
        ({"security_risk": None}, {}),
        ({"is_input": 1}, {"is_input": True}),
        ({"is_input": ""}, {"is_input": False}),
        ({"thought": 5}, {"thought": 5}),
    ],
)
def test_spellings_of_older_clients_are_understood(given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert decode("run", {"command": "ls", **given}) == CmdRunAction(command="ls", **kept)


def test_old_image_urls_are_renamed() -> None:
    assert decode("message", {"content": "hi", "images_urls": ["u"]}).image_urls == ["u"]


def test_a_translated_editor_call_replaces_the_arguments() -> None:
    code = "print(file_editor(**{'command': 'view', 'path': '/f.txt'}))"
    assert decode("read", {"path": "/", "translated_ipython_code": code}) == FileReadAction(path="/f.txt")
    other = "print(file_editor(**{'command': 'create', 'path': '/f', 'file_text': 'x'}))"
    edit = decode("edit", {"path": "/", "translated_ipython_code": other})
    assert edit == FileEditAction(path="/f", command="create", file_text="x")
    assert decode("read", {"path": "a", "translated_ipython_code": "print(1)"}) == FileReadAction(path="a")


@pytest.mark.parametrize("code", ["print(file_editor(**{'a': open('x')}))", "print(file_editor(**[1]))"])
def test_a_translated_call_that_is_no_literal_dictionary_is_refused(code: str) -> None:
    with pytest.raises(WrongArguments):
        decode("read", {"path": "a", "translated_ipython_code": code})


@pytest.mark.parametrize(
    ("envelope", "error", "text"),
    [
        ({}, UnknownEvent, "Unknown event type: {}"),
        ({"args": {"x": 1}}, UnknownEvent, "Unknown event type: {'args': {'x': 1}}"),
        ({"observation": "run"}, ActionError, "400: Invalid action type"),
        ({"action": "nope"}, UnknownAction, "'action['action']='nope'' is not defined."),
        ({"action": 5}, UnknownAction, "'action['action']=5' is not defined."),
        ({"action": ["run"]}, UnknownAction, "is not defined."),
        ({"action": "run"}, WrongArguments, "missing 1 required positional argument: 'command'"),
        ({"action": "write"}, WrongArguments,
         "missing 2 required positional arguments: 'path' and 'content'"),
        ({"action": "read", "args": {"path": "a", "frob": 1}}, WrongArguments,
         "FileReadAction.__init__() got an unexpected keyword argument 'frob'"),
        ({"action": "run", "args": {"command": "a", "timeout": 1}}, WrongArguments, "'timeout'"),
        ({"action": "run", "args": ["ls"]}, WrongArguments, "args must be an object"),
        ({"action": "run", "args": None}, WrongArguments, "args must be an object"),
        ({"action": "read", "args": {"path": None}}, WrongArguments, "path"),
        ({"action": "read", "args": {"path": "a", "start": "x"}}, WrongArguments, "start"),
        ({"action": "run", "args": {"command": "a"}, "source": "nobody"}, WrongArguments,
         "'nobody' is not a valid EventSource"),
        ({"action": "run", "args": {"command": "a"}, "source": ["agent"]}, WrongArguments, "EventSource"),
        ({"action": "run", "args": {"command": "a"}, "tool_call_metadata": {"x": 1}}, WrongArguments,
         "function_name"),
        ({"action": "run", "args": {"command": "a"}, "source": None}, WrongArguments, "EventSource"),
        ({"action": "run", "args": {"command": "a"}, "tool_call_metadata": None}, WrongArguments, "lacks"),
        ({"action": "edit", "args": {"path": None, "command": "view"}}, WrongArguments, "path"),
        ({"action": "condensation"}, WrongArguments, "Invalid configuration of the optional fields."),
    ],
)  # fmt: skip
def test_what_cannot_be_decoded_says_why(envelope: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        CODEC.decode_action(envelope)
    assert text in str(caught.value)


def test_a_mistyped_command_is_answered_with_an_error_observation() -> None:
    with pytest.raises(Refusal) as caught:
        decode("run", {"command": None})
    assert isinstance(caught.value.observation, ErrorObservation)


def test_a_mistyped_edit_is_answered_with_an_edit_observation_that_echoes_it() -> None:
    with pytest.raises(Refusal) as caught:
        decode("edit", {"path": "/a", "command": "str_replace", "old_str": 5, "new_str": "b"})
    envelope = encode_observation(caught.value.observation)
    assert envelope["observation"] == "edit"
    assert envelope["content"].startswith("ERROR:\n")
    assert envelope["extras"]["old_content"] == 5


@pytest.mark.parametrize(("given", "seconds"), [("5", 5.0), (2, 2.0), (None, None), (0.5, 0.5), (True, 1.0)])
def test_a_timeout_may_be_a_number_or_its_text(given: Any, seconds: float | None) -> None:
    assert decode("run", {"command": "ls"}, timeout=given).timeout == seconds


def test_a_timeout_that_is_no_number_is_refused() -> None:
    with pytest.raises(Refusal):
        decode("run", {"command": "ls"}, timeout="soon")
    with pytest.raises(WrongArguments):
        decode("read", {"path": "a"}, timeout=[1])


def test_an_observation_has_exactly_the_contracts_keys_in_its_order() -> None:
    run = encode_observation(CmdOutputObservation(content="x", command="pwd"))
    assert list(run) == ["message", "observation", "content", "extras", "success"]
    assert list(run["extras"]) == ["command", "metadata", "hidden"]
    assert list(run["extras"]["metadata"]) == [
        "exit_code", "pid", "username", "hostname", "working_dir", "py_interpreter_path", "prefix", "suffix",
    ]  # fmt: skip
    assert run["success"] is False
    read = encode_observation(FileReadObservation(content="x", path="/a"))
    assert read == {
        "message": "I read the file /a.",
        "observation": "read",
        "content": "x",
        "extras": {"path": "/a", "impl_source": "default"},
    }
    edit = encode_observation(FileEditObservation(path="/a", diff=""))
    assert list(edit["extras"]) == [
        "path", "prev_exist", "old_content", "new_content", "impl_source", "diff", "_diff_cache",
    ]  # fmt: skip


def test_every_action_and_observation_survives_its_envelope() -> None:
    action = FileWriteAction(path="/a", content="b", start=1, timeout=3.0)
    assert CODEC.decode_action(encode_action(action)) == action
    observation = CmdOutputObservation(
        content="x", command="ls", metadata=CmdOutputMetadata(exit_code=1, working_dir="/")
    )
    assert decode_observation(encode_observation(observation), CODEC.observations.values()) == observation


def test_arguments_that_the_contract_does_not_know_are_left_out_unless_they_say_something() -> None:
    plain = encode_action(CmdRunAction(command="ls"))
    assert not {"session", "budget", "limits"} & set(plain["args"])
    told = encode_action(CmdRunAction(command="ls", session="build", limits=Limits(memory=1)))
    assert told["args"]["session"] == "build"
    assert told["args"]["limits"]["memory"] == 1


def test_extras_of_older_servers_are_understood() -> None:
    old = {
        "observation": "run",
        "content": "x",
        "extras": {"command": "ls", "exit_code": 2, "command_id": 7, "formatted_output_and_error": "y"},
    }
    decoded = decode_observation(old, CODEC.observations.values())
    assert decoded == CmdOutputObservation(
        content="x", command="ls", metadata=CmdOutputMetadata(exit_code=2, pid=7)
    )


@pytest.mark.parametrize(
    "envelope",
    [{}, {"observation": "nope"}, {"observation": ["run"]}, {"observation": "read", "extras": {"frob": 1}},
     {"observation": "read", "extras": {}}],
)  # fmt: skip
def test_an_observation_that_breaks_the_contract_is_refused(envelope: dict[str, Any]) -> None:
    with pytest.raises(ActionError):
        decode_observation(envelope, CODEC.observations.values())


def test_the_contracts_type_names_are_all_known() -> None:
    actions = (
        "null run run_ipython browse browse_interactive read write edit think finish reject delegate recall "
        "change_agent_state message system condensation condensation_request call_tool_mcp task_tracking "
        "loop_recovery"
    )
    observations = (
        "null run run_ipython browse read write edit delegate success error agent_state_changed "
        "user_rejected condense think recall mcp download task_tracking loop_detection"
    )
    assert set(actions.split()) <= set(CODEC.actions)
    assert set(observations.split()) <= set(CODEC.observations)


def test_messages_are_immutable() -> None:
    action = FileReadAction(path="a")
    with pytest.raises(AttributeError):
        action.path = "b"  # type: ignore[misc]
    assert msgspec.structs.replace(action, path="b").path == "b"


def test_a_truth_value_counts_as_a_number_where_one_is_wanted() -> None:
    assert decode("read", {"path": "a", "start": True}).start == 1
    assert decode("edit", {"path": "a", "command": "insert", "insert_line": False}).insert_line == 0
    assert decode("write", {"path": "a", "content": "", "end": None}).end is None
