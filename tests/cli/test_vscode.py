from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.support import Home
from tests.support.running import running_box

#: Where nothing listens, so that nothing can be got.
NOWHERE = "http://127.0.0.1:9/"


def test_what_was_installed_is_found_once_it_is_named(home: Home, vscode_server: Path) -> None:
    again = home.glovebox("vscode", "install", "--to", str(vscode_server))
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith(f"{vscode_server} has VS Code's server of code-server 4.")
    told = home.glovebox("vscode", "path", GLOVEBOX_VSCODE=str(vscode_server))
    assert told.stdout == f"{vscode_server}\n"
    assert json.loads((vscode_server / "glovebox.json").read_text())["version"]


def test_what_an_earlier_release_installed_gets_what_it_lacks_and_nothing_more(
    home: Home, vscode_server: Path, tmp_path: Path
) -> None:
    place = _server(tmp_path / "vscode")
    shutil.copy(vscode_server / "glovebox.json", place)
    logs = Path("node_modules/@vscode/spdlog/index.js")
    (place / logs).parent.mkdir(parents=True)
    (place / logs).write_text("require('bindings')('spdlog');")
    said = [
        home.glovebox("vscode", "install", "--to", str(place), npm_config_registry=NOWHERE) for _ in range(2)
    ]
    assert [one.returncode for one in said] == [0, 0]
    assert said[0].stderr == "1/1 Bringing it up to date\n"
    assert said[1].stdout.endswith(" already.\n")
    assert (place / logs).read_bytes() == (vscode_server / logs).read_bytes()
    assert [one.name for one in (place / logs).parent.iterdir()] == ["index.js"]


def test_what_a_machine_lacks_is_told_with_what_to_do(home: Home, tmp_path: Path) -> None:
    told = home.glovebox("vscode", "path", GLOVEBOX_VSCODE=str(tmp_path))
    assert told.returncode == 1
    assert "there is no VS Code server there. Install one: glovebox vscode install" in told.stderr
    for chosen, level in ((str(tmp_path), "warning"), (str(_server(tmp_path / "some")), "ok")):
        told = home.glovebox("doctor", "--json", "--backend", "process", GLOVEBOX_VSCODE=chosen)
        [found] = [one for one in json.loads(told.stdout)["findings"] if one["name"] == "VS Code server"]
        assert found["level"] == level
        assert ("glovebox vscode install" in found["advice"]) == (level == "warning")


@pytest.mark.skipif(not shutil.which("npm"), reason="there is no npm")
def test_a_registry_that_cannot_be_reached_leaves_nothing(home: Home, tmp_path: Path) -> None:
    place = tmp_path / "to" / "vscode"
    told = home.glovebox(
        "vscode", "install", "--to", str(place),
        npm_config_registry=NOWHERE, npm_config_fetch_retries="0", npm_config_cache=str(tmp_path / "cache"),
    )  # fmt: skip
    assert told.returncode == 1
    assert "npm pack" in told.stderr
    assert "The registry of npm cannot be reached." in told.stderr
    assert list(place.parent.iterdir()) == []


def test_without_npm_it_is_said_what_to_install(home: Home, tmp_path: Path) -> None:
    told = home.glovebox(
        "vscode", "install", "--to", str(tmp_path / "vscode"),
        PATH=str(Path(sys.executable).parent / "none"), PIP_INDEX_URL=NOWHERE, PIP_RETRIES="0",
        PIP_EXTRA_INDEX_URL="", PIP_NO_CACHE_DIR="1",
    )  # fmt: skip
    assert told.returncode == 1
    assert "Install Node.js and npm" in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_else_has_made_is_left_alone(home: Home, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    for verb, words in (("install", "holds something else"), ("uninstall", "Remove it yourself")):
        told = home.glovebox("vscode", verb, "--to", str(tmp_path))
        assert told.returncode == 1
        assert words in told.stderr
    assert (tmp_path / "mine").exists()


def test_uninstall_removes_what_was_installed(home: Home, tmp_path: Path) -> None:
    place = _server(tmp_path / "vscode")
    (place / "glovebox.json").write_text('{"version": "1"}')
    assert home.glovebox("vscode", "uninstall", "--to", str(place)).stdout == f"{place} is removed.\n"
    assert not place.exists()
    told = home.glovebox("vscode", "uninstall", "--to", str(place))
    assert (told.returncode, told.stdout) == (0, f"There is nothing at {place}.\n")


def test_a_box_is_asked_where_its_vscode_is(home: Home, tmp_path: Path) -> None:
    variables = {"GLOVEBOX_VSCODE": str(_server(tmp_path / "server"))}
    with running_box(tmp_path / "a b", "--plugins", "vscode", environment=variables) as box:
        told = home.glovebox("vscode", "url", "--url", box.url, SESSION_API_KEY=box.key)
        token = box.client.get("/vscode/connection_token").json()["token"]
        port = box.client.get("/plugins/vscode").json()["health"]["port"]
        assert told.stdout == f"http://127.0.0.1:{port}/?tkn={token}&folder={tmp_path}/a%20b\n"
        told = home.glovebox("vscode", "url", "--url", box.url)
        assert told.returncode == 1
        assert "403" in told.stderr
    told = home.glovebox("vscode", "url", "--url", box.url)
    assert told.returncode == 1
    assert "Nothing that is a box answers" in told.stderr


def _server(place: Path) -> Path:
    """What looks like a server from outside."""
    (place / "out").mkdir(parents=True)
    (place / "out" / "server-main.js").touch()
    (place / "node").symlink_to(sys.executable)
    return place
