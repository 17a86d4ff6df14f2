"""VS Code in Chromium, which may talk to this machine alone."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import psutil
import pytest
from playwright.async_api import Page, Route, async_playwright, expect

from tests.box.vscode.vscode_client import Editor, command_lines, environment, family, living
from tests.support.chromium import CHROMIUM, FLAGS
from tests.support.running import RunningBox, running_box, wait_until
from tests.support.waiting import LIMIT

#: A machine may be busy, and an editor has a lot to load.
LOAD_LIMIT = 60_000
SLEEP = "sleep 4711.25"


def sleeping(box: RunningBox) -> bool:
    for process in family(box):
        with contextlib.suppress(psutil.Error):
            if " ".join(process.cmdline()) == SLEEP:
                return True
    return False


async def _local_only(route: Route) -> None:
    if "//127.0.0.1:" in route.request.url:
        await route.continue_()
    else:
        await route.abort()


async def _sleep_in_a_terminal(page: Page) -> None:
    await page.keyboard.press("Control+Backquote")
    await expect(page.locator(".terminal-wrapper .xterm-screen")).to_be_visible(timeout=LOAD_LIMIT)
    await page.locator(".terminal-wrapper").click()
    await page.keyboard.type(SLEEP)
    await page.keyboard.press("Enter")


@pytest.mark.asyncio
@pytest.mark.timeout(300)
async def test_the_workspace_is_shown_and_nothing_is_left_when_the_box_stops(
    vscode_server: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "greeting.txt").write_text("hello")
    with running_box(workspace, "--plugins", "vscode", environment=environment(vscode_server)) as box:
        editor = Editor(box)
        token = editor.token
        assert token
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = await browser.new_page()
            await page.route("**/*", _local_only)
            await page.goto(editor.page, timeout=LOAD_LIMIT)
            explorer = page.locator(".explorer-folders-view")
            await expect(explorer.get_by_text("greeting.txt")).to_be_visible(timeout=LOAD_LIMIT)
            await _sleep_in_a_terminal(page)
            wait_until(lambda: sleeping(box), what="the command in the terminal")
            assert token not in command_lines()
            assert "workbench.colorTheme" in (workspace / ".vscode" / "settings.json").read_text()
            processes = family(box)
            assert any("--type=extensionHost" in " ".join(one.cmdline()) for one in processes)
            box.process.send_signal(signal.SIGTERM)
            box.process.wait(LIMIT)
            wait_until(lambda: not living(processes), what="the end of all processes")
            await browser.close()
