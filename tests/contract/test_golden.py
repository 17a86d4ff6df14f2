"""Replays recorded conversations with the reference, where the recordings are at hand."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.running import RunningBox, running_box, wait_until

SHARED = Path(__file__).parents[3] / "shared"
TOOL = SHARED / "tools" / "golden.py"
KEY = "golden-key-4711"
#: Where the recordings of the viewer look for its address, which is the first live server's.
VIEWER_FILE = "/tmp/oh-server-url"
VIEWER = {"GLOVEBOX_VIEWER_URL_FILE": VIEWER_FILE}
#: What the reference was recorded with, but for the browser's own recordings.
NO_BROWSER = ("--no-enable-browser",)
PLUGINS = (*NO_BROWSER, "--plugins", "agent_skills", "jupyter")
#: Cases that are answered differently on purpose; docs/compatibility.md gives the reasons.
DEVIATIONS = {
    ("aci_view_dir", "name with a space"),
    ("download", "single file gives an empty archive"),
    ("edit_encoding", "view with line separators"),
    ("edit_str_replace", "bytes of the CRLF file"),
    ("mcp_proxy", "list tools after that"),
    ("mcp_proxy", "list tools of two servers"),
    ("mcp_proxy", "unknown path is now answered by the proxy"),
    ("run_cwd_double_quote", "command there"),
    ("run_cwd_double_quote", "enter a directory with a double quote"),
    ("run_multiline", "comment only"),
    ("run_multiline", "comment then command"),
    ("run_quoting", "dash command"),
    ("run_quoting", "escaped pipe"),
    ("run_quoting", "find -exec with escaped semicolon"),
    ("run_quoting", "semicolon at the end"),
    ("upload_single", "where it went"),
}
#: Which of two answers a millisecond apart is noticed first is up to the client's threads.
TRIES = 3

pytestmark = [
    pytest.mark.skipif(not TOOL.exists(), reason="the recordings are not at hand"),
    pytest.mark.timeout(900),
]


class Part(NamedTuple):
    """Recordings that are replayed one after the other, with a box of their own."""

    only: str
    flags: tuple[str, ...] = NO_BROWSER
    profile: str = "default"
    key: str = KEY
    environment: dict[str, str] = {}


#: Most of the time goes into waiting for what the recordings wait for, so all are replayed at once.
PARTS = {
    "terminal: no output": Part("^run_soft_timeout"),
    "terminal: time limits": Part("^run_(blocking|hard_timeout)"),
    "terminal": Part("^run_(?!soft_timeout|blocking|hard_timeout)"),
    "files": Part("^(http|read|write|aci|edit|list|upload|download)", PLUGINS, environment=VIEWER),
    "notebook": Part("^ipython", PLUGINS),
    "browser": Part(".", (), "browser"),
    "MCP servers": Part(".", NO_BROWSER, "mcp"),
    "without key and plugins": Part(".", NO_BROWSER, "bare", key=""),
}


class Replay:
    """What came of a part: its cases, and those that were answered differently."""

    def __init__(self, part: Part, directory: Path) -> None:
        self.cases: set[tuple[str, str]] = set()
        self.differences: set[tuple[str, str]] = set()
        self.told = ""
        self._part = part
        self._report = directory / "report.json"
        workspace = directory / "ws"
        if part.environment == VIEWER:
            wait_until(_is_free, 600, f"the end of the box that has {VIEWER_FILE}")
        with running_box(workspace, *part.flags, key=part.key, environment=part.environment) as box:
            only = part.only
            for _ in range(TRIES):
                self._play(box, only)
                surprising = {scenario for scenario, _ in self.differences - DEVIATIONS}
                if not surprising:
                    break
                only = f"^({'|'.join(sorted(surprising))})$"

    def _play(self, box: RunningBox, only: str) -> None:
        """Play scenarios; those that were played before are judged by this time."""
        command = [
            sys.executable, str(TOOL), "compare", "--url", box.url, "--workspace", str(box.workspace),
            "--golden", str(SHARED / "golden"), "--profile", self._part.profile, "--only", only,
            "--json", str(self._report), "--api-key", self._part.key, "--quiet",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.told += done.stdout + done.stderr
        cases = json.loads(self._report.read_text(encoding="utf-8"))
        for case in cases:
            name = case["scenario"], case["case"]
            self.cases.add(name)
            (self.differences.discard if case["ok"] else self.differences.add)(name)


def _is_free() -> bool:
    """Whether no server has the file with the viewer's address."""
    try:
        with open(f"{VIEWER_FILE}.lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except (BlockingIOError, PermissionError):
        return False
    return True


@pytest.fixture(scope="module")
def replays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Replay]]]:
    """All recordings, replayed at the same time."""
    with ThreadPoolExecutor(len(PARTS)) as threads:
        yield {
            name: threads.submit(Replay, part, tmp_path_factory.mktemp("replay"))
            for name, part in PARTS.items()
        }


@pytest.mark.parametrize("name", PARTS)
def test_recordings_are_answered_alike(replays: dict[str, Future[Replay]], name: str) -> None:
    replay = replays[name].result()
    print(replay.told)
    assert replay.cases
    assert replay.differences == DEVIATIONS & replay.cases


def test_every_deviation_is_in_a_recording(replays: dict[str, Future[Replay]]) -> None:
    assert set().union(*(replay.result().cases for replay in replays.values())) >= DEVIATIONS
