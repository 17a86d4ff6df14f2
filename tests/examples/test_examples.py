"""The programs of `examples/` do what they say."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
#: Pages whose first snippet is a whole program.
PAGES = ("README.md", "docs/python.md", "docs/runtime.md")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A machine where boxes are processes, whose `python3` has pytest."""
    return {
        **os.environ,
        "GLOVEBOX_BACKEND": "process",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def example(name: str, environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [line for line in done.stderr.splitlines() if "NOT isolated" not in line], done.stderr
    return done.stdout


def test_the_agent_streams_answers_a_question_and_leaves_a_pager(environment: dict[str, str]) -> None:
    said = example("agent_loop.py", environment)
    assert re.findall(r"^did step \d$", said, re.MULTILINE) == [f"did step {n}" for n in (1, 2, 3)]
    last = [part.rstrip().splitlines()[-1] for part in said.split("\n>>> ")[1:]]
    done = "[exit code 0]"
    pager, question = last[2], last[4]
    assert last == [done, done, pager, done, question, done, "[exit code 1]"]
    assert pager.endswith("shows its output in a pager (less)]")
    assert question.endswith("waits for input: Delete the log? [y/n]]")


def test_a_project_is_tested_and_its_report_fetched(environment: dict[str, str], tmp_path: Path) -> None:
    assert "1 passed" in example("run_tests.py", environment)


def test_ten_boxes_work_at_once(environment: dict[str, str]) -> None:
    said = example("ten_boxes.py", environment)
    assert said.splitlines()[-1] == "1229 primes below 10000"


def test_a_server_in_the_box_is_reached(environment: dict[str, str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said = example("dev_server.py", environment, str(port))
    assert f"open http://127.0.0.1:{port}\n<h1>Hello from the box</h1>" in said
    assert '"GET / HTTP/1.1" 200' in said


def test_a_notebook_computes_and_plots(environment: dict[str, str], tmp_path: Path) -> None:
    said = example("data_analysis.py", environment, str(tmp_path))
    assert "has grown 8.2 times" in said
    assert "says so: error, IndexError" in said
    assert (tmp_path / "visitors.png").read_bytes().startswith(b"\x89PNG")


def test_every_example_is_listed_and_tested() -> None:
    listed = set(re.findall(r"\((\w+\.py)\)", (EXAMPLES / "README.md").read_text()))
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    tested = set(re.findall(r'example\("(\w+\.py)"', Path(__file__).read_text()))
    assert listed == programs == tested


def test_the_first_snippet_of_each_page_is_typed(tmp_path: Path) -> None:
    for page in PAGES:
        snippet = (ROOT / page).read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
        (tmp_path / page.replace("/", "_").replace(".md", ".py")).write_text(snippet)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *map(str, tmp_path.glob("*.py"))],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
