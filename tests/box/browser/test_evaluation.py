"""Agents are evaluated on tasks of BrowserGym, in its own environment."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from socket import socket
from typing import Any

import pytest
from PIL import Image

from glovebox.box.browser.wire import BrowserFailure, BrowserStep, Cast, Observe, OpenTabs, Picture
from tests.box.browser.evaluation_process import TASK, Worker, evaluating, miniwob_url, waiting_for_a_page
from tests.support.running import running_box, wait_until

GOAL = "Click the button."

#: A package with tasks of the tests' own, where BrowserGym looks for those of another benchmark.
OWN_TASKS = """
from browsergym.core.registration import register_task
from browsergym.core.task import AbstractBrowserTask

class Own(AbstractBrowserTask):
    @classmethod
    def get_task_id(cls):
        return "visualwebarena.own"

    def __init__(self, seed):
        super().__init__(seed)
        self.viewport = {"width": 400, "height": 300}
        self.slow_mo = 0
        self.timeout = 5000

    def setup(self, page):
        page.set_content("<title>Own</title><p>One</p><p id=half></p><button>Two</button>")
        page.evaluate("document.getElementById('half').textContent = 'half \\\\ud83d character'")
        goal = [
            {"type": "image_url", "image_url": "data:image/png;base64,QQ=="},
            {"type": "text", "text": "Look at both."},
            {"type": "image_url", "image_url": {"url": "http://127.0.0.1/two.png"}},
            {"type": "text", "text": "And more."},
        ]
        return goal, {}

    def teardown(self):
        pass

    def validate(self, page, chat_messages):
        if chat_messages[-1]["message"] == "fail":
            raise KeyError("what is not there")
        return 0.25, False, "", {}

register_task(Own.get_task_id(), Own)
"""
HIDING = """
import sys
class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name == {hidden!r} or name.startswith({hidden!r} + "."):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hiding())
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One evaluation for the tests that do not finish its task."""
    with evaluating(tmp_path_factory.mktemp("evaluation"), "browsergym/" + TASK) as worker:
        yield worker


def _size(image: bytes, kind: str = "PNG") -> tuple[int, int]:
    with Image.open(io.BytesIO(image)) as opened:
        assert opened.format == kind
        return opened.size


def test_the_goal_is_told(shared: Worker) -> None:
    told = shared.told("GET_EVAL_GOAL")
    assert told.text == GOAL
    assert told.images == []


def test_a_step_shows_the_page_as_browsergym_sees_it(shared: Worker) -> None:
    seen = shared.step("noop(10)")
    page = miniwob_url() + "click-test.html"
    assert (seen.url, seen.open_pages_urls, seen.active_page_index) == (page, [page], 0)
    assert seen.error == seen.tree_error == seen.text == ""
    lines = seen.tree.splitlines()
    assert lines[0] == f"RootWebArea 'Click Test Task', focused, url='{page}'"
    assert "\t\t\t\t[13] button 'Click Me!', clickable" in lines
    assert "\t[9] generic" in lines
    assert seen.focused_element_bid == "9"
    assert _size(seen.screenshot) == _size(seen.set_of_marks) == (500, 320)
    assert seen.set_of_marks != seen.screenshot
    assert (seen.axtree, seen.properties) == ({}, {})


def test_a_page_is_told_as_text_if_that_is_wanted(shared: Worker) -> None:
    seen = shared.step("noop(10)", as_text=True)
    assert seen.text.strip() == "Click Me!"
    assert seen.tree == ""


def test_the_tree_is_told_as_it_is_if_that_is_wanted(shared: Worker) -> None:
    seen = shared.step("noop(10)", raw=True)
    button = next(node for node in seen.axtree["nodes"] if node.get("browsergym_id") == "13")
    assert button["role"]["value"] == "button"
    assert seen.properties["13"]["clickable"] is True
    assert seen.properties["13"]["set_of_marks"] is True
    assert len(seen.properties["13"]["bbox"]) == 4


def test_what_goes_wrong_in_a_step_and_what_was_said_is_told(shared: Worker) -> None:
    seen = shared.step('send_msg_to_user("half done")\nclick("99")')
    assert seen.error == 'ValueError: Could not find element with bid "99"'
    assert seen.messages == ["half done"]
    assert shared.step("noop(10)").messages == []
    assert shared.step("dance()").error == "NameError: Invalid action type 'dance'."


def test_the_active_page_can_be_looked_at_and_pages_are_listed(shared: Worker) -> None:
    for kind in ("png", "jpeg"):
        picture = shared.ask(Observe(id=7, format=kind))
        assert isinstance(picture, Picture)
        assert _size(picture.image, kind.upper()) == (500, 320)
        assert (picture.url, picture.title) == (miniwob_url() + "click-test.html", "Click Test Task")
    tabs = shared.survey()
    assert (tabs.urls, tabs.titles, tabs.active) == ([picture.url], [picture.title], 0)
    assert b"--remote-debugging-pipe" in Path(f"/proc/{tabs.pid}/cmdline").read_bytes()


def test_rewards_outlast_a_server_that_comes_again(shared: Worker) -> None:
    shared.step("noop(10)")
    before = shared.rewards()
    assert set(before) == {0.0}
    version = shared.connect().version
    assert version.split(".")[0].isdecimal()
    shared.send(Cast(on=True))  # is not answered
    assert shared.rewards() == before
    shared.step("noop(10)")
    assert shared.rewards() == [*before, 0.0]


def test_only_its_user_can_connect(shared: Worker) -> None:
    assert stat.S_IMODE(shared.socket.stat().st_mode) == 0o600


def test_the_right_click_is_rewarded_and_a_forbidden_port_leads_nowhere(tmp_path: Path) -> None:
    with socket() as closed:
        closed.bind(("127.0.0.1", 0))
        closed.listen()
        closed.setblocking(False)
        port = closed.getsockname()[1]
        with evaluating(tmp_path / "w", options={"closed_ports": [port]}) as worker:
            assert worker.rewards() == []
            worker.step("noop(10)")
            worker.step('click("13")')
            assert worker.rewards() == [0.0, 1.0]
            error = worker.step(f'goto("http://127.0.0.1:{port}/")').error
            assert error.startswith("Error: Page.goto: net::ERR_NAME_NOT_RESOLVED")
            assert worker.rewards() == [0.0, 1.0, 0.0], "another page is not rewarded"
        with pytest.raises(BlockingIOError):
            closed.accept()


@pytest.mark.parametrize("busy", [False, True])
def test_it_ends_with_its_browser_when_told_to(tmp_path: Path, busy: bool) -> None:
    with evaluating(tmp_path / "w") as worker:
        pid = worker.survey().pid
        with waiting_for_a_page(worker) if busy else contextlib.nullcontext():
            assert worker.end() == 128 + signal.SIGTERM
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), what="the end of Chromium")
        assert worker.printed() == ""


def test_a_server_that_comes_while_a_step_is_carried_out_is_greeted_at_once(tmp_path: Path) -> None:
    with evaluating(tmp_path / "w") as worker:
        with waiting_for_a_page(worker):
            worker.connect()
        assert worker.rewards() == [0.0], "the step of the server before was carried out and counts"


def test_goal_and_rewards_are_told_when_the_browser_has_ended(tmp_path: Path) -> None:
    with evaluating(tmp_path / "w") as worker:
        worker.step("noop(10)")
        os.kill(worker.survey().pid, signal.SIGKILL)
        failed = worker.ask(BrowserStep(id=3, actions="noop(10)"))
        assert isinstance(failed, BrowserFailure)
        assert failed.text.startswith(
            "The evaluation cannot go on, its browser has ended. TargetClosedError:"
        )
        assert worker.told("GET_EVAL_GOAL").text == GOAL
        assert worker.rewards() == [0.0]
        assert worker.survey() == OpenTabs(id=1001, urls=[], titles=[], active=0, pid=0)
        assert isinstance(worker.ask(Observe(id=4)), BrowserFailure)


def test_tasks_of_other_packages_may_have_images_in_their_goal_and_fail(tmp_path: Path) -> None:
    package = tmp_path / "path" / "browsergym" / "visualwebarena"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(OWN_TASKS)
    options = {"tree_limit": 60}
    with evaluating(
        tmp_path / "w", "visualwebarena.own", path=tmp_path / "path", options=options, url=None
    ) as worker:
        goal = worker.told("GET_EVAL_GOAL")
        assert goal.text == "Look at both."
        assert goal.images == ["data:image/png;base64,QQ==", "http://127.0.0.1/two.png"]

        seen = worker.step("noop(0)", raw=True)
        assert seen.tree.splitlines()[-1] == "[... 8 more lines; the tree is cut after 60 characters]"
        assert "half ? character" in json.dumps(seen.axtree)
        assert "half ? character" in worker.step("noop(0)", as_text=True).text
        assert worker.rewards() == [0.25, 0.25]

        failed = worker.ask(BrowserStep(id=5, actions='send_msg_to_user("fail")'))
        assert failed == BrowserFailure(id=5, text="KeyError: 'what is not there'")
        worker.step('send_msg_to_user("again")')
        assert worker.rewards() == [0.25, 0.25, 0.25]


def test_another_kind_of_task_is_refused(tmp_path: Path) -> None:
    said = Worker(tmp_path / "w", "openended").failure()
    assert said == "Unsupported browsergym eval env: browsergym/openended"


def test_a_task_that_does_not_exist_is_named(tmp_path: Path) -> None:
    said = Worker(tmp_path / "w", "miniwob.click-nothing").failure()
    assert said.startswith("browsergym/miniwob.click-nothing cannot be started: NameNotFound: ")


def test_a_task_whose_pages_are_nowhere_says_what_it_needs(tmp_path: Path) -> None:
    said = Worker(tmp_path / "w", url=None).failure()
    assert said.startswith(f"browsergym/{TASK} cannot be started: ValueError: ")
    assert "MINIWOB_URL" in said


def test_a_chromium_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    said = Worker(tmp_path / "w", options={"executable": f"{tmp_path}/chromium"}).failure()
    assert f"There is no Chromium at {tmp_path}/chromium. Install Chromium: " in said


@pytest.mark.parametrize(
    ("task", "hidden", "install"),
    [
        (TASK, "browsergym", "pip install 'glovebox-runtime[browsergym]'"),
        (TASK, "playwright", "pip install 'glovebox-runtime[browsergym]'"),
        (TASK, "browsergym.miniwob", "pip install 'glovebox-runtime[browsergym]'"),
        ("webarena.1", "browsergym.webarena", "pip install browsergym-webarena==0.13.3"),
        (
            "visualwebarena.1",
            "browsergym.visualwebarena",
            "pip install browsergym-visualwebarena==0.13.3",
        ),
    ],
)
def test_what_is_not_installed_is_named_with_how_to_install_it(
    tmp_path: Path, task: str, hidden: str, install: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDING.format(hidden=hidden))
    said = Worker(tmp_path / "w", task, path=tmp_path).failure()
    assert said.startswith(f"browsergym/{task} needs something that is missing (No module named '{hidden}")
    assert said.endswith(f"). Install it: {install}")


def test_a_box_evaluates_an_agent(tmp_path: Path) -> None:
    environment = {"MINIWOB_URL": miniwob_url()}
    flags = ("--browsergym-eval-env", TASK)
    with running_box(tmp_path / "workspace", *flags, environment=environment) as box:

        def act(actions: str) -> dict[str, Any]:
            return box.execute("browse_interactive", browser_actions=actions)

        assert act("GET_EVAL_GOAL")["content"] == GOAL
        seen = act("noop(10)")
        assert seen["extras"]["url"] == miniwob_url() + "click-test.html"
        assert "[13] button 'Click Me!', clickable" in seen["content"]
        assert json.loads(act("GET_EVAL_REWARDS")["content"]) == [0.0]
        act('click("13")')
        assert json.loads(act("GET_EVAL_REWARDS")["content"]) == [0.0, 1.0]


def test_a_box_says_why_a_task_cannot_be_evaluated(tmp_path: Path) -> None:
    with running_box(tmp_path / "workspace", "--browsergym-eval-env", "openended") as box:
        seen = box.execute("browse_interactive", browser_actions="noop(10)")
        assert seen["extras"]["error"] is True
        assert "Unsupported browsergym eval env: browsergym/openended" in seen["content"]
