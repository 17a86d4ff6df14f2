"""The image, used as an unchanged OpenHands uses its own, and as people do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import glovebox
from tests.images.containers import STOCK, Container, container
from tests.support.engine import BASE, RealEngine
from tests.support.running import wait_until

#: What the image may add to a base, and what it may be on that of the tests, which is larger than most.
ADDED = 285e6
SIZE = 400e6
#: Makes the smallest package there can be.
MAKE_WHEEL = """
import zipfile
with zipfile.ZipFile("mine-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("mine.py", "answer = 42")
    about = "mine-1.dist-info/"
    wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n")
    wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(about + "RECORD", "")
"""


@pytest.fixture(scope="module")
def stock(engine: RealEngine, image: str) -> Iterator[Container]:
    """A box in a container that was started with the command line of OpenHands."""
    with container(engine, image) as started:
        wait_until(started.answers, 60, "the box")
        yield started


def test_commands_run_as_the_user_that_openhands_names(stock: Container) -> None:
    assert stock.run("id -un; id -u; id -Gn; pwd") == "openhands\n1000\nroot sudo\n/workspace"
    assert stock.run("sudo id -u") == "0"
    assert stock.run("touch a && stat -c %U a && echo $HOME") == "openhands\n/home/openhands"


def test_only_that_user_may_use_sudo_without_a_password(stock: Container) -> None:
    assert stock.run("sudo cat /etc/sudoers.d/glovebox-1000") == "#1000 ALL=(ALL) NOPASSWD:ALL"
    assert stock.run("sudo grep -r NOPASSWD /etc/sudoers /etc/sudoers.d | grep -v '#' | wc -l") == "0"
    assert stock.run("sudo -u daemon sudo -n true 2>&1 | wc -l") != "0"


def test_another_user_gets_sudo_if_it_is_asked_for(engine: RealEngine, image: str) -> None:
    other = ("--username", "other", "--user-id", "2000")
    for flag, seen in (("--sudo", "0\nroot sudo"), ("--no-sudo", "none\nother")):
        with container(engine, image, [*STOCK, *other, flag]) as started:
            wait_until(started.answers, 60, "the box")
            assert started.run("sudo -n id -u 2>/dev/null || echo none; id -Gn") == seen


def test_programs_agents_use_are_there(stock: Container) -> None:
    programs = "bash curl git jq ps python3 pip rg sudo tmux glovebox"
    assert stock.run(f"type -P {programs} | wc -l") == str(len(programs.split()))


def test_python_of_the_image_installs_packages_and_makes_environments(stock: Container) -> None:
    stock.execute("write", path="/workspace/make.py", content=MAKE_WHEEL)
    stock.run("python3 make.py && pip install --user --no-index ./mine-1-py3-none-any.whl")
    assert stock.run("python3 -c 'import mine; print(mine.answer)'") == "42"
    stock.run("python3 -m venv other")
    assert stock.run("other/bin/pip --version | cut -d' ' -f1") == "pip"


def test_git_commits_and_clones(stock: Container) -> None:
    stock.run("git init -q one; git -C one config user.name me; git -C one config user.email me@box")
    stock.run("seq 5 >one/a && git -C one add a && git -C one commit -qm first")
    stock.run("seq 6 >one/a && echo y | git -C one add -p && git -C one commit -qm second")
    stock.run("git -C one update-server-info")
    stock.run("python3 -m http.server 8766 --bind 127.0.0.1 >/dev/null 2>&1 &")
    site = "http://127.0.0.1:8766"
    stock.run(f"curl -fsS -o /dev/null --retry 50 --retry-delay 1 --retry-connrefused {site}")
    stock.run(f"git clone -q one two; git clone -q {site}/one/.git three")
    for clone in ("two", "three"):
        assert stock.run(f"git -C {clone} log --format=%s") == "second\nfirst"


def test_bytecode_of_what_is_used_is_there(stock: Container) -> None:
    """Nobody but root could write it, so each start would take longer."""
    ask = "import json, pip, pip._vendor.rich as r; print(*(m.__cached__ for m in (json, pip, r)))"
    assert stock.run(f"ls $(python3 -c '{ask}') | wc -l") == "3"


def test_cells_run_and_skills_are_there(stock: Container) -> None:
    assert stock.execute("run_ipython", code="6 * 7").startswith("42")
    assert "Skills" not in stock.execute("run_ipython", code="open_file.__name__")
    stock.execute("write", path="/workspace/make.py", content=MAKE_WHEEL)
    code = (
        "%run make.py\n%pip install --no-index ./mine-1-py3-none-any.whl\nimport mine; print(mine.__file__)"
    )
    assert "\n/home/openhands/.local/share/glovebox/kernel-" in stock.execute("run_ipython", code=code)


def test_a_start_has_nothing_left_to_do(stock: Container) -> None:
    assert "created user" not in stock.logs()


def test_the_log_says_that_there_is_no_key(stock: Container) -> None:
    assert "no SESSION_API_KEY is set" in stock.logs()


def test_web_pages_are_refused_without_a_key(stock: Container) -> None:
    assert stock.client.post("/list_files", json={}).status_code == 200
    answer = stock.client.post("/list_files", json={}, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403


def test_it_is_healthy(stock: Container) -> None:
    wait_until(lambda: stock.state()["State"]["Health"]["Status"] == "healthy", what="its health")


def test_orphans_are_taken_in(stock: Container) -> None:
    assert stock.exec("sh", "-c", "sleep 0.05 & sleep 0.05 & exit 0") == 0
    wait_until(lambda: "sleep" not in stock.run("ps -eo stat,comm"), what="them to be gone")


def test_the_stand_in_refuses_anything_else(stock: Container) -> None:
    assert stock.exec("/openhands/micromamba/bin/micromamba", "install", "numpy") == 2
    assert stock.exec("/openhands/micromamba/bin/micromamba", "run", "-m", "http.server") == 2


def test_it_says_what_it_is_and_is_small(engine: RealEngine, image: str) -> None:
    about = engine.ask("GET", f"/images/{image}/json")
    assert about["Config"]["Labels"]["glovebox.runtime"] == glovebox.__version__
    assert about["Config"]["WorkingDir"] == "/openhands/code/"
    assert about["Size"] < SIZE
    assert about["Size"] - engine.ask("GET", f"/images/{BASE}/json")["Size"] < ADDED


def test_it_wants_the_key_that_it_is_given_and_ends_when_it_is_told_to(
    engine: RealEngine, image: str
) -> None:
    with container(engine, image, SESSION_API_KEY="a-key-for-this-test") as started:
        wait_until(started.answers, 60, "the box")
        assert started.client.post("/list_files", json={}).status_code == 403
        headers = {"X-Session-API-Key": "a-key-for-this-test"}
        assert started.client.post("/list_files", json={}, headers=headers).status_code == 200
        assert "no SESSION_API_KEY is set" not in started.logs()
        assert started.stop() == 0


def test_without_openhands_it_does_not_serve_others_without_a_key(engine: RealEngine, image: str) -> None:
    with container(engine, image, None) as started:
        wait_until(lambda: not started.state()["State"]["Running"], what="it to end")
        assert started.state()["State"]["ExitCode"] == 2
        assert "SESSION_API_KEY" in started.logs()
