from __future__ import annotations

import os
from pathlib import Path

import pytest

from glovebox.box.vscode import installation
from glovebox.box.vscode.installation import find_server
from glovebox.box.vscode.server import base_path
from glovebox.errors import PluginFailed
from glovebox.settings import load


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def server(place: Path, *, with_node: bool = True) -> Path:
    program(place / "out" / "server-main.js")
    if with_node:
        program(place / "node")
    return place


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine without any server, as its environment tells it."""
    monkeypatch.setattr(installation, "OPENVSCODE", tmp_path / "openhands")
    monkeypatch.setattr(installation, "_CODE_SERVERS", ())
    (tmp_path / "bin").mkdir()
    return {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "bin")}


def test_without_a_server_there_is_advice(machine: dict[str, str]) -> None:
    with pytest.raises(PluginFailed, match="glovebox vscode install"):
        find_server("", machine)
    with pytest.raises(PluginFailed, match="GLOVEBOX_VSCODE is '/nowhere'"):
        find_server("/nowhere", machine)


def test_the_first_of_several_is_taken(machine: dict[str, str], tmp_path: Path) -> None:
    global_modules = tmp_path / "lib" / "node_modules" / "code-server"
    program(tmp_path / "bin" / "node")
    server(global_modules / "lib" / "vscode", with_node=False)
    places = [str(global_modules / "lib" / "vscode")]
    entry = program(tmp_path / "elsewhere" / "code-server" / "out" / "node" / "entry.js")
    server(tmp_path / "elsewhere" / "code-server" / "lib" / "vscode")
    assert find_server("", machine).place == places[-1]
    (tmp_path / "bin" / "code-server").symlink_to(entry)
    assert find_server("", machine).place == str(tmp_path / "elsewhere" / "code-server" / "lib" / "vscode")
    server(tmp_path / "gitpod")
    started = program(tmp_path / "gitpod" / "bin" / "openvscode-server")
    (tmp_path / "bin" / "openvscode-server").symlink_to(started)
    assert find_server("", machine).place == str(tmp_path / "gitpod")
    server(tmp_path / "openhands")
    assert find_server("", machine).place == str(tmp_path / "openhands")
    own = server(Path(machine["HOME"]) / ".local" / "share" / "glovebox" / "vscode")
    assert find_server("", machine).place == str(own)
    other = server(tmp_path / "data" / "glovebox" / "vscode")
    assert find_server("", {**machine, "XDG_DATA_HOME": str(tmp_path / "data")}).place == str(other)
    chosen = server(tmp_path / "chosen")
    assert find_server(str(chosen), machine).command == (
        str(chosen / "node"), str(chosen / "out" / "server-main.js"),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["out/server-main.js", "bin/openvscode-server", "."])
def test_a_server_can_be_named_by_what_belongs_to_it(
    machine: dict[str, str], tmp_path: Path, name: str
) -> None:
    place = server(tmp_path / "chosen")
    program(place / "bin" / "openvscode-server")
    assert find_server(os.path.normpath(place / name), machine).place == str(place)


def test_the_directory_of_code_server_has_one_in_it(machine: dict[str, str], tmp_path: Path) -> None:
    inner = server(tmp_path / "code-server" / "lib" / "vscode", with_node=False)
    with pytest.raises(PluginFailed, match="needs node"):
        find_server(str(tmp_path / "code-server"), machine)
    packaged = program(tmp_path / "code-server" / "lib" / "node")
    assert find_server(str(tmp_path / "code-server"), machine).command[0] == str(packaged)
    assert find_server(str(tmp_path / "code-server"), machine).place == str(inner)


def test_a_node_that_is_gone_is_told(machine: dict[str, str], tmp_path: Path) -> None:
    place = server(tmp_path / "installed", with_node=False)
    (place / "glovebox.json").write_text("{}")
    (place / "node").symlink_to(tmp_path / "gone")
    with pytest.raises(PluginFailed, match=f"glovebox vscode install --force --to {place}"):
        find_server(str(place), machine)


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({}, ""),
        ({"OPENVSCODE_SERVER_BASE_PATH": "a/b/"}, "/a/b"),
        ({"OPENVSCODE_SERVER_BASE_PATH": "/"}, ""),
        ({"RUNTIME_URL": "https://host/abc", "RUNTIME_ID": "abc"}, "/abc/vscode"),
        ({"RUNTIME_URL": "https://host/other", "RUNTIME_ID": "abc"}, ""),
        ({"RUNTIME_URL": "https://host/abc"}, ""),
        ({"RUNTIME_ID": "abc"}, ""),
        (
            {"RUNTIME_URL": "https://host/abc", "RUNTIME_ID": "abc", "OPENVSCODE_SERVER_BASE_PATH": "x"},
            "/x",
        ),
    ],
)
def test_the_base_path_follows_from_settings(variables: dict[str, str], path: str) -> None:
    assert base_path(load({}, variables)) == path
