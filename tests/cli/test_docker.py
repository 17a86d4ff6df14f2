from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.box.mcp_own.connecting import connected
from tests.cli.support import Home
from tests.support.engine import BASE, RealEngine
from tests.support.running import wait_until


@pytest.mark.timeout(600)  # an image and the runtime may have to be made first
def test_a_container_is_chosen_lived_in_and_removed_from_the_command_line(
    engine: RealEngine, tmp_path: Path
) -> None:
    user = Home(tmp_path / "home", GLOVEBOX_BACKEND="", GLOVEBOX_ISOLATION="", **engine.environ)
    try:
        examined = json.loads(user.glovebox("doctor", "--json").stdout)
        assert (examined["backend"], examined["healthy"]) == ("docker", True), examined
        flags = ("--keep", "--name", "cli", "--memory", "1G", "--env", "GREETING=hello")
        started = user.glovebox("run", *flags, "sh -c 'echo $GREETING; test -e /.dockerenv; exit 3'")
        assert started.returncode == 3, started.stderr
        assert started.stdout == "hello\n"
        assert "isolate" not in started.stderr
        assert engine.container("cli")["HostConfig"]["Memory"] == 1 << 30
        [info] = [info for info in user.listed() if info["name"] == "cli"]
        assert (info["name"], info["backend"], info["state"]) == ("cli", "docker", "running")

        (tmp_path / "note").write_text("note")
        assert user.glovebox("cp", str(tmp_path / "note"), "cli:in/").returncode == 0
        assert user.glovebox("run", "--box", "cli", "--", "cat", "in/note").stdout == "note"
        assert user.glovebox("cp", "cli:in", str(tmp_path / "out")).returncode == 0
        assert (tmp_path / "out" / "note").read_text() == "note"
        assert "Glovebox serves" in user.glovebox("logs", "cli").stdout

        ambiguous = user.glovebox("run", "--backend", "process", "--keep", "--name", "cli", "--", "true")
        assert ambiguous.returncode == 0
        refused = user.glovebox("stop", "cli")
        assert refused.returncode == 1
        assert "Say which one with --backend" in refused.stderr
    finally:
        # By name: the engine may be somebody's own, with boxes that are not of this test.
        removed = [user.glovebox("rm", "--backend", place, "cli") for place in ("process", "docker")]
    assert [done.stdout for done in removed] == ["cli\n", "cli\n"], removed
    assert "container /glovebox-cli" not in engine.things()


@pytest.mark.timeout(600)
def test_a_client_of_mcp_works_in_a_container_that_ends_with_it(
    engine: RealEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in engine.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GLOVEBOX_IMAGE")
    monkeypatch.delenv("GLOVEBOX_ISOLATION", raising=False)
    workspace, secret = tmp_path / "workspace", tmp_path / "secret"
    secret.write_text("of the user")
    before = engine.things()
    flags = ("--backend", "docker", "--image", BASE, "--no-enable-browser")
    with connected(workspace, "auto", *flags, read_timeout_seconds=300) as client:
        assert len(engine.things() - before) >= 1
        shown = client.text("run", command=f"pwd; ls -d /.dockerenv; cat {secret} || echo not here")
        assert shown.splitlines()[:2] == [str(workspace), "/.dockerenv"]
        assert "not here" in shown
        assert "of the user" not in shown
        client.text("write", path="from-the-box", content="text")
        assert (workspace / "from-the-box").read_text() == "text\n"
        assert "text" in client.text("read", path="from-the-box")
    wait_until(lambda: engine.things() == before, what="the end of the container")
