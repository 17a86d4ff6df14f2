from __future__ import annotations

import base64
import functools
import logging
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from glovebox.client.backend import Level, RuntimeStatus
from glovebox.errors import ClientError
from glovebox.integrations.openhands.repository import (
    Provider,
    clone_or_init_repo,
    initialize_repository,
    maybe_run_setup_script,
    maybe_setup_git_hooks,
    remote_url,
)
from tests.client.asked import connected
from tests.support.running import RunningBox, running_box

IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org")
ENVIRONMENT = {"NO_CHANGE_TIMEOUT_SECONDS": "1", "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
TOKEN = "ghp_0123456789secret"


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", where, *IDENTITY, *arguments], capture_output=True, check=True)
    return done.stdout.decode()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with a branch `main` and a branch `other`."""
    there = tmp_path / "origin" / tmp_path.name
    there.mkdir(parents=True)
    git(there, "init", "-q", "-b", "main")
    (there / "README.md").write_text("Hello\n")
    git(there, "add", ".")
    git(there, "commit", "-q", "-m", "first")
    git(there, "branch", "other")
    return there


@pytest.fixture(scope="module")
def own_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBox]:
    """A box with a home of its own, in which a command that says nothing is soon asked why."""
    home = tmp_path_factory.mktemp("repository")
    with running_box(home / "workspace", environment=ENVIRONMENT) as box:
        yield box


@pytest.fixture
def fresh_box(own_box: RunningBox) -> RunningBox:
    """The same with its shell in the workspace."""
    own_box.run(f"cd {own_box.workspace}")
    return own_box


@pytest.mark.parametrize(
    ("provider", "repository", "token", "url"),
    [
        ("github", "o/r", "", "https://github.com/o/r.git"),
        ("github", "o/r", "tok", "https://tok@github.com/o/r.git"),
        ("gitlab", "o/sub/r", "tok", "https://oauth2:tok@gitlab.com/o/sub/r.git"),
        ("bitbucket", "o/r", "tok", "https://x-token-auth:tok@bitbucket.org/o/r.git"),
        ("bitbucket", "o/r", "me:pa ss", "https://me:pa%20ss@bitbucket.org/o/r.git"),
        ("azure_devops", "org/pro ject/r", "tok", "https://org:tok@dev.azure.com/org/pro%20ject/_git/r"),
        ("azure_devops", "org/p/r", "", "https://dev.azure.com/org/p/_git/r"),
    ],
)
def test_addresses_of_providers(provider: Provider, repository: str, token: str, url: str) -> None:
    assert remote_url(provider, repository, token=token) == url


def test_an_address_at_another_host() -> None:
    assert remote_url("github", "o/r", host="git.example.org") == "https://git.example.org/o/r.git"


@pytest.mark.parametrize("repository", ["", "name", "/", "o//r"])
def test_a_repository_without_owner_or_name_has_no_address(repository: str) -> None:
    with pytest.raises(ClientError, match="Missing either Git token or valid repository"):
        remote_url("github", repository)


async def test_a_clone_is_on_a_new_branch_and_the_shell_is_in_it(fresh_box: RunningBox, origin: Path) -> None:
    told: list[tuple[Level, RuntimeStatus, str]] = []
    async with connected(fresh_box, lambda *status: told.append(status)) as runtime:
        name = await clone_or_init_repo(runtime, url=str(origin), repository=f"owner/{origin.name}")
    there = fresh_box.workspace / origin.name
    assert name == origin.name
    assert ("info", RuntimeStatus.SETTING_UP_WORKSPACE, "Setting up workspace...") in told
    assert re.fullmatch(r"openhands-workspace-[a-z0-9]{8}\n", git(there, "branch", "--show-current"))
    assert git(there, "remote", "get-url", "origin").strip() == str(origin)
    assert fresh_box.run("pwd").strip() == str(there)


async def test_a_branch_is_checked_out_and_a_clone_that_is_there_is_used(
    fresh_box: RunningBox, origin: Path
) -> None:
    async with connected(fresh_box) as runtime:
        await clone_or_init_repo(runtime, url=str(origin), branch="other")
        (fresh_box.workspace / origin.name / "mine").write_text("kept")
        assert await clone_or_init_repo(runtime, url=str(origin), branch="main") == origin.name
    assert git(fresh_box.workspace / origin.name, "branch", "--show-current") == "main\n"
    assert (fresh_box.workspace / origin.name / "mine").read_text() == "kept"


class Files(SimpleHTTPRequestHandler):
    """Serves files to those who show a token."""

    shown: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        """Ask for a name and password, as hosts of repositories do."""
        self.shown.append(self.headers["Authorization"])
        if self.headers["Authorization"] is None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="repositories"')
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def remote(origin: Path) -> Iterator[str]:
    """The address of the same repository over HTTP, without a token."""
    git(origin, "update-server-info")
    handler = functools.partial(Files, directory=str(origin.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}/{origin.name}/.git"
        server.shutdown()
        thread.join()


async def test_a_token_gets_a_clone_and_stays_with_it_but_not_in_logs(
    fresh_box: RunningBox, origin: Path, remote: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "glovebox")
    name = f"owner/{origin.name}"
    async with connected(fresh_box) as runtime:
        with pytest.raises(ClientError, match="It asked: Username for"):
            await clone_or_init_repo(runtime, url=f"http://{remote}", repository=name)
        await clone_or_init_repo(runtime, url=f"http://oauth2:{TOKEN}@{remote}", repository=name)
        await clone_or_init_repo(runtime, url=f"http://oauth2:{TOKEN}-2@{remote}", repository=name)
    assert (fresh_box.workspace / origin.name / "README.md").read_text() == "Hello\n"
    expected = base64.b64encode(f"oauth2:{TOKEN}".encode()).decode()
    assert f"Basic {expected}" in Files.shown
    address = git(fresh_box.workspace / origin.name, "remote", "get-url", "origin").strip()
    assert address == f"http://oauth2:{TOKEN}-2@{remote}"
    assert TOKEN not in caplog.text


async def test_failures_have_gits_words_and_no_token(
    fresh_box: RunningBox, origin: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "glovebox")
    nobody = f"http://{TOKEN}:x-oauth@127.0.0.1:9/owner/project.git"
    async with connected(fresh_box) as runtime:
        with pytest.raises(ClientError, match=r"could not be cloned: (.|\n)*127\.0\.0\.1") as raised:
            await clone_or_init_repo(runtime, url=nobody)
        with pytest.raises(ClientError, match=r"checked out at nowhere: (.|\n)*did not match"):
            await clone_or_init_repo(runtime, url=str(origin), branch="nowhere")
        (fresh_box.workspace / "taken").mkdir()
        (fresh_box.workspace / "taken" / "file").touch()
        with pytest.raises(ClientError, match="already exists"):
            await clone_or_init_repo(runtime, url=str(origin), repository="owner/taken")
    assert TOKEN not in str(raised.value) + caplog.text
    assert "http://***@127.0.0.1:9/owner/project.git" in str(raised.value)


@pytest.mark.parametrize(
    "given", [{"url": "--upload-pack=id"}, {"url": "/x/y", "branch": "-f"}, {"url": "/.."}]
)
async def test_options_and_places_outside_are_no_repositories(
    shared_box: RunningBox, given: dict[str, str]
) -> None:
    async with connected(shared_box) as runtime:
        with pytest.raises(ClientError):
            await clone_or_init_repo(runtime, url=given["url"], branch=given.get("branch"))


async def test_a_question_of_git_is_not_waited_for(fresh_box: RunningBox, tmp_path: Path) -> None:
    stub = tmp_path / "git"
    stub.write_text("#!/bin/sh\nprintf 'Username for x: '; read answer; exit 1\n")
    stub.chmod(0o755)
    fresh_box.run(f"OLD_PATH=$PATH; PATH={tmp_path}:$PATH")
    async with connected(fresh_box) as runtime:
        with pytest.raises(ClientError, match="It asked: Username for x:"):
            await clone_or_init_repo(runtime, url="https://example.org/o/r.git")
    assert fresh_box.run("PATH=$OLD_PATH; echo free").strip() == "free"


async def test_without_a_repository_the_workspace_becomes_one_if_wanted(fresh_box: RunningBox) -> None:
    async with connected(fresh_box) as runtime:
        assert await clone_or_init_repo(runtime) == ""
        assert not (fresh_box.workspace / ".git").exists()
        assert await clone_or_init_repo(runtime, init_in_empty=True) == ""
    assert (fresh_box.workspace / ".git").is_dir()
    assert fresh_box.run("git config --global safe.directory").strip() == str(fresh_box.workspace)


async def test_a_repository_sets_itself_up_and_gets_its_hook(fresh_box: RunningBox, origin: Path) -> None:
    (origin / ".openhands").mkdir()
    (origin / ".openhands" / "setup.sh").write_text("sleep 1.5; export SET_UP=yes; touch made\n")
    (origin / ".openhands" / "pre-commit.sh").write_text("echo checked >> ../checks\n")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "second")
    told: list[RuntimeStatus] = []
    async with connected(fresh_box, lambda level, status, message: told.append(status)) as runtime:
        await initialize_repository(runtime, url=str(origin))
    there = fresh_box.workspace / origin.name
    assert (there / "made").exists()
    assert fresh_box.run("echo $SET_UP").strip() == "yes"
    assert told[-2:] == [RuntimeStatus.SETTING_UP_WORKSPACE, RuntimeStatus.SETTING_UP_GIT_HOOKS]
    git(there, "commit", "-q", "--allow-empty", "-m", "third")
    assert (fresh_box.workspace / "checks").read_text() == "checked\n"


async def test_a_hook_that_was_there_is_kept_once(
    fresh_box: RunningBox, origin: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "glovebox")
    (origin / ".openhands").mkdir()
    (origin / ".openhands" / "pre-commit.sh").write_text("exit 3\n")
    hooks = origin / ".git" / "hooks"
    (hooks / "pre-commit").write_bytes(b"\x7fELF\0\xff own")
    async with connected(fresh_box) as runtime:
        await runtime.run(f"cd {origin}")
        assert await maybe_setup_git_hooks(runtime)
        assert await maybe_setup_git_hooks(runtime)
    assert caplog.messages.count("Preserving existing pre-commit hook") == 1
    assert caplog.messages.count("Git pre-commit hook installed successfully") == 2
    assert (hooks / "pre-commit.local").read_bytes() == b"\x7fELF\0\xff own"
    text = (hooks / "pre-commit").read_text()
    assert "# This hook was installed by OpenHands\n" in text
    assert "# It calls the pre-commit script in the .openhands directory\n" in text
    with pytest.raises(subprocess.CalledProcessError):
        git(origin, "commit", "--allow-empty", "-m", "refused")
    (origin / ".openhands" / "pre-commit.sh").chmod(0o644)
    warned = fresh_box.run(f"cd {origin} && .git/hooks/pre-commit").strip()
    assert warned == "Warning: .openhands/pre-commit.sh not found or not executable"


async def test_no_scripts_nothing_done(
    box: RunningBox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[RuntimeStatus] = []
    async with connected(box, lambda level, status, message: told.append(status)) as runtime:
        before = list(told)
        assert await maybe_run_setup_script(runtime) is None
        assert not await maybe_setup_git_hooks(runtime)
        assert told == before
        (tmp_path / ".openhands").mkdir()
        (tmp_path / ".openhands" / "pre-commit.sh").touch()
        (tmp_path / ".git").write_text("gitdir: elsewhere")
        assert not await maybe_setup_git_hooks(runtime)
    assert "Failed to create git hooks directory: " in caplog.text
