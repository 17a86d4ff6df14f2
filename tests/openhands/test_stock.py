"""A stock OpenHands 0.62 works with a box as with its own server, whichever of its runtimes starts it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.openhands.conftest import Seen

pytestmark = pytest.mark.timeout(400)


def content(observation: dict[str, Any], kind: str) -> str:
    assert observation["observation"] == kind, observation
    text: str = observation["content"]
    return text


def exit_code(observation: dict[str, Any]) -> int:
    assert observation["observation"] == "run", observation
    code: int = observation["extras"]["metadata"]["exit_code"]
    return code


def test_commands_run_in_one_shell_and_can_be_interrupted(stock: Seen) -> None:
    saw = stock("shell")
    assert content(saw["echo"], "run") == "hello\noops"
    assert exit_code(saw["echo"]) == 0
    assert exit_code(saw["unknown"]) == 127
    assert content(saw["kept"][1], "run").endswith("/deep\n1")
    assert "Cannot execute multiple commands at once" in content(saw["two"], "error")
    assert content(saw["late"], "run") == "begun"
    assert exit_code(saw["late"]) == -1
    assert exit_code(saw["stopped"]) == 130
    assert content(saw["after"], "run") == "again"


def test_files_are_written_and_read(stock: Seen) -> None:
    saw = stock("files")
    assert content(saw["written"], "write") == ""
    assert content(saw["read"], "read") == "one\ntwo\nthree\n"
    assert saw["relative"]["content"] == saw["read"]["content"]
    assert content(saw["missing"], "error").startswith("File not found: /no/such/file.")


def test_the_editor_edits_and_says_what_it_cannot(stock: Seen) -> None:
    saw = stock("editing")
    assert content(saw["create"], "edit").startswith("File created successfully at: ")
    assert "File already exists at: " in content(saw["again"], "edit")
    assert "has been edited. Here's the result of running `cat -n`" in content(saw["replace"], "edit")
    assert "No replacement was performed, old_str `c = 9` did not appear" in content(saw["not there"], "edit")
    assert "     1\ta = 1\n     2\tbetween = True\n     3\tb = 3\n" in content(saw["view"], "edit")
    assert content(saw["undo"], "edit").startswith("Last edit to ")
    assert content(saw["no text"], "edit") == "ERROR:\nParameter `file_text` is required for command: create."
    assert saw["content"] == "a = 1\nb = 3"


def test_cells_run_in_one_kernel(stock: Seen) -> None:
    saw = stock("notebook")
    assert content(saw["print"], "run_ipython").startswith("21\n[Jupyter current working directory: ")
    assert content(saw["state"], "run_ipython").startswith("40\n")
    assert "ZeroDivisionError: division by zero" in content(saw["fails"], "run_ipython")
    assert content(saw["environment"], "run_ipython") == "BAZ"


def test_files_are_copied_in_and_out(stock: Seen) -> None:
    saw = stock("transfer")
    assert saw["listed"] == ["tree/", "a.txt"]
    assert saw["nothing"] == []
    assert saw["back"] == ["a.txt", "tree/a.txt", "tree/inner/b.bin"]
    assert saw["same"]
    assert saw["missing"] == "Source file /no/such/file does not exist"


def test_commands_find_the_environment_that_was_set(stock: Seen) -> None:
    saw = stock("environment")
    assert [saw["host"], saw["startup"], saw["added"]] == ["BAZ", "the box", 'abc"def']
    assert saw["kept"] == "1"
    assert saw["identity"] == "openhands\nopenhands@all-hands.dev"


def test_the_key_of_the_box_is_hidden_from_commands(stock: Seen) -> None:
    assert stock("environment")["key"] == "[]"


def test_a_repository_is_cloned_and_set_up(stock: Seen) -> None:
    saw = stock("repository")
    assert exit_code(saw["made"]) == 0
    assert saw["name"] == "demo"
    assert saw["branch"].startswith("openhands-workspace-")
    assert saw["remote"].endswith("https://github.com/acme/demo.git")
    assert saw["set up"] == "yes\nset-up-was-here"
    assert "This hook was installed by OpenHands" in saw["hook"]
    assert content(saw["committed"], "run").startswith("the hook ran\n")


def test_changes_of_a_repository_are_seen(stock: Seen) -> None:
    saw = stock("repository")
    assert {"status": "M", "path": "file.txt"} in saw["changes"]
    assert {"status": "A", "path": "new.txt"} in saw["changes"]
    assert saw["diff"] == {"modified": "one\ntwo", "original": "one"}


def test_microagents_of_a_repository_are_loaded(stock: Seen) -> None:
    assert stock("repository")["microagents"] == [
        ["knowledge/tea", "knowledge"],
        ["repo", "repo"],
        ["repo_legacy", "repo"],
    ]


def test_tools_of_mcp_servers_in_the_box_are_called(stock: Seen) -> None:
    saw = stock("mcp")
    assert set(saw["sse"]) == {"/mcp/sse"}
    assert '"text": "said"' in content(saw["called"], "mcp")


def test_actions_of_the_event_stream_are_answered_there(stock: Seen) -> None:
    saw = stock("events")
    (observation,) = saw["seen"]
    assert content(observation, "run") == "from the stream"
    assert observation["cause"] == saw["cause"]


def test_what_needs_no_box_or_no_browser_is_answered(stock: Seen) -> None:
    saw = stock("others")
    assert content(saw["thought"], "think") == "Your thought has been logged."
    assert "not supported or disabled" in content(saw["browse"], "error")
    assert saw["vscode"] is None


def test_every_step_is_told(stock: Seen) -> None:
    statuses = stock("others")["statuses"]
    assert statuses[0] == "STATUS$STARTING_RUNTIME"
    assert "STATUS$READY" in statuses
    assert statuses[-2:] == ["STATUS$SETTING_UP_WORKSPACE", "STATUS$SETTING_UP_GIT_HOOKS"]
