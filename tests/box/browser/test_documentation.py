"""The pictures and the tree in the documentation are what a box shows.

With GLOVEBOX_UPDATE_IMAGES=1 the pictures are made anew.
"""

from __future__ import annotations

import base64
import io
import os
import re
from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageStat

from tests.box.browser.pages import Browser, Seen
from tests.support.running import RunningBox, running_box

DOCS = Path(__file__).parents[3] / "docs"
ORDER = Path(__file__).with_name("order.html")
#: Fonts are drawn differently from machine to machine, so pictures are alike, not equal: of 255.
ALIKE = 6.0


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The page of the documentation, as an agent has filled it in."""
    workspace = tmp_path_factory.mktemp("documentation") / "workspace"
    with running_box(workspace, "--plugin-options", "browser.width=960", "browser.height=560") as box:
        return filled_in(box)


def filled_in(box: RunningBox) -> Seen:
    (box.workspace / ORDER.name).write_bytes(ORDER.read_bytes())
    browser = Browser(box)
    browser.go((box.workspace / ORDER.name).as_uri())
    browser.act("select_option(<combobox 'Size'>, 'Large')")
    seen = browser.act("fill(<textbox 'Name'>, 'Ada')")
    assert not seen.error
    return seen


@pytest.mark.parametrize(("field", "name"), [("screenshot", "browser"), ("set_of_marks", "browser_marks")])
def test_the_documentation_shows_what_an_agent_sees(order: Seen, field: str, name: str) -> None:
    picture = base64.b64decode(order.extras[field].partition(",")[2])
    kept = DOCS / "images" / f"{name}.png"
    with Image.open(io.BytesIO(picture)) as opened:
        shown = opened.convert("RGB")
    if os.environ.get("GLOVEBOX_UPDATE_IMAGES"):
        shown.save(kept, optimize=True)
    with Image.open(kept) as opened:
        documented = opened.convert("RGB")
    assert documented.size == shown.size
    difference = ImageStat.Stat(ImageChops.difference(documented, shown)).mean
    assert max(difference) < ALIKE, f"{kept.name} is out of date: run this with GLOVEBOX_UPDATE_IMAGES=1"


def test_the_documented_lines_are_in_the_tree(order: Seen) -> None:
    page = (DOCS / "browser.md").read_text("utf-8")
    lines = re.findall(r"^\[\d+\] .*$", page, re.MULTILINE)
    shown = {line.strip() for line in order.tree.split("\n")}
    assert len(lines) >= 3
    assert set(lines) <= shown
