from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Home


def examined(home: Home, *arguments: str, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = home.glovebox("doctor", "--json", *arguments, cwd=None, **environment)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    found = {f"{finding['area']}/{finding['name']}": finding for finding in told["findings"]}
    assert told["healthy"] == (done.returncode == 0)
    return done.returncode, found


def test_a_machine_that_serves_boxes_is_healthy(home: Home) -> None:
    status, found = examined(home)
    assert status == 0
    for name in ("Python/interpreter", "Python/extra box", "Machine/loopback", "Machine/state directory",
                 "Programs/bash", "Boxes/process"):  # fmt: skip
        assert found[name]["level"] == "ok", found[name]
    for finding in found.values():
        assert bool(finding["advice"]) == (finding["level"] != "ok"), finding


def test_what_is_missing_is_a_problem_only_to_those_who_need_it(home: Home) -> None:
    status, found = examined(home, "--backend", "docker")
    assert status == 1
    assert found["Containers/engine"]["level"] == "problem"
    assert "DOCKER_HOST" in found["Containers/engine"]["advice"]
    status, found = examined(home, "--backend", "process")
    assert status == 0
    assert found["Containers/engine"]["level"] == "warning"


def test_programs_that_are_not_there_are_told_with_what_to_do(home: Home, tmp_path: Path) -> None:
    status, found = examined(home, PATH=str(tmp_path))
    assert status == 1
    assert found["Programs/bash"]["level"] == "problem"
    for name in ("git", "tmux", "bubblewrap", "Chromium"):
        assert found[f"Programs/{name}"]["level"] == "warning"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap")
def test_what_an_isolated_box_shares_with_the_machine_is_told(home: Home) -> None:
    _, found = examined(home)
    assert found["Programs/bubblewrap"]["found"].endswith(
        ", works. It isolates boxes, but not their network (docs/backends.md)"
    )


def test_a_proxy_for_everything_is_warned_of(home: Home) -> None:
    _, found = examined(home, http_proxy="http://127.0.0.1:9")
    assert found["Machine/proxy"]["level"] == "warning"
    assert "NO_PROXY=" in found["Machine/proxy"]["advice"]
    _, found = examined(home, http_proxy="http://127.0.0.1:9", NO_PROXY="localhost,127.0.0.1")
    assert found["Machine/proxy"]["level"] == "ok"


def test_state_that_cannot_be_written_is_a_problem(home: Home, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status, found = examined(home, XDG_STATE_HOME=str(tmp_path / "file" / "below"))
    assert status == 1
    assert found["Machine/state directory"]["level"] == "problem"
    assert "XDG_STATE_HOME" in found["Machine/state directory"]["advice"]


def test_what_answers_but_is_no_engine_is_told(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "silent.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        _, found = examined(home, "--backend", "docker", DOCKER_HOST=f"unix://{path}")
    assert found["Containers/engine"]["found"] == f"nothing answers at {path}"
    _, found = examined(home, "--backend", "docker", DOCKER_HOST="nonsense")
    assert found["Containers/engine"]["level"] == "problem"


def test_a_box_elsewhere_is_asked(home: Home, box: str) -> None:
    [info] = [info for info in home.listed() if info["name"] == box]
    status, found = examined(home, "--backend", info["url"])
    assert (status, found["Box elsewhere/address"]["level"]) == (0, "ok")
    for arguments, words in (
        (("--backend", "remote"), "GLOVEBOX_URL"),
        (("--backend", "http://127.0.0.1:1"), "glovebox serve"),
        (("--backend", "http://:1"), "address"),
    ):
        status, found = examined(home, *arguments)
        assert (status, found["Box elsewhere/address"]["level"]) == (1, "problem")
        assert words in found["Box elsewhere/address"]["advice"]


def test_people_get_text_with_a_verdict(home: Home) -> None:
    done = home.glovebox("doctor", "--backend", "docker")
    assert done.returncode == 1
    assert "\nContainers\n  PROBLEM  engine: " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Boxes of the backend docker: ")
    assert "\x1b" not in done.stdout


def test_a_box_whose_client_was_killed_is_found(home: Home) -> None:
    with home.running("run", "--name", "orphan", "--", "sh", "-c", "echo here; sleep 600") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "here\n"
    _, found = examined(home)
    assert "orphan" in found["Boxes/process"]["found"]
    assert "glovebox prune" in found["Boxes/process"]["advice"]
    assert home.glovebox("rm", "orphan").returncode == 0
