"""Plugins are found by entry point, chosen by name, and told their own settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from glovebox.box import plugin_life
from tests.plugins.packages import install
from tests.support.running import running_box

ROOT = Path(__file__).parents[2]
CHOSEN = ("--plugins", "echo", "--plugin-options")
CLASS = "from glovebox.plugins import Plugin\nclass ThePlugin(Plugin):\n"

ECHO = """
    from typing import ClassVar
    from glovebox.plugins import Action, Call, Message, Observation, Plugin

    class EchoObservation(Observation):
        observation: ClassVar[str] = "echo"
        times: int

    class EchoAction(Action[EchoObservation]):
        action: ClassVar[str] = "echo"
        text: str

    class EchoOptions(Message):
        times: int = 1
        end: str = "!"

    class ThePlugin(Plugin):
        name = "echo"
        options = EchoOptions

        def __init__(self, context):
            super().__init__(context)
            self.own = context.options(EchoOptions)

        def handlers(self):
            return [self.echo]

        async def echo(self, action: EchoAction, call: Call) -> EchoObservation:
            text = action.text * self.own.times + self.own.end
            return EchoObservation(content=text, times=self.own.times)
"""


def refused(tmp_path: Path, environment: dict[str, str], *flags: str) -> str:
    """What a box says that does not start."""
    process = subprocess.run(
        [sys.executable, "-m", "glovebox", "serve", "0", "--working-dir", str(tmp_path / "ws"), *flags],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 3, process.stderr
    return process.stderr


def test_the_own_plugins_are_the_entry_points_of_the_package() -> None:
    installed = {point.name: point.value for point in entry_points(group=plugin_life.GROUP)}
    assert {name: installed.get(name) for name in plugin_life.OWN} == plugin_life.OWN


def test_the_example_of_the_documentation_is_short_is_installed_and_works(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert len(blocks["glovebox_sqlite.py"].splitlines()) < 40
    package, target = tmp_path / "package", tmp_path / "installed"
    package.mkdir()
    for name, text in blocks.items():
        (package / name).write_text(text, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index",
         "--disable-pip-version-check", "--target", str(target), str(package)],
        check=True, timeout=120,
    )  # fmt: skip
    environment = {"PYTHONPATH": str(target), "GLOVEBOX_PLUGIN_SQLITE_PATH": str(tmp_path / "data.db")}
    with running_box(tmp_path / "ws", "--plugins", "sqlite", environment=environment) as box:
        box.execute("query", sql="create table animals (name text)")
        box.execute("query", sql="insert into animals values ('owl'), ('eel')")
        answer = box.execute("query", sql="select name from animals order by name")
        assert answer["observation"] == "rows"
        assert answer["extras"]["rows"] == [["eel"], ["owl"]]
        wrong = box.client.post("/execute_action", json={"action": {"action": "query", "args": {"sql": "?"}}})
        assert wrong.status_code == 500
        assert "syntax error" in wrong.json()["detail"] or "unrecognized" in wrong.json()["detail"]
        assert box.client.get("/sqlite/tables").json() == [["animals"]]
        described = box.client.get("/openapi.json").json()
        assert "/sqlite/tables" in described["paths"]
        assert "query" in str(described["components"]["schemas"]["ActionEnvelope"])
    assert (tmp_path / "data.db").exists()


def test_settings_of_a_plugin_come_from_flags_then_variables_then_defaults(tmp_path: Path) -> None:
    environment = install(tmp_path / "site", "echo", ECHO)
    environment |= {"GLOVEBOX_PLUGIN_ECHO_TIMES": "2", "GLOVEBOX_PLUGIN_ECHO_END": "?"}
    flags = ("--plugins", "echo", "--plugin-options", "echo.end=.")
    with running_box(tmp_path / "ws", *flags, environment=environment) as box:
        answer = box.execute("echo", text="ab")
        assert answer["content"] == "abab."
        assert answer["extras"] == {"times": 2}
        assert "GLOVEBOX_PLUGIN" not in box.run("env")
        assert box.execute("echo", text="é\x00")["content"] == "é\x00é\x00."
        wrong = box.client.post("/execute_action", json={"action": {"action": "echo", "args": {}}})
        assert wrong.status_code == 500
        assert wrong.headers["x-glovebox-error"] == "wrong_arguments"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--plugins", "nope"), "Known plugins: browser, jupyter, agent_skills, vscode, echo."),
        ((*CHOSEN, "echo.size=3"), "plugin echo has no setting 'size'; it has: times"),
        ((*CHOSEN, "echo.times=many"), "The settings of plugin echo cannot be used"),
        ((*CHOSEN, "times=3"), "is not of the form PLUGIN.NAME=VALUE"),
    ],
)  # fmt: skip
def test_a_plugin_or_setting_that_does_not_exist_is_told_at_the_start(
    tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    assert said in refused(tmp_path, install(tmp_path / "site", "echo", ECHO), *flags)


def test_a_plugin_that_brings_what_is_there_already_is_left_out(tmp_path: Path) -> None:
    source = """
        from glovebox.plugins import Endpoint, Plugin, Reply, json_response

        class ThePlugin(Plugin):
            name = "greedy"

            def endpoints(self):
                return [Endpoint("GET", "/sessions", self.mine, "Mine", {200: Reply("Mine.")})]

            async def mine(self, request):
                return json_response("mine")
    """
    environment = install(tmp_path / "site", "greedy", source)
    with running_box(tmp_path / "ws", "--plugins", "greedy", environment=environment) as box:
        assert box.client.get("/sessions").json()[0]["name"] == "main"
        told = box.client.get("/plugins/greedy").json()
        assert told["state"] == "failed"
        assert "GET /sessions of terminal" in told["error"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_module_here", "No module named 'no_such_module_here'"),
        ("ThePlugin = 3", "is not a plugin"),
        ("raise RuntimeError('on import')", "on import"),
        (f"{CLASS}    name = 'other'", "has the name 'other'"),
        (f"{CLASS}    name = 'bad'\n    needs = ('nope',)", "It needs nope. Plugin nope not found"),
        (f"{CLASS}    name = 'bad'\n    handlers = lambda self: [print]", "annotated with an action"),
        (f"{CLASS}    name = 'bad'\n    handlers = lambda self: 1 / 0", "ZeroDivisionError"),
    ],
)  # fmt: skip
def test_a_plugin_that_cannot_be_loaded_leaves_the_box_serving(
    tmp_path: Path, source: str, said: str
) -> None:
    environment = install(tmp_path / "site", "bad", source)
    with running_box(tmp_path / "ws", "--plugins", "bad", environment=environment) as box:
        assert box.run("echo served") == "served"
        told = box.client.get("/plugins/bad").json()
        assert told["state"] == "failed"
        assert said in told["error"]
        again = box.client.post("/plugins/bad/restart")
        assert again.status_code == 500
        assert again.headers["x-glovebox-error"] == "plugin_failed"
