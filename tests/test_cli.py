from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.running import running_box


def glovebox(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "glovebox", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], **environment},
    )


def test_help_explains_every_flag_with_its_variable() -> None:
    text = glovebox("serve", "--help").stdout
    for word in ("--working-dir", "GLOVEBOX_WORKING_DIR", "--plugins", "SESSION_API_KEY", "examples:"):
        assert word in text


def test_version_is_told() -> None:
    assert glovebox("--version").stdout.startswith("glovebox ")


def test_an_open_address_without_a_key_is_refused_with_what_to_do() -> None:
    refused = glovebox("serve", "0", "--host", "0.0.0.0")
    assert refused.returncode == 2
    assert "Set SESSION_API_KEY" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_unknown_plugin_is_refused_before_listening(tmp_path: Path) -> None:
    refused = glovebox("serve", "0", "--working-dir", str(tmp_path), "--plugins", "nope")
    assert refused.returncode == 3
    assert "Plugin nope not found" in refused.stderr


def test_a_taken_port_is_a_sentence_and_status_3(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = glovebox("serve", str(taken.getsockname()[1]), "--working-dir", str(tmp_path))
    assert refused.returncode == 3
    assert "Choose another port" in refused.stderr


def test_a_workspace_that_cannot_be_made_is_a_sentence_and_status_3(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = glovebox("serve", "0", "--working-dir", str(tmp_path / "file" / "below"))
    assert refused.returncode == 3
    assert "cannot be made" in refused.stderr


def test_log_lines_can_be_json(tmp_path: Path) -> None:
    refused = glovebox(
        "serve", "0", "--working-dir", str(tmp_path), "--plugins", "jupyter", "nope", LOG_JSON="1"
    )
    lines = [line for line in refused.stderr.splitlines() if line.startswith("{")]
    assert lines
    assert all({"time", "level", "logger", "message"} <= set(json.loads(line)) for line in lines)


def test_the_plugins_a_caller_of_the_reference_names_are_accepted(tmp_path: Path) -> None:
    with running_box(tmp_path / "ws", "--plugins", "agent_skills", "jupyter", "--no-enable-browser") as box:
        assert box.run("echo hi") == "hi"


def test_serving_loads_no_heavy_library(tmp_path: Path) -> None:
    script = (
        "import sys; import glovebox.server.run\n"
        "heavy = {'httpx', 'pydantic', 'docker', 'playwright', 'jupyter_client', 'mcp', 'bashlex', 'chardet',"
        " 'charset_normalizer', 'psutil', 'zipfile'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
