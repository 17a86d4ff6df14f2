"""`glovebox.openhands.GloveboxRuntime`: its boxes begin, are found again, and end as OpenHands says."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.openhands.conftest import Seen

pytestmark = pytest.mark.timeout(400)


def test_importing_the_package_needs_no_openhands() -> None:
    code = "import glovebox.openhands, sys; assert 'openhands' not in sys.modules; glovebox.openhands.nothing"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "module 'glovebox.openhands' has no attribute 'nothing'" in ran.stderr


def test_the_box_wants_its_key(life: Seen) -> None:
    assert life("one")["guarded"] == [403, 200]


def test_a_paused_box_goes_on_where_it_was(life: Seen) -> None:
    assert life("one")["paused"] == "still\nfile"


def test_a_command_whose_answer_was_lost_is_not_run_again(life: Seen) -> None:
    assert life("one")["repeated"] == {"lost": 1, "log": "once"}


def test_a_conversation_is_opened_again_with_its_files_until_it_is_deleted(life: Seen) -> None:
    saw = life("reopened")
    assert saw["seen"] == "kept"
    assert saw["same key"]
    assert saw["after the other closed"] == "lives"
    assert saw["deleted"] == ["AgentRuntimeDisconnectedError", "There is no box 'oh-test-reopened'."]


def test_a_box_that_is_kept_alive_is_frozen_unless_it_must_not_be(life: Seen) -> None:
    saw = life("kept")
    assert saw.pop("jobs").startswith("[1]+  Running")
    assert saw == {"frozen": True, "attached": True, "left": True, "deleted": True}


def test_a_headless_run_leaves_nothing(life: Seen) -> None:
    saw = life("gone")
    assert not saw["workspace"]
    assert saw["attach"][0] == "AgentRuntimeDisconnectedError"
    assert saw["used"][0] == "AgentRuntimeNotReadyError"


def test_boxes_that_are_not_isolated_are_processes_and_that_is_said_aloud(
    driven: dict[str, Any], life: Seen
) -> None:
    assert life("gone")["place"] == str(driven["folder"] / "state/glovebox/boxes/oh-test-gone/workspace")
    assert "This box is NOT isolated" in driven["log"]
    refusal, text = life("gone")["not_isolated"]
    assert refusal == "AgentRuntimeUnavailableError"
    assert text.startswith("No container engine answers. bubblewrap is not installed.")


def test_what_a_backend_cannot_do_is_told_in_the_words_of_openhands(life: Seen) -> None:
    kind, text = life("gone")["impossible"]
    assert kind == "AgentRuntimeUnavailableError"
    assert "has no volumes" in text


def test_a_runtime_that_nobody_closes_leaves_nothing_either(driven: dict[str, Any], life: Seen) -> None:
    assert life("left_open").endswith("oh-test-left-open/workspace")
    assert list((driven["folder"] / "state/glovebox/boxes").iterdir()) == []


def test_a_box_that_dies_is_told_as_disconnected(life: Seen) -> None:
    saw = life("died")
    (kind, text), after = saw["during"], saw["after"]
    assert kind == "AgentRuntimeDisconnectedError"
    assert text.startswith("The box oh-test-died does not answer (it is ")
    assert after[0] == "AgentRuntimeDisconnectedError"
    assert after[1].startswith("The box oh-test-died does not answer (it is stopped): ")
    assert not saw["workspace"]


def test_no_mcp_server_is_listed_twice(driven: dict[str, Any]) -> None:
    saw = driven["class"]["mcp"]["saw"]
    assert saw["sse"] == ["/mcp/sse"]
    assert saw["key"] == [True]


def test_the_box_has_two_ports_for_web_servers(driven: dict[str, Any]) -> None:
    assert driven["class"]["others"]["saw"]["hosts"] == 2


def test_the_configuration_becomes_a_container(life: Seen) -> None:
    plain = life("wishes")["plain"]
    assert plain["name"] == "oh-s"
    assert plain["image"] == "nikolaik/python-nodejs:python3.12-nodejs22"
    assert (plain["user"], plain["user_id"], plain["browser"]) == ("openhands", 1000, True)
    assert plain["arguments"] == ["--sudo"]
    assert (plain["workspace"], plain["workspace_in_box"]) == ("", "/workspace")
    assert plain["env"].items() >= {"A": "1", "APP_PORT_1": "51000", "OPENHANDS_SESSION_ID": "s"}.items()
    assert plain["ports"] == {"41000": 0, "51000": 0, "56000": 0}
    assert plain["publish_address"] == "127.0.0.1"


def test_a_process_is_asked_for_nothing_that_only_containers_have(life: Seen) -> None:
    process = life("wishes")["process"]
    assert [process[name] for name in ("image", "user", "arguments", "network", "runtime", "ports")] == [
        "",
        "",
        [],
        "",
        "",
        {},
    ]


def test_volumes_have_the_syntax_of_the_contract(life: Seen) -> None:
    saw = life("wishes")
    assert saw["mounts"] == ["/a", [["cache", "/cache", "rw"], ["/b", "/b", "ro"], ["/c", "/c", "overlay"]]]
    assert saw["read only"] == ["", [["/a", "/workspace", "ro"]]]
    assert saw["old mount"] == ["/old", []]
    assert saw["bad mount"].startswith("bad_spec: Invalid mount format in sandbox.volumes: nowhere.")


def test_other_wishes_are_honoured(life: Seen) -> None:
    saw = life("wishes")
    assert saw["image"] == "own:1"
    assert saw["root"] == ["root", 0]
    assert saw["network"] == ["host", {}]
    assert saw["networks"] == ["one", "two"]
    assert saw["runtime"] == "runsc"
    assert saw["elsewhere"] == ["0.0.0.0", "10.0.0.1"]
    assert saw["evaluation"] == ["--sudo", "--browsergym-eval-env", "browsergym/miniwob", "x"]
    assert saw["names"][0] == "oh-abc"
    assert saw["names"][1].startswith("oh-a-b-c-")
    assert saw["names"][2]


@pytest.mark.parametrize("wish", ["gpu", "kwargs", "deps"])
def test_what_no_box_can_do_is_refused(life: Seen, wish: str) -> None:
    assert life("wishes")[wish].startswith("not_supported: sandbox.")


def test_a_window_is_asked_for_nothing_but_its_workspace(life: Seen) -> None:
    saw = life("window_wishes")
    always = {"agent": "OpenHands", "labels": {"glovebox.stay": "oh-s"}, "start_limit": 180.0}
    assert saw["plain"] == [{**always, "env": {"A": "1"}}, []]
    chosen = {"workspace": "/home/ada/project", "env": {"A": "1", "B": "2"}}
    assert saw["workspace"] == [{**always, **chosen}, []]


def test_what_a_window_cannot_have_is_refused_or_named(life: Seen) -> None:
    saw = life("window_wishes")
    assert saw["mounts"][0] == "not_supported"
    assert saw["mounts"][1].startswith("sandbox.volumes (/b): nothing is mounted into a VS Code window")
    assert saw["evaluation"][0] == "not_supported"
    ignored = ["sandbox.platform", "sandbox.base_container_image", "sandbox.use_host_network"]
    assert saw["ignored"][1] == ignored
