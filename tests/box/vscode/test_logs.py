"""The logs of a VS Code server as it is installed: written without anything that had to be compiled."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.support.running import wait_until
from tests.support.waiting import LIMIT

LOGS = "node_modules/@vscode/spdlog"
#: Writes more than fits into one file, and not all of it as lines.
WRITER = """
import { createRequire } from "node:module";
const logs = await import(createRequire(process.argv[1] + "/package.json").resolve("./index.js"));
const file = process.argv[2] + "/some/where/a.log";
logs.setFlushOn(0);
const one = await logs.createAsyncRotatingLogger("one", file, 40, 2);
one.setPattern("%Y [%l] %v");
one.setLevel(1);
for (const level of ["trace", "debug", "info", "warn", "error", "critical"]) {
  one[level](`${level} ü $& %v`);
}
one.flush();
one.drop();
one.error("after its end");
const raw = await logs.createRotatingLogger("raw", file.replace("a.log", "raw.log"), 1e6, 1);
raw.clearFormatters();
raw.info("no ");
raw.info("lines");
console.log(raw.getLevel(), one.getLevel());
"""


def test_a_server_that_starts_writes_its_log_and_complains_of_nothing(
    vscode_server: Path, tmp_path: Path
) -> None:
    command: list[str | Path] = [
        vscode_server / "node", vscode_server / "out/server-main.js", "--accept-server-license-terms",
        "--host", "127.0.0.1", "--port", "0", "--without-connection-token",
        "--server-data-dir", tmp_path / "data",
    ]  # fmt: skip
    said = tmp_path / "said"
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with said.open("wb") as output:
        server = subprocess.Popen(
            command, stdout=output, stderr=output, env=variables, start_new_session=True
        )
    try:
        wait_until(lambda: "Extension host agent started" in _log(tmp_path), 60, "a log of the server")
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(LIMIT)
    assert "[info]" in _log(tmp_path)
    assert "    at " not in said.read_text()


def _log(place: Path) -> str:
    return "".join(file.read_text() for file in place.glob("data/data/logs/*/remoteagent.log"))


def test_a_log_has_its_levels_and_files_that_are_full_move_aside(vscode_server: Path, tmp_path: Path) -> None:
    written = subprocess.run(
        [vscode_server / "node", "--input-type=module", "--eval", WRITER, vscode_server / LOGS, tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (written.stdout, written.stderr) == ("2 1\n", "")
    found = {file.name: file.read_text() for file in (tmp_path / "some/where").iterdir()}
    assert found.pop("raw.log") == "no lines"
    assert {name: [line[5:] for line in text.splitlines()] for name, text in found.items()} == {
        "a.log": ["[critical] critical ü $& %v"],
        "a.1.log": ["[error] error ü $& %v"],
        "a.2.log": ["[warning] warn ü $& %v"],
    }
