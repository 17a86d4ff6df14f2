"""Replays recorded conversations with the reference, where the recordings are at hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running import running_box

SHARED = Path(__file__).parents[3] / "shared"
TOOL = SHARED / "tools" / "golden.py"
FILES = "^(http|read|write|aci|edit|list|upload|download)"
#: Cases that are answered differently on purpose; docs/compatibility.md gives the reasons.
DEVIATIONS = {
    ("aci_view_dir", "name with a space"),
    ("download", "single file gives an empty archive"),
    ("edit_encoding", "view with line separators"),
    ("edit_str_replace", "bytes of the CRLF file"),
    ("upload_single", "where it went"),
}
TERMINAL_DEVIATIONS = {
    ("run_cwd_double_quote", "command there"),
    ("run_cwd_double_quote", "enter a directory with a double quote"),
    ("run_multiline", "comment only"),
    ("run_multiline", "comment then command"),
    ("run_quoting", "dash command"),
    ("run_quoting", "escaped pipe"),
    ("run_quoting", "find -exec with escaped semicolon"),
    ("run_quoting", "semicolon at the end"),
}

#: What the reference was recorded with, but for the browser's own recordings.
NO_BROWSER = ("--no-enable-browser",)

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="the recordings are not at hand")


def replay(tmp_path: Path, profile: str, only: str, key: str, *flags: str) -> set[tuple[str, str]]:
    """The cases that were answered differently.

    Which of two answers a millisecond apart is noticed first is up to the client's threads: hence retries.
    """
    report = tmp_path / "report.json"
    environment = {"GLOVEBOX_VIEWER_URL_FILE": "/tmp/oh-server-url"}
    with running_box(tmp_path / "ws", *flags, key=key, environment=environment) as box:
        command = [
            sys.executable, str(TOOL), "compare", "--url", box.url, "--workspace", str(tmp_path / "ws"),
            "--golden", str(SHARED / "golden"), "--profile", profile, "--only", only, "--json", str(report),
            "--api-key", key, "--quiet", "--retries", "2",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr)
    cases = json.loads(report.read_text(encoding="utf-8"))
    assert cases
    return {(case["scenario"], case["case"]) for case in cases if not case["ok"]}


@pytest.mark.timeout(600)
def test_http_and_file_recordings_are_answered_alike(tmp_path: Path) -> None:
    plugins = (*NO_BROWSER, "--plugins", "agent_skills", "jupyter")
    assert replay(tmp_path, "default", FILES, "golden-key-4711", *plugins) == DEVIATIONS


@pytest.mark.timeout(600)
def test_terminal_recordings_are_answered_alike(tmp_path: Path) -> None:
    assert replay(tmp_path, "default", "^run", "golden-key-4711", *NO_BROWSER) == TERMINAL_DEVIATIONS


@pytest.mark.timeout(300)
def test_notebook_recordings_are_answered_alike(tmp_path: Path) -> None:
    plugins = (*NO_BROWSER, "--plugins", "agent_skills", "jupyter")
    assert replay(tmp_path, "default", "^ipython", "golden-key-4711", *plugins) == set()


@pytest.mark.timeout(300)
def test_a_box_without_key_and_plugins_answers_alike(tmp_path: Path) -> None:
    assert replay(tmp_path, "bare", ".", "", *NO_BROWSER) == set()


@pytest.mark.timeout(300)
def test_browser_recordings_are_answered_alike(tmp_path: Path) -> None:
    assert replay(tmp_path, "browser", ".", "golden-key-4711") == set()
