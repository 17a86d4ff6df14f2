"""`Box` and `AsyncBox`: their life, their shape, notebook and browser."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glovebox import AsyncBox, Box, BoxSpec, Runtime, SyncRuntime
from glovebox.client import box as async_parts
from glovebox.client import sync_parts
from glovebox.client.capabilities import browser, commands, files, notebook, processes
from glovebox.errors import (
    BoxUnreachable,
    BrowserError,
    CellFailed,
    NoSuchBox,
    NotConnected,
    NotebookError,
    NotSupported,
    PageFailed,
)
from tests.client.support import OneBox
from tests.support.running import KEY, RunningBox, running_box

#: Each class and its twin for callers that block.
TWINS = [
    (AsyncBox, Box),
    (async_parts.AsyncBoxSessions, sync_parts.BoxSessions),
    (commands.AsyncCommandHandle, sync_parts.CommandHandle),
    (processes.AsyncProcessHandle, sync_parts.ProcessHandle),
    (files.AsyncBoxFiles, sync_parts.BoxFiles),
    (notebook.AsyncBoxNotebook, sync_parts.BoxNotebook),
    (browser.AsyncBoxBrowser, sync_parts.BoxBrowser),
]
#: What callers that block have in another form, or have no use for.
ONLY_ASYNC = {"before_open", "live_output"}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for boxes of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("GLOVEBOX_BACKEND", raising=False)
    return tmp_path / "state"


@pytest.fixture(scope="module")
def notebook_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    workspace = tmp_path_factory.mktemp("notebook") / "workspace"
    with running_box(workspace, "--plugins", "jupyter") as served, Box(backend=OneBox(served.url)) as box:
        yield box


def public(kind: type) -> dict[str, object]:
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("kind", "twin"), TWINS)
def test_every_method_has_a_twin_with_the_same_parameters_and_a_docstring(kind: type, twin: type) -> None:
    for name, member in public(kind).items():
        if name in ONLY_ASYNC:
            continue
        other = getattr(twin, name, None)
        assert other is not None, name
        assert (member.__doc__ or "").strip(), name
        assert (other.__doc__ or "").strip(), name
        if callable(member):
            assert not inspect.iscoroutinefunction(other), name
            mine, theirs = inspect.signature(member).parameters, inspect.signature(other).parameters
            assert list(mine) == list(theirs), name
            assert [p.default for p in mine.values()] == [p.default for p in theirs.values()], name
    assert inspect.signature(kind).parameters.keys() <= {
        *inspect.signature(twin).parameters,
        "link",
        "info",
        "own_session",
        "command",
    }


def test_a_box_is_started_used_found_and_deleted(state: Path) -> None:
    assert Box.list() == []
    with Box(backend="process", name="mine", spec=BoxSpec(labels={"a": "b"}), env={"GREETING": "hi"}) as box:
        assert repr(box).startswith("<Box mine at http://127.0.0.1:")
        assert [info.name for info in Box.list()] == ["mine"]
        with Box.attach("mine") as same:
            assert same.workspace == box.workspace
        assert Box.list("process")[0].state == "running"  # whoever attaches leaves it alone
        assert box.exec('echo "$GREETING"').stdout == "hi\n"
        assert box.url(3000) == "http://127.0.0.1:3000"
        plugins = json.loads(box.runtime.call("GET", "/plugins"))
        assert {"jupyter": "waiting"}.items() <= {one["name"]: one["state"] for one in plugins}.items()
    assert Box.list() == []
    with pytest.raises(NotConnected):
        box.exec("true")


def test_a_missing_box_is_not_attached_to(state: Path) -> None:
    with pytest.raises(NoSuchBox, match="'nobody'"):
        Box.attach("nobody")
    with pytest.raises(NoSuchBox):
        Box.attach("nobody", backend="process")
    with pytest.raises(BoxUnreachable):
        Box.attach("http://127.0.0.1:1")


def test_a_box_at_an_address_is_attached_to_and_its_ports_are_not_known(box: RunningBox) -> None:
    with Box.attach(box.url, key=KEY) as known:
        assert known.exec(["echo", "hello"]).stdout == "hello\n"
        with pytest.raises(NotSupported, match=r"ports=\[3000\]"):
            known.url(3000)


_LEFT_OPEN = """
from glovebox import Box
box = Box(backend="process", notebook=False)
print(box)
print(box.exec("echo used").stdout, end="")
"""


def test_a_box_starts_with_its_first_use_and_ends_with_the_program(state: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LEFT_OPEN], capture_output=True, text=True, env={**os.environ}, check=True
    )
    assert done.stdout == "<Box not started>\nused\n"
    assert Box.list() == []


def test_the_box_is_openhands_shaped_as_well(box: RunningBox) -> None:
    with Box(backend=OneBox(box.url)) as used:
        assert isinstance(used.runtime, SyncRuntime)
        assert used.runtime.run("echo hello").content == "hello"


async def test_an_async_box_is_used_at_once_by_many(box: RunningBox) -> None:
    import asyncio

    async with AsyncBox(backend=OneBox(box.url)) as used:
        assert isinstance(used.runtime, Runtime)
        answers = await asyncio.gather(*(used.exec(["echo", str(n)]) for n in range(10)))
        assert [answer.stdout for answer in answers] == [f"{n}\n" for n in range(10)]


async def test_an_async_box_opens_with_its_first_use(box: RunningBox) -> None:
    used = AsyncBox(backend=OneBox(box.url))
    assert repr(used) == "<AsyncBox not started>"
    assert (await used.exec("echo a")).stdout == "a\n"
    await used.close()


def test_cells_tell_values_and_failures(notebook_box: Box) -> None:
    run = notebook_box.notebook.run
    done = run("x = 6\nx * 7")
    assert (done.value, done.ok, done.error, done.status) == (42, True, None, "ok")
    assert repr(done) == "<CellOutcome ok 42>"
    printed: list[str] = []
    assert run("print('one'); print('two', x)", on_output=printed.append).output == "one\ntwo 6\n".rstrip(
        "\n"
    )
    assert "".join(printed) == "one\ntwo 6\n"
    failed = run("1/0")
    assert (failed.ok, failed.status, failed.error, failed.value) == (
        False,
        "error",
        "ZeroDivisionError",
        None,
    )
    with pytest.raises(CellFailed, match="division by zero"):
        failed.check()
    late = run("import time; time.sleep(600)", timeout=1)
    assert late.status == "interrupted"
    assert run("x").value == 6
    assert run("['a', {1: None}]").value == ["a", {1: None}]
    assert run("object").value == "object"
    assert str(run("list(range(5000))").value).endswith("...]")
    assert [kernel.name for kernel in notebook_box.notebook.kernels()] == ["main"]
    notebook_box.notebook.restart()
    assert run("x").error == "NameError"


def test_images_of_a_cell_become_files(notebook_box: Box, tmp_path: Path) -> None:
    shown = notebook_box.notebook.run("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
    assert len(shown.check().images) == 1
    assert shown.save_image(tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_box_without_notebook_says_how_to_get_one(box: RunningBox) -> None:
    with Box(backend=OneBox(box.url)) as used, pytest.raises(NotebookError, match="notebook=True"):
        used.notebook.run("1")


def test_a_box_without_browser_says_how_to_get_one(tmp_path: Path) -> None:
    with (
        running_box(tmp_path / "workspace", "--no-enable-browser") as served,
        Box(backend=OneBox(served.url)) as box,
        pytest.raises(BrowserError, match="browser=True"),
    ):
        box.browser.goto("http://127.0.0.1:1/")


@pytest.mark.browser
def test_pages_are_opened_read_and_acted_on(box: RunningBox, tmp_path: Path) -> None:
    page = (
        "<title>Order</title><h1>Hello</h1><form><input name=who aria-label=Name><button>Send</button></form>"
    )
    with Box(backend=OneBox(box.url)) as used:
        seen = used.browser.goto(f"data:text/html,{page}")
        assert (seen.title, seen.text.partition("\n")[0][:19]) == ("Order", "RootWebArea 'Order'")
        assert repr(seen).startswith("<WebPage 'Order' data:text/html,")
        field = next(line for line in seen.text.splitlines() if "textbox 'Name'" in line)
        filled = used.browser.fill(field.partition("[")[2].partition("]")[0], "Ada")
        assert "value='Ada'" in filled.text
        assert "Hello" in used.browser.read(f"data:text/html,{page}").text
        assert filled.screenshot(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
        assert used.browser.screenshot(tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
        with pytest.raises(PageFailed):
            used.browser.click("no-such-id")
        assert len(used.browser.tabs()) == 1
