"""The life of `glovebox mcp`: its streams, its end, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.box.mcp_own.connecting import Raw, environment, raw
from tests.support.running import wait_until
from tests.support.waiting import LIMIT


def family(server: Raw) -> list[psutil.Process]:
    """The server's process and all that descend from it."""
    process = psutil.Process(server.process.pid)
    return [process, *process.children(recursive=True)]


def gone(processes: list[psutil.Process]) -> bool:
    return not [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def run(server: Raw, command: str) -> str:
    answer = server.ask("tools/call", name="run", arguments={"command": command})
    text: str = answer["result"]["content"][0]["text"]
    return text


@pytest.mark.parametrize("how", ["end of input", signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_when_it_ends(tmp_path: Path, how: str | signal.Signals) -> None:
    by_input = not isinstance(how, signal.Signals)
    with raw(tmp_path / "ws", *(("--plugins", "jupyter") if by_input else ())) as server:
        server.greet()
        run(server, "sleep 1000 & (trap '' HUP TERM; sleep 1001) & echo begun")
        if by_input:
            cell = server.ask("tools/call", name="run_ipython", arguments={"code": "print(6 * 7)"})
            assert "42" in cell["result"]["content"][0]["text"]
        server.send(
            b'{"jsonrpc":"2.0","id":99,"method":"tools/call",'
            b'"params":{"name":"run","arguments":{"command":"touch seen; sleep 1002","session":"other"}}}'
        )
        wait_until((tmp_path / "ws" / "seen").exists, what="the command")
        started = family(server)
        assert len(started) >= 6
        if isinstance(how, signal.Signals):
            server.process.send_signal(how)
        else:
            assert server.process.stdin is not None
            server.process.stdin.close()
            server.process.stdin = None
        assert server.process.wait(LIMIT) == 0
        wait_until(lambda: gone(started), what="all processes to end")


def test_only_messages_go_through_the_standard_streams(tmp_path: Path) -> None:
    with raw(tmp_path / "ws") as server:
        pipes = {os.readlink(f"/proc/{server.process.pid}/fd/{number}") for number in (0, 1)}
        server.greet()
        assert "hello" in run(server, "echo hello; sleep 1000 & echo $! > pid")
        server_process, *others = family(server)
        assert os.readlink(f"/proc/{server_process.pid}/fd/0") == "/dev/null"
        assert os.readlink(f"/proc/{server_process.pid}/fd/1") == os.readlink(
            f"/proc/{server_process.pid}/fd/2"
        )
        assert others
        for other in others:
            held = {
                os.readlink(f"/proc/{other.pid}/fd/{number}")
                for number in os.listdir(f"/proc/{other.pid}/fd")
            }
            assert not held & pipes, other.cmdline()


def test_what_is_no_message_is_refused_and_the_rest_is_served(tmp_path: Path) -> None:
    with raw(tmp_path / "ws") as server:
        server.send(b"hello?")
        assert server.receive()["error"]["code"] == -32700
        greeting = server.greet()["result"]
        assert greeting["protocolVersion"] == "2025-06-18"
        server.send(b'{"jsonrpc": "2.0", "id": "\xff"}')
        assert server.receive()["error"]["code"] == -32700
        server.send(b"\r\n")
        assert server.ask("ping")["result"] == {}
        assert server.ask("no/such/method")["error"]["code"] == -32601
        content = "x" * 3_000_000
        written = server.ask("tools/call", name="write", arguments={"path": "large", "content": content})
        assert not written["result"].get("isError")
        assert (tmp_path / "ws" / "large").read_text().rstrip("\n") == content


def test_the_workspace_is_where_it_is_started_unless_told(tmp_path: Path) -> None:
    (tmp_path / "here.txt").write_text("")
    listing = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        b'"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "glovebox", "mcp"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(tmp_path / "home"),
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(listing)
        process.stdin.flush()
        assert f"working directory is {tmp_path}" in process.stdout.readline().decode()


def test_a_client_that_reads_nothing_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    with raw(tmp_path / "ws") as server:
        server.greet()
        started = family(server)
        server.send(
            b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":{"progressToken":"p"},'
            b'"name":"run","arguments":{"command":"touch seen; seq 1000000"}}}'
        )
        wait_until((tmp_path / "ws" / "seen").exists, what="the command")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(LIMIT) == 0
        wait_until(lambda: gone(started), what="all processes to end")


def glovebox(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "glovebox", "mcp", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        env={"PATH": os.environ["PATH"], **variables},
    )


def test_help_shows_what_to_paste() -> None:
    text = glovebox("--help").stdout
    assert '{"mcpServers": {"sandbox": {"command": "glovebox", "args": ["mcp", "--working-dir"' in text
    assert "--plugins" in text
    assert "--host" not in text


def test_what_cannot_be_is_a_sentence_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for flags, status, sentence in (
        (["--working-dir", str(tmp_path), "--plugins", "nope"], 3, "Plugin nope not found"),
        (["--working-dir", str(tmp_path / "file" / "below")], 3, "cannot be made"),
        (["--terminal", "typewriter"], 2, "neither pty nor tmux"),
    ):
        refused = glovebox(*flags)
        assert refused.returncode == status, refused
        assert sentence in refused.stderr
        assert "Traceback" not in refused.stderr
        assert refused.stdout == ""


def test_settings_of_a_box_behind_http_do_not_matter(tmp_path: Path) -> None:
    ended = glovebox("--working-dir", str(tmp_path), GLOVEBOX_HOST="0.0.0.0")
    assert ended.returncode == 0, ended
