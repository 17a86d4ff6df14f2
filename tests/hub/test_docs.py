"""The page about the hub names everything there is, and nothing that is not."""

from __future__ import annotations

import re
import time
from pathlib import Path

from glovebox.box.threads import Threads
from glovebox.hub.app import STATUSES, hub_endpoints
from glovebox.hub.registry import Registry
from glovebox.hub.state import StateDir
from glovebox.hub.windows import Windows
from glovebox.settings import Settings, hub

PAGE = (Path(__file__).parents[2] / "docs" / "hub.md").read_text(encoding="utf-8")


def test_every_setting_has_its_row_and_every_row_its_setting() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| `[^`]+` \| `[A-Z_]+` \|", line)]
    expected = []
    for option in hub.options():
        default = f"`{option.default}`" if str(option.default) else "none"
        expected.append(f"| `{option.flag}` | `{option.variable}` | {default} | {option.help} |")
    assert rows == expected


async def test_every_endpoint_has_its_row_and_every_row_its_endpoint(tmp_path: Path) -> None:
    state = StateDir(str(tmp_path))
    registry = Registry(key="k", heartbeat=1, grace=1, reload=1, clock=time.monotonic, wall=time.time)
    windows = Windows(registry, state, Threads("test", 1), lambda window: Settings())
    served = [f"{one.method} {one.path}" for one in hub_endpoints(windows)]
    state.close()
    documented = re.findall(r"^\| `((?:GET|POST|DELETE) /\S*)` \|", PAGE, re.MULTILINE)
    assert documented == served


def test_every_state_of_a_window_is_explained() -> None:
    life = PAGE.partition("## The life of a window")[2]
    assert re.findall(r"^\| `(\w+)` \|", life, re.MULTILINE) == list(STATUSES)
