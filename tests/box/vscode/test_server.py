"""A real VS Code server behind a box's port."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.box.vscode.vscode_client import Editor, environment
from tests.support.running import running_box, wait_until
from tests.support.waiting import LIMIT

OWN_SETTINGS = '{"editor.fontSize": 20}'
PLUGIN = ("--plugins", "vscode")


@pytest.fixture(scope="module")
def editor(vscode_server: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """A box below a path, whose workspace has settings of its own."""
    workspace = tmp_path_factory.mktemp("vscode") / "workspace"
    (workspace / ".vscode").mkdir(parents=True)
    (workspace / ".vscode" / "settings.json").write_text(OWN_SETTINGS)
    variables = environment(vscode_server, OPENVSCODE_SERVER_BASE_PATH="some/where/")
    with running_box(workspace, *PLUGIN, environment=variables) as box:
        yield Editor(box)


def opened(editor: Editor) -> int:
    """Have the server started; its process."""
    assert editor.get(editor.page).status_code == 302
    pid: int = editor.health["pid"]
    return pid


def test_the_server_starts_when_somebody_shows_the_token(editor: Editor) -> None:
    assert editor.health["state"] == "waiting"
    assert editor.get(editor.url).status_code == 403
    assert editor.get(f"{editor.url}?tkn=wrong").status_code == 403
    assert editor.health["state"] == "waiting"
    let_in = editor.get(f"{editor.url}?tkn={editor.token}")
    assert let_in.status_code == 302
    assert let_in.cookies["vscode-tkn"] == editor.token
    assert editor.health["state"] == "running"
    assert editor.get(editor.url).status_code == 403
    page = editor.get(editor.url, **{"vscode-tkn": editor.token or ""})
    assert page.status_code == 200
    assert "vscode-workbench-web-configuration" in page.text


def test_all_addresses_begin_with_the_base_path(editor: Editor) -> None:
    opened(editor)
    assert editor.health["path"] == "/some/where"
    assert editor.get(f"{editor.url}version").text == editor.health["version"]
    elsewhere = editor.url.replace("/some/where/", "/some/where/else/")
    assert editor.get(f"{elsewhere}version").status_code == 403


def test_settings_of_the_workspace_are_left_alone(editor: Editor) -> None:
    opened(editor)
    assert (editor.box.workspace / ".vscode" / "settings.json").read_text() == OWN_SETTINGS


def test_a_server_that_crashes_is_there_again_once_and_then_given_up(editor: Editor) -> None:
    page = editor.page
    os.kill(opened(editor), signal.SIGKILL)
    wait_until(lambda: editor.info["restarts"] == 1, what="the crash")
    assert "ended with exit status 137" in editor.info["error"]
    assert editor.health["state"] == "waiting"
    assert editor.page == page  # whoever has it open need not ask again
    os.kill(opened(editor), signal.SIGKILL)
    wait_until(lambda: "crashed again" in editor.info["error"], what="the second crash")
    assert not editor.info["healthy"]
    assert editor.token is None
    with pytest.raises(httpx.ConnectError):
        editor.get(page)
    assert editor.box.run("echo still here") == "still here"
    assert editor.box.client.post("/plugins/vscode/restart").json()["healthy"]
    assert editor.page == page
    opened(editor)


def test_restarting_the_plugin_ends_the_server(editor: Editor) -> None:
    before = opened(editor)
    assert editor.box.client.post("/plugins/vscode/restart").json()["health"]["state"] == "waiting"
    assert not Path(f"/proc/{before}").exists()


def test_without_a_server_the_box_says_what_to_do_and_takes_one_that_comes(
    vscode_server: Path, tmp_path: Path
) -> None:
    place = tmp_path / "later"
    with running_box(tmp_path / "ws", *PLUGIN, environment=environment(place)) as box:
        editor = Editor(box)
        assert editor.token is None
        assert not editor.info["healthy"]
        assert "glovebox vscode install" in editor.info["error"]
        assert box.run("echo fine") == "fine"
        place.symlink_to(vscode_server)
        assert editor.token
        assert editor.health["state"] == "waiting"
    assert not (tmp_path / "ws" / ".vscode").exists()  # nobody has opened it


def test_a_server_that_does_not_start_is_told_to_whoever_opens_it(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / "out").mkdir(parents=True)
    (broken / "out" / "server-main.js").write_text("console.log('it is broken'); process.exit(3)")
    with running_box(tmp_path / "ws", *PLUGIN, environment=environment(broken)) as box:
        editor = Editor(box)
        answer = editor.get(editor.page)
        assert answer.status_code == 502
        assert "it is broken" in answer.text
        assert editor.info["restarts"] == 0


def test_a_port_that_is_taken_and_one_that_is_none_are_told(vscode_server: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with running_box(
            tmp_path / "a", *PLUGIN, environment=environment(vscode_server, VSCODE_PORT=port)
        ) as box:
            assert Editor(box).token is None
            assert f"at port {port} of 127.0.0.1: something else uses it" in Editor(box).info["error"]
            taken.close()
            assert Editor(box).token
            assert Editor(box).health["port"] == int(port)
    with running_box(
        tmp_path / "b", *PLUGIN, "--vscode-port", "off", environment=environment(vscode_server)
    ) as box:
        assert Editor(box).token is None
        assert "switched off" in Editor(box).info["error"]


def test_it_outlives_a_server_of_the_box_that_is_killed(vscode_server: Path, tmp_path: Path) -> None:
    flags = (*PLUGIN, "--state-dir", str(tmp_path / "state"))
    with running_box(tmp_path / "ws", *flags, environment=environment(vscode_server)) as box:
        page, pid = Editor(box).page, opened(Editor(box))
        box.process.kill()
        box.process.wait(LIMIT)
    with running_box(tmp_path / "ws", *flags, environment=environment(vscode_server)) as box:
        editor = Editor(box)
        assert editor.page == page
        assert editor.health["pid"] == pid
        assert editor.get(page).status_code == 302
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the end of the server")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")
def test_it_is_the_sandbox_users(vscode_server: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, pwd.getpwnam("nobody").pw_uid, -1)
    tmp_path.chmod(0o755)
    flags = (*PLUGIN, "--username", "nobody", "--plugin-options", f"vscode.data_dir={data}")
    with running_box(workspace, *flags, environment=environment(vscode_server)) as box:
        pid = opened(Editor(box))
        assert Path(f"/proc/{pid}").owner() == "nobody"
        settings = workspace / ".vscode" / "settings.json"
        assert settings.owner() == "nobody"
        assert json.loads(settings.read_text())["workbench.startupEditor"] == "none"
        assert (data / "data").is_dir()
