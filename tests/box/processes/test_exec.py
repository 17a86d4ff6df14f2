"""`POST /exec`: a program runs to its end, and everything it printed is in the answer."""

from __future__ import annotations

import base64
import json
import os
import pwd
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.box.processes.conftest import Call
from tests.support.running import RunningBox, wait_until

PRINT_BYTES = "import os; os.write(1, bytes(range(256)) * 64); os.write(2, b'\\0\\xff' * 5)"


def test_output_and_errors_are_separate_and_the_exit_code_is_told(run: Call) -> None:
    done = run(argv=["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done["stdout"], done["stderr"]) == ("out\n", "err\n")
    process = done["process"]
    assert (process["exit_code"], process["signal"], process["reason"]) == (3, None, "exit")
    assert (process["stdout_bytes"], process["stderr_bytes"]) == (4, 4)
    assert process["bill"]["wall_seconds"] > 0
    assert process["bill"]["output_bytes"] == 8


def test_a_text_runs_in_bash(run: Call) -> None:
    assert run(shell="[[ a == a ]] && echo {1..3} | tee /dev/null")["stdout"] == "1 2 3\n"


def test_arguments_are_passed_as_they_are(run: Call) -> None:
    words = ["a b", "", "$HOME", "*", "ünïcode", "new\nline", "'\""]
    done = run(argv=["python3", "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", *words])
    assert json.loads(done["stdout"]) == words


def test_any_bytes_come_back_as_base64(run: Call) -> None:
    done = run(argv=["python3", "-c", PRINT_BYTES], output_encoding="base64")
    assert base64.b64decode(done["stdout"]) == bytes(range(256)) * 64
    assert base64.b64decode(done["stderr"]) == b"\0\xff" * 5


def test_bytes_that_are_no_text_are_replaced_in_text(run: Call) -> None:
    assert run(argv=["printf", r"a\377b\0c"])["stdout"] == "a\ufffdb\0c"


def test_what_is_too_much_for_the_answer_can_be_read_from_the_process(
    run: Call, client: httpx.Client
) -> None:
    done = run(argv=["seq", "100000"], max_output=1000)
    everything = "".join(f"{number}\n" for number in range(1, 100_001)).encode()
    assert done["stdout"].encode() == everything[:1000]
    assert (done["stdout_truncated"], done["stderr_truncated"]) == (True, False)
    assert client.get(f"/processes/{done['process']['id']}/stdout?offset=1000").content == everything[1000:]


def test_the_working_directory_and_variables_are_as_wanted(
    run: Call, shared_box: RunningBox, tmp_path: Path
) -> None:
    (shared_box.workspace / "below").mkdir(exist_ok=True)
    assert run(argv=["pwd"])["stdout"] == f"{shared_box.workspace}\n"
    assert run(argv=["pwd"], cwd="below")["stdout"] == f"{shared_box.workspace}/below\n"
    assert run(argv=["pwd"], cwd=str(tmp_path))["stdout"] == f"{tmp_path}\n"
    assert run(argv=["sh", "-c", "echo $A$HOME"], env={"A": "x"})["stdout"].startswith("x/")
    bare = run(argv=["/usr/bin/env"], env={"A": "x"}, clear_env=True)["stdout"].splitlines()
    assert sorted(line.partition("=")[0] for line in bare) == ["A", "GLOVEBOX_SESSION"]


def test_the_standard_input_is_empty_or_what_is_given(run: Call) -> None:
    assert run(argv=["cat"])["stdout"] == ""
    assert run(argv=["cat"], stdin="grüße\n")["stdout"] == "grüße\n"
    data = os.urandom(10_000_000)
    asked = {"stdin": base64.b64encode(data).decode(), "stdin_encoding": "base64"}
    done = run(argv=["cat"], output_encoding="base64", max_output=1 << 24, **asked)
    assert base64.b64decode(done["stdout"]) == data
    assert done["process"]["stdin_bytes"] == len(data)


def test_a_program_that_does_not_read_its_input_ends_all_the_same(run: Call) -> None:
    assert run(argv=["true"], stdin="x" * 1_000_000)["process"]["exit_code"] == 0


def test_a_child_that_holds_the_pipes_does_not_hold_up_the_answer(
    run: Call, client: httpx.Client, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script = f"(until [ -e {go} ]; do sleep 0.05; done; echo late; echo late >&2) & echo first"
    done = run(shell=script)
    process = done["process"]["id"]
    assert (done["stdout"], done["process"]["exit_code"]) == ("first\n", 0)
    go.touch()
    wait_until(lambda: client.get(f"/processes/{process}/stdout").text == "first\nlate\n")
    wait_until(lambda: client.get(f"/processes/{process}/stderr").text == "late\n")


def test_a_terminal_of_the_size_that_is_wanted(run: Call) -> None:
    done = run(
        shell="stty size; test -t 0 && test -t 2 && echo terminal >&2", pty={"rows": 33, "columns": 99}
    )
    assert done["stdout"] == "33 99\r\nterminal\r\n"
    assert done["process"]["pty"] is True


def test_input_for_a_terminal_ends_with_the_text(run: Call) -> None:
    assert "abc\r\nABC\r\n" in run(shell="tr a-z A-Z", pty={}, stdin="abc\n")["stdout"]


def test_output_comes_as_events_while_it_is_printed(client: httpx.Client, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"printf '\\303'; echo err >&2; until [ -e {go} ]; do sleep 0.02; done; printf '\\244x'; exit 4"
    events: list[tuple[str, dict[str, Any]]] = []
    headers = {"Accept": "text/event-stream"}
    with client.stream("POST", "/exec", json={"shell": script}, headers=headers) as answer:
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                events.append((name, json.loads(line.removeprefix("data: "))))
                if name == "stderr":
                    go.touch()
    assert [name for name, _ in events] == ["started", "stderr", "stdout", "end"]
    assert events[1][1] == {"offset": 0, "end": 4, "data": "err\n"}
    assert events[2][1] == {"offset": 0, "end": 3, "data": "äx"}  # the character is whole
    assert events[3][1]["exit_code"] == 4


def test_many_at_once(shared_box: RunningBox) -> None:
    def one(number: int) -> bool:
        answer = shared_box.client.post("/exec", json={"shell": f"sleep 0.2; echo {number}"})
        return answer.status_code == 200 and answer.json()["stdout"] == f"{number}\n"

    with ThreadPoolExecutor(50) as pool:
        assert all(pool.map(one, range(200)))


def test_a_caller_that_goes_away_ends_its_program(client: httpx.Client, run: Call) -> None:
    for asked, stays in (({}, False), ({"detached": True}, True), ({"idempotency_key": "gone-away"}, True)):
        tag = f"left-{stays}-{len(asked)}"
        with pytest.raises(httpx.ReadTimeout):
            client.post("/exec", json={"argv": ["sleep", "600"], "tag": tag, **asked}, timeout=3)
        process = client.get("/processes", params={"tag": tag}).json()[0]
        if stays:
            assert process["state"] == "running"
            client.delete(f"/processes/{process['id']}")
        else:
            ended = client.post(f"/processes/{process['id']}/wait", json={}).json()
            assert (ended["reason"], ended["signal"]) == ("signal", "SIGTERM")
            assert "went away" in ended["detail"]


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "nothing": ({}, "bad_process", "argv"),
    "both": ({"argv": ["true"], "shell": "true"}, "bad_process", "either"),
    "empty": ({"argv": []}, "bad_process", "empty"),
    "empty word": ({"argv": [""]}, "bad_process", "empty"),
    "NUL in argv": ({"argv": ["echo", "a\0b"]}, "bad_process", "NUL"),
    "NUL in env": ({"argv": ["true"], "env": {"A": "\0"}}, "bad_process", "NUL"),
    "NUL in cwd": ({"argv": ["true"], "cwd": "/tmp\0"}, "bad_process", "NUL"),
    "name of a variable": ({"argv": ["true"], "env": {"A=B": "c"}}, "bad_process", "variable"),
    "long word": ({"argv": ["echo", "x" * 140_000]}, "bad_process", "131,071"),
    "many words": ({"argv": ["echo", *["x" * 100_000] * 12]}, "bad_process", "together"),
    "not found": ({"argv": ["no-such-program"]}, "program_not_found", "/usr/bin"),
    "no such path": ({"argv": ["./no/such"]}, "program_not_found", "./no/such"),
    "directory": ({"argv": ["/tmp"]}, "program_not_executable", "directory"),
    "not executable": ({"argv": ["/etc/passwd"]}, "program_not_executable", "/etc/passwd"),
    "no directory": ({"argv": ["true"], "cwd": "/no/such"}, "no_such_directory", "/no/such"),
    "file as directory": ({"argv": ["true"], "cwd": "/etc/passwd"}, "no_such_directory", "/etc/passwd"),
    "no such user": ({"argv": ["true"], "user": "no-such-user"}, "no_such_user", "no-such-user"),
    "timeout": ({"argv": ["true"], "timeout": 0}, "bad_process", "timeout"),
    "limit": ({"argv": ["true"], "limits": {"memory": -1}}, "bad_process", "memory"),
    "size": ({"argv": ["true"], "pty": {"rows": 0, "columns": 10}}, "bad_process", "rows"),
    "base64": ({"argv": ["cat"], "stdin": "!", "stdin_encoding": "base64"}, "bad_process", "base64"),
    "encoding": ({"argv": ["true"], "output_encoding": "latin-1"}, "request_invalid", ""),
    "unknown field": ({"argv": ["true"], "colour": "red"}, "request_invalid", "colour"),
    "argv as text": ({"argv": "true"}, "request_invalid", ""),
    "max_output": ({"argv": ["true"], "max_output": -1}, "request_invalid", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_refused_with_a_code_and_a_reason(client: httpx.Client, case: str) -> None:
    asked, code, text = BAD[case]
    answer = client.post("/exec", json=asked)
    assert (answer.status_code, answer.headers["X-Glovebox-Error"]) == (422, code), answer.text
    assert text in answer.text


def test_a_script_without_its_interpreter_is_told_apart_from_a_missing_one(
    client: httpx.Client, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    answer = client.post("/exec", json={"argv": [str(script)]})
    assert answer.headers["X-Glovebox-Error"] == "program_not_executable"
    assert "interpreter" in answer.json()["detail"]


def test_no_surrogate_reaches_a_program(client: httpx.Client) -> None:
    answer = client.post("/exec", content=b'{"argv": ["echo", "\\ud800"]}')
    assert answer.status_code == 422


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_server_of_root_starts_programs_as_another_user(run: Call) -> None:
    done = run(shell="id -un; echo $HOME $USER", user="nobody", cwd="/")
    assert done["stdout"].split() == ["nobody", pwd.getpwnam("nobody").pw_dir, "nobody"]
    assert done["process"]["user"] == "nobody"


def test_the_key_of_the_box_is_not_in_the_environment(run: Call, shared_box: RunningBox) -> None:
    assert shared_box.key not in run(argv=["env"])["stdout"]


def test_programs_begin_with_default_signals_and_no_foreign_descriptors(run: Call) -> None:
    script = (
        "import os, signal; print(sorted(os.listdir('/proc/self/fd'))[:4]);"
        "print([s for s in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM) if signal.getsignal(s) is None]);"
        "print(open('/proc/self/status').read().split('SigIgn:')[1].split()[0], os.getsid(0) == os.getpid())"
    )
    lines = run(argv=["python3", "-I", "-c", script])["stdout"].splitlines()
    assert lines[0] == "['0', '1', '2', '3']"  # the last one is the listing itself
    ignored, leads = lines[2].split()
    # Python itself ignores SIGPIPE and SIGXFSZ. The C library keeps 32 and 33 for itself.
    assert int(ignored, 16) & ~(3 << 31) == (1 << signal.SIGPIPE - 1) | (1 << signal.SIGXFSZ - 1)
    assert leads == "True"


def test_the_same_key_gives_the_same_process(run: Call, client: httpx.Client, tmp_path: Path) -> None:
    once = {"shell": f"echo x >> {tmp_path}/count; cat {tmp_path}/count", "idempotency_key": "one-process"}
    first, second = run(**once), run(**once)
    assert first == second
    assert (tmp_path / "count").read_text() == "x\n"
    other = client.post("/exec", json={**once, "shell": "echo other"})
    assert (other.status_code, other.headers["X-Glovebox-Error"]) == (409, "idempotency_key_reused")
    named = client.post("/exec", json={"shell": once["shell"]}, headers={"Idempotency-Key": "one-process"})
    assert named.json() == first


def test_a_program_that_did_not_start_may_be_tried_again_with_its_key(
    client: httpx.Client, tmp_path: Path
) -> None:
    asked = {"argv": [str(tmp_path / "program")], "idempotency_key": "second-try"}
    assert client.post("/exec", json=asked).status_code == 422
    (tmp_path / "program").write_text("#!/bin/sh\necho now\n")
    (tmp_path / "program").chmod(0o755)
    assert client.post("/exec", json=asked).json()["stdout"] == "now\n"


def test_two_callers_with_one_key_start_one_process(client: httpx.Client, tmp_path: Path) -> None:
    asked = {
        "shell": f"echo x >> {tmp_path}/count; sleep 0.3; cat {tmp_path}/count",
        "idempotency_key": "both",
    }

    def call(_: int) -> str:
        text: str = client.post("/exec", json=asked).json()["stdout"]
        return text

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(call, range(8))) == {"x\n"}
