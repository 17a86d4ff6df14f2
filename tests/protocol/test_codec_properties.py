from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from glovebox.errors import GloveboxError
from glovebox.protocol.actions import CmdRunAction, FileEditAction, FileReadAction, FileWriteAction
from glovebox.protocol.base import Action
from glovebox.protocol.files import GlobAction, GrepAction
from glovebox.protocol.openhands import Codec, decode_observation, encode_action

CODEC = Codec()
text = st.text()
seconds = st.none() | st.floats(min_value=0, max_value=1e6)
actions: st.SearchStrategy[Action[Any]] = st.one_of(
    st.builds(CmdRunAction, command=text, is_input=st.booleans(), hidden=st.booleans(), timeout=seconds),
    st.builds(FileReadAction, path=text, start=st.integers(), end=st.integers()),
    st.builds(FileWriteAction, path=text, content=text, timeout=seconds),
    st.builds(FileEditAction, path=text, command=text, old_str=st.none() | text, insert_line=st.integers()),
    st.builds(GlobAction, pattern=text, path=text),
    st.builds(GrepAction, pattern=text, include=st.none() | text),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from([*CODEC.actions, "nope", None, 5])
arguments = st.dictionaries(
    st.sampled_from(["command", "path", "content", "start", "view_range", "old_str", "timestamp", "code",
                     "translated_ipython_code", "security_risk", "is_confirmed", "is_input"]) | text,
    json_values, max_size=5,
)  # fmt: skip


@given(actions)
def test_an_action_is_the_same_after_a_journey_over_the_wire(action: Action[Any]) -> None:
    wire = msgspec.json.encode(encode_action(action))
    assert CODEC.decode_action(msgspec.json.decode(wire)) == action


@given(st.fixed_dictionaries({}, optional={
    "action": names, "args": arguments | json_values, "timeout": json_values, "source": json_values,
    "observation": json_values, "tool_call_metadata": json_values,
}))  # fmt: skip
def test_any_envelope_is_an_action_or_a_clear_error(envelope: dict[str, Any]) -> None:
    try:
        action = CODEC.decode_action(envelope)
    except GloveboxError as error:
        assert str(error)
    else:
        assert action.action == envelope["action"]
        assert isinstance(action.message, str)


@given(json_values)
def test_any_answer_is_an_observation_or_a_clear_error(value: Any) -> None:
    envelope = value if isinstance(value, dict) else {"observation": "read", "extras": value}
    try:
        decode_observation(envelope, CODEC.observations.values())
    except GloveboxError as error:
        assert str(error)
