"""Where a box lives if nobody has said it: without an engine, in bubblewrap or nowhere."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from glovebox.backends.process.backend import NOT_ISOLATED
from glovebox.backends.process.bubblewrap import SHARED
from glovebox.client.runtime import Runtime
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadSpec, EngineUnavailable, NoIsolation, NoSuchBox
from glovebox.settings import host
from glovebox.settings.host import HostSettings
from tests.backends.conftest import environment

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="there is no bubblewrap")
FALLBACK = f"No container engine answers: {SHARED}"


def settings(tmp_path: Path, engine: str = "", **variables: str) -> HostSettings:
    """Those of a user who has said nothing, on a machine whose engine is at a path."""
    environ = {**environment(tmp_path), "DOCKER_HOST": f"unix://{engine or tmp_path / 'none.sock'}"}
    return host.load({**environ, "GLOVEBOX_BACKEND": "", "GLOVEBOX_ISOLATION": "", **variables})


@needs_bubblewrap
async def test_without_an_engine_bubblewrap_isolates_the_box(tmp_path: Path) -> None:
    told: list[Any] = []
    async with Runtime(
        settings=settings(tmp_path), status_callback=lambda *status: told.append(status)
    ) as runtime:
        assert runtime.workspace == "/workspace"
        seen = await runtime.run(f"ls -d '{tmp_path}' /workspace")
        assert seen.content.splitlines()[-1] == "/workspace"
    assert [(level, text) for level, _, text in told if text] == [("warning", FALLBACK)]


@needs_bubblewrap
async def test_without_a_callback_the_line_is_logged_once_in_a_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        async with Runtime(settings=settings(tmp_path)):
            pass
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings.count(FALLBACK) <= 1  # another test of this process may have been first
    assert set(warnings) <= {FALLBACK}


@needs_bubblewrap
async def test_an_engine_that_hangs_is_waited_for_once_and_not_long(tmp_path: Path) -> None:
    asked: list[float] = []

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(time.monotonic())
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(hang, tmp_path / "hangs.sock"):
        for _ in range(2):
            async with Runtime(settings=settings(tmp_path, f"{tmp_path}/hangs.sock")) as runtime:
                assert runtime.workspace == "/workspace"
    assert len(asked) == 1


@pytest.mark.parametrize("backend", ["", "process"])
async def test_without_an_engine_and_bubblewrap_no_box_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoIsolation, match=r"apt-get install bubblewrap.*isolation=\"none\"") as refused:
        await Runtime(backend, settings=settings(tmp_path)).connect()
    assert refused.value.code == "no_isolation"
    assert ("No container engine answers" in str(refused.value)) is (not backend)


@pytest.mark.parametrize(
    ("spec", "variables"),
    [(BoxSpec(isolation="none"), {}), (BoxSpec(), {"GLOVEBOX_ISOLATION": "none"})],
)
async def test_a_box_that_is_not_isolated_is_asked_for_and_told(
    tmp_path: Path, spec: BoxSpec, variables: dict[str, str]
) -> None:
    told: list[Any] = []
    async with Runtime(
        "",
        spec,
        settings=settings(tmp_path, **variables),
        status_callback=lambda *status: told.append(status),
    ) as runtime:
        assert (await runtime.run("echo $GLOVEBOX_ISOLATION")).content == ""
        assert runtime.workspace.startswith(str(tmp_path))
    assert [(level, text) for level, _, text in told if text] == [("warning", NOT_ISOLATED)]


@pytest.mark.parametrize(
    ("spec", "variables"),
    [
        (BoxSpec(image="debian"), {}),
        (BoxSpec(image="debian"), {"GLOVEBOX_ISOLATION": "none"}),
        (BoxSpec(memory=1 << 30), {}),
        (BoxSpec(), {"GLOVEBOX_IMAGE": "debian"}),
    ],
)
async def test_what_only_containers_have_is_an_error_without_an_engine(
    tmp_path: Path, spec: BoxSpec, variables: dict[str, str]
) -> None:
    with pytest.raises(EngineUnavailable):
        await Runtime("", spec, settings=settings(tmp_path, **variables)).connect()


async def test_an_isolation_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="GLOVEBOX_ISOLATION is 'paper'"):
        await Runtime(settings=settings(tmp_path, GLOVEBOX_ISOLATION="paper")).connect()


async def test_a_box_is_attached_to_wherever_it_is(tmp_path: Path) -> None:
    own = settings(tmp_path)
    spec = BoxSpec(name="kept", isolation="none", keep=True)
    async with Runtime("process", spec, settings=own) as first:
        async with Runtime("", BoxSpec(name="kept"), attach=True, settings=own) as second:
            assert second.url == first.url
        with pytest.raises(NoSuchBox, match="'another'"):
            await Runtime("", BoxSpec(name="another"), attach=True, settings=own).connect()
        await first._box().delete()
