"""Which Chromium is used, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from glovebox.box.browser.chromium import find_chromium
from glovebox.errors import BrowserError
from tests.box.browser.pages import Browser
from tests.support.running import before_all_others, running_box


def program(directory: Path, name: str, text: str = "#!/bin/sh\nexec true\n") -> Path:
    directory.mkdir(exist_ok=True)
    made = directory / name
    made.write_text(text)
    made.chmod(0o755)
    return made


def test_the_chosen_one_comes_first(tmp_path: Path) -> None:
    chosen = program(tmp_path / "elsewhere", "my-chrome")
    program(tmp_path / "bin", "chromium")
    assert find_chromium(str(chosen), str(tmp_path / "bin")) == str(chosen)
    assert find_chromium("chromium", str(tmp_path / "bin")) == str(tmp_path / "bin" / "chromium")


def test_the_systems_own_comes_next(tmp_path: Path) -> None:
    program(tmp_path / "bin", "google-chrome")
    assert find_chromium("", str(tmp_path / "bin")) == str(tmp_path / "bin" / "google-chrome")
    program(tmp_path / "bin", "chromium")
    assert find_chromium("", str(tmp_path / "bin")) == str(tmp_path / "bin" / "chromium")


def test_a_snap_is_not_used(tmp_path: Path) -> None:
    program(tmp_path / "bin", "chromium-browser", '#!/bin/sh\nexec /snap/bin/chromium "$@"\n')
    assert find_chromium("", str(tmp_path / "bin")) == ""


def test_a_chosen_one_that_is_not_there_is_said() -> None:
    with pytest.raises(BrowserError, match=r"no program there\. Install Chromium: `apt-get install"):
        find_chromium("/no/such/chromium", "/usr/bin")


def test_actions_say_what_to_do_without_a_chromium(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", environment={"GLOVEBOX_CHROMIUM": "/no/such/chromium"}) as box:
        seen = Browser(box).act('goto("about:blank")')
        assert "GLOVEBOX_CHROMIUM is '/no/such/chromium'" in seen.error
        assert "apt-get install chromium" in seen.content
        assert seen.extras["screenshot"] == ""
        assert box.run("echo fine") == "fine"


def test_actions_say_what_to_do_without_playwrights_chromium(tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("bash", "sh", "env"):
        (bare / name).symlink_to(f"/bin/{name}" if name != "env" else "/usr/bin/env")
    environment = {"PATH": str(bare), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path / "none")}
    with running_box(tmp_path / "ws", environment=environment) as box:
        seen = Browser(box).act('goto("about:blank")')
        assert "There is no Chromium at " in seen.error
        assert "playwright install --with-deps chromium" in seen.error


def test_actions_say_what_to_install_without_playwright(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    (hidden / "playwright").mkdir(parents=True)
    (hidden / "playwright" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'playwright'\", name='playwright')"
    )
    with running_box(tmp_path / "ws", environment=before_all_others(hidden)) as box:
        seen = Browser(box).act('goto("about:blank")')
        assert "pip install 'glovebox-runtime[browser]'" in seen.error


def test_a_program_that_is_no_chromium_is_said(tmp_path: Path) -> None:
    fake = program(tmp_path / "elsewhere", "my-chrome", "#!/bin/sh\necho not a browser >&2\nexit 3\n")
    with running_box(tmp_path / "ws", "--chromium", str(fake)) as box:
        seen = Browser(box).act('goto("about:blank")')
        assert f"Chromium at {fake} does not start" in seen.error
        assert "not a browser" in seen.error
