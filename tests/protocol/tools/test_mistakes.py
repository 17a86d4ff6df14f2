from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glovebox.errors import WrongToolArguments
from glovebox.protocol.base import Action
from glovebox.protocol.tools.actions import ALIASES, ENTRIES, alias_action, own_action, tool
from glovebox.protocol.tools.arguments import ARGUMENT_WORDS, TOOL_WORDS, nearest

TOOLS = [*ENTRIES, *ALIASES]

MISTAKES = [
    ("run", {"cmd": "ls"}, "run has no argument 'cmd'. Did you mean 'command'? It takes: command (required)"),
    ("run", {"commands": "ls"}, "Did you mean 'command'?"),
    ("run", {"command": "ls", "seconds": 4}, "run has no argument 'seconds'. Did you mean 'timeout'?"),
    ("run", {"command": "ls", "zzz": 4}, "run has no argument 'zzz'. It takes: "),
    ("run", {}, "run needs 'command'. It takes: command (required), is_input"),
    ("run", {"command": None}, "run needs 'command'."),
    ("run", {"command": ["ls", "-l"]}, "run: command must be a string, not a list."),
    ("run", {"command": "ls", "is_input": "maybe"}, "run: is_input must be true or false, not 'maybe'."),
    ("run", {"command": "ls", "timeout": "soon"}, "run: timeout must be a number, not 'soon'."),
    ("run", {"command": "ls", "timeout": -1}, "run: timeout must be a number greater than 0, not -1."),
    ("run", {"command": "ls", "timeout": True}, "run: timeout must be a number, not true."),
    ("run", {"command": "ls", "budget": 1.5}, "run: budget must be a whole number, not 1.5."),
    ("run", {"command": "ls", "budget": 10**5000}, "must be a whole number, not a number of that size."),
    ("write", {"path": "a"}, "write needs 'content'."),
    ("write", {"file_path": "a", "text": "b"}, "Did you mean 'path'? write has no argument 'text'. "
     "Did you mean 'content'? It takes: path (required), content (required)."),
    ("write", {"path": "a", "content": {"b": 1}}, "write: content must be a string, not an object."),
    ("move", {}, "move needs 'source' and 'destination'."),
    ("move", {"from": "a", "to": "b"}, "no argument 'from'. Did you mean 'source'? move has no argument "
     "'to'. Did you mean 'destination'?"),
    ("edit", {"command": "replace", "path": "/a"}, "edit: command must be one of view, create, str_replace, "
     "insert, undo_edit (did you mean str_replace?), not 'replace'."),
    ("edit", {"command": "str_replace", "path": "/a", "old_string": "x", "new_string": "y"},
     "Did you mean 'old_str'? edit has no argument 'new_string'. Did you mean 'new_str'?"),
    ("read", {"path": "/a", "view_range": "all"}, "view_range must be a list of whole numbers, not 'all'."),
    ("read", {"path": "/a", "view_range": [1, "x"]}, "must be a list of whole numbers, not a list."),
    ("read", {"path": "/a", "view_range": 7}, "read: view_range must be a list of whole numbers, not 7."),
    ("grep", {"query": "x", "-i": True}, "Did you mean 'pattern'? grep has no argument '-i'. Did you mean "
     "'ignore_case'?"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "words"), MISTAKES)
def test_a_mistake_is_answered_with_what_was_meant(name: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongToolArguments) as refused:
        own_action(name, arguments)
    assert words in str(refused.value)


MEANT = [
    ("bsh", "bash"), ("Bash", "bash"), ("bash_tool", "bash"), ("runn", "run"), ("Run", "run"),
    ("run_command", "run"), ("run_shell_command", "run"), ("shell", "run"), ("exec", "run"),
    ("execute_command", "run"), ("terminal", "run"), ("functions.run", "run"), ("mcp__box__run", "run"),
    ("read_file", "read"), ("readFile", "read"), ("cat", "read"), ("ReadFile", "read"),
    ("write_file", "write"), ("create_file", "write"), ("fs_write", "write"), ("edit_file", "edit"),
    ("apply_patch", "edit"), ("str_replace", "edit"), ("str_replace_edit_tool", "edit"),
    ("str_replace_based_edit", "str_replace_based_edit_tool"),
    ("search_files", "grep"), ("find_files", "glob"), ("list_directory", "glob"), ("ls", "glob"),
    ("rename", "move"), ("rm", "delete"), ("delete_file", "delete"), ("python", "run_ipython"),
    ("ipython", "run_ipython"), ("python_repl", "run_ipython"), ("execute_ipython", "execute_ipython_cell"),
    ("fetch", "browse"), ("web_fetch", "browse"), ("click", "browse_interactive"),
    ("browser_click", "browser"), ("gerp", "grep"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "meant"), MEANT)
def test_the_nearest_tool_is_the_one_that_was_meant(name: str, meant: str) -> None:
    assert nearest(name, TOOLS, TOOL_WORDS) == meant


@pytest.mark.parametrize("name", ["", "_", "zzzzzz", "\N{SNOWMAN}", "send_email"])
def test_no_tool_is_guessed_where_none_is_near(name: str) -> None:
    assert nearest(name, TOOLS, TOOL_WORDS) is None


def test_words_that_stand_for_a_name_belong_to_one_that_exists() -> None:
    known = {argument for name in ENTRIES for argument in tool(name).input_schema["properties"]}
    assert set(ARGUMENT_WORDS) <= known
    assert set(TOOL_WORDS) == set(ENTRIES)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
argument_names = sorted(
    {argument for name in ENTRIES for argument in tool(name).input_schema["properties"]}
    | {"restart", "insert_text", "security_risk"}
)


@given(
    st.sampled_from(TOOLS),
    st.dictionaries(st.sampled_from(argument_names) | st.text(max_size=20), json_values, max_size=6),
)
@example("edit", {"command": "view", "path": "/\0", "view_range": []})
@example("run", {"command": "\ud800", "timeout": "nan"})
@example("read", {"path": "a", "view_range": "\ud800"})
def test_any_arguments_are_an_action_or_a_clear_refusal(name: str, arguments: dict[str, Any]) -> None:
    try:
        action = own_action(name, arguments) if name in ENTRIES else alias_action(name, arguments)
    except WrongToolArguments as error:
        assert name in str(error)
    else:
        assert isinstance(action, Action)


@given(st.text(), st.lists(st.text()))
def test_a_guess_is_one_of_the_names_there_are(name: str, known: list[str]) -> None:
    guess = nearest(name, known, TOOL_WORDS)
    assert guess is None or guess in known
