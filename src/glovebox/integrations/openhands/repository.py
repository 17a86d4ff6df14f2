"""A repository in the workspace: its address, its clone, its set-up script and git hook, git's identity."""

from __future__ import annotations

import logging
import posixpath
import re
import secrets
import shlex
import string
import time
from collections.abc import Mapping
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

import msgspec

from glovebox.client.backend import RuntimeStatus
from glovebox.client.runtime import Runtime
from glovebox.client.shell import ShellResult, quote_word, run_in_shell, shell_result
from glovebox.errors import ClientError, GloveboxError
from glovebox.json_codec import decode_json
from glovebox.logs import Mask
from glovebox.protocol.actions import CmdRunAction, FileReadAction, FileWriteAction
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation
from glovebox.protocol.terminal import CommandInfo, SessionInfo

log = logging.getLogger(__name__)

Provider = Literal["github", "gitlab", "bitbucket", "azure_devops"]
HOSTS: dict[Provider, str] = {
    "github": "github.com",
    "gitlab": "gitlab.com",
    "bitbucket": "bitbucket.org",
    "azure_devops": "dev.azure.com",
}
SETUP_SCRIPT = ".openhands/setup.sh"
SETUP_LIMIT = 600.0
CLONE_LIMIT = 600.0
#: How the box describes a command that has ended.
_ENDED = ("\n[The command completed with exit code", "\n[The shell itself ended")
_LOGIN_OF_URL = re.compile(r"(?<=://)[^/@\s']+(?=@)")
_MISSING = "Missing either Git token or valid repository"
HOOK_SCRIPT = ".openhands/pre-commit.sh"
HOOK = ".git/hooks/pre-commit"
PRESERVED_HOOK = ".git/hooks/pre-commit.local"
MARK = "This hook was installed by OpenHands"
_TEXT = f"""\
#!/bin/bash
# {MARK}
# It calls the pre-commit script in the .openhands directory

if [ -x {HOOK_SCRIPT} ]; then
    source {HOOK_SCRIPT}
    exit $?
fi
echo "Warning: {HOOK_SCRIPT} not found or not executable"
exit 0"""
GIT_USER_NAME = "openhands"
GIT_USER_EMAIL = "openhands@all-hands.dev"


def remote_url(provider: Provider, repository: str, *, host: str = "", token: str = "") -> str:
    """The address to clone from, with the token in it if there is one.

    A repository is `owner/name`, of Azure DevOps `organisation/project/name`.

    Raises:
        ClientError: it is not such a name.
    """
    host = host.removeprefix("https://").rstrip("/") or HOSTS[provider]
    parts = repository.strip("/").split("/")
    if len(parts) < (3 if provider == "azure_devops" else 2) or not all(parts):
        raise ClientError(_MISSING)
    path = quote("/".join(parts))
    if provider == "azure_devops":
        organisation, project, name = (quote(part, safe="") for part in (parts[0], parts[1], parts[-1]))
        login = f"{organisation}:{quote(token, safe='')}@" if token else ""
        return f"https://{login}{host}/{organisation}/{project}/_git/{name}"
    return f"https://{_login(provider, token)}{host}/{path}.git"


def _login(provider: Provider, token: str) -> str:
    if not token:
        return ""
    secret = quote(token, safe="")
    if provider == "gitlab":
        return f"oauth2:{secret}@"
    if provider == "bitbucket":
        user, colon, password = token.partition(":")
        return f"{quote(user, safe='')}:{quote(password, safe='')}@" if colon else f"x-token-auth:{secret}@"
    return f"{secret}@"


async def initialize_repository(
    box: Runtime, *, url: str | None = None, repository: str | None = None, branch: str | None = None
) -> str:
    """Clone a repository, run its set-up script, and install its git hook; the name of its directory.

    Raises:
        ClientError: it could not be cloned.
    """
    name = await clone_or_init_repo(box, url=url, repository=repository, branch=branch)
    await maybe_run_setup_script(box)
    await maybe_setup_git_hooks(box)
    return name


async def clone_or_init_repo(
    box: Runtime,
    *,
    url: str | None = None,
    repository: str | None = None,
    branch: str | None = None,
    init_in_empty: bool = False,
    limit: float = CLONE_LIMIT,
) -> str:
    """Clone into the workspace and change to the clone; the name of its directory.

    `url` may contain a token; without `url`, `repository` (`owner/name`) is cloned from GitHub. With neither,
    `init_in_empty` makes the workspace itself a repository, and the name is empty. Without `branch` a new one
    is created. An existing clone of the same repository is used as it is.

    Raises:
        ClientError: git failed; the text has git's output, without the token.
    """
    if not url and not repository:
        if init_in_empty:
            safe = shlex.quote(box.workspace)
            made = await run_in_shell(box, f"git init && git config --global --add safe.directory {safe}")
            if made.exit_code != 0:
                log.warning("The workspace could not be made a git repository: %s", made.output)
        else:
            log.info("In workspace mount mode, not initializing a new git repository.")
        return ""
    source = url or remote_url("github", repository or "")
    name = _directory_name(repository or urlsplit(source).path.removesuffix(".git"))
    if source.startswith("-") or (branch or "").startswith("-"):
        raise ClientError(f"Neither a repository nor a branch begins with a dash: {without_login(source)}")
    box.report.status(RuntimeStatus.SETTING_UP_WORKSPACE, "Setting up workspace...")
    await _clone(box, source, posixpath.join(box.workspace, name), branch, limit)
    return name


def _directory_name(repository: str) -> str:
    name = posixpath.basename(repository.rstrip("/"))
    if name in ("", ".", ".."):
        raise ClientError(_MISSING)
    return name


async def _clone(box: Runtime, url: str, path: str, branch: str | None, limit: float) -> None:
    where, source = shlex.quote(path), shlex.quote(url)
    cloned = await run_unattended(box, f"git clone {source} {where}", limit=limit)
    if cloned.exit_code == -1 or (cloned.exit_code != 0 and not await _is_clone_of(box, url, where)):
        raise _failed("cloned", url, cloned)
    choice = f"git checkout {shlex.quote(branch)}" if branch else f"git checkout -b {_new_branch()}"
    chosen = await run_unattended(box, f"cd {where} && {choice}", limit=limit)
    if chosen.exit_code != 0:
        raise _failed(f"checked out at {branch}" if branch else "given a branch", url, chosen)
    set_url = await run_in_shell(box, f"cd {where} && git remote set-url origin {source}")
    if set_url.exit_code != 0:
        raise _failed("given its address", url, set_url)


async def _is_clone_of(box: Runtime, url: str, where: str) -> bool:
    """Whether a clone failed because it had been made before: a workspace may outlive its box."""
    found = await run_in_shell(box, f"git -C {where} remote get-url origin")
    lines = found.output.split()
    return found.exit_code == 0 and bool(lines) and without_login(lines[-1]) == without_login(url)


def _new_branch() -> str:
    letters = string.ascii_lowercase + string.digits
    return "openhands-workspace-" + "".join(secrets.choice(letters) for _ in range(8))


def _failed(what: str, url: str, result: ShellResult) -> ClientError:
    return ClientError(f"{without_login(url)} could not be {what}: {without_secrets(url, result.output)}")


def without_login(text: str) -> str:
    """A text without the names and passwords in its addresses."""
    return _LOGIN_OF_URL.sub("***", text)


def without_secrets(url: str, text: str) -> str:
    """A text without the tokens of an address."""
    parts = urlsplit(url)
    given = (parts.username or "", parts.password or "")
    return without_login(Mask({*given, *map(unquote, given)})(text))


async def maybe_run_setup_script(box: Runtime) -> CmdOutputObservation | ErrorObservation | None:
    """Run the repository's set-up script; its observation, or None if there is no script."""
    found = await box.execute(FileReadAction(path=SETUP_SCRIPT))
    if isinstance(found, ErrorObservation):
        return None
    box.report.status(RuntimeStatus.SETTING_UP_WORKSPACE, "Setting up workspace...")
    # Sourced, so that it can leave variables in the shell.
    command = f"chmod +x {SETUP_SCRIPT} && source {SETUP_SCRIPT}"
    return await box.execute(CmdRunAction(command=command, blocking=True, hidden=True, timeout=SETUP_LIMIT))


async def maybe_setup_git_hooks(box: Runtime) -> bool:
    """Install the pre-commit hook if the repository has a script for it; whether it was installed.

    A failure is only logged.
    """
    if isinstance(await box.execute(FileReadAction(path=HOOK_SCRIPT)), ErrorObservation):
        return False
    box.report.status(RuntimeStatus.SETTING_UP_GIT_HOOKS, "Setting up git hooks...")
    log.info("Setting up git hooks...")
    if not await _run(box, "mkdir -p .git/hooks", "Failed to create git hooks directory"):
        return False
    if not await _run(box, f"chmod +x {HOOK_SCRIPT}", "Failed to make pre-commit script executable"):
        return False
    if not await _preserve_hook(box):
        return False
    written = await box.execute(FileWriteAction(path=HOOK, content=_TEXT))
    if isinstance(written, ErrorObservation):
        log.error("Failed to write pre-commit hook: %s", written.content)
        return False
    if not await _run(box, f"chmod +x {HOOK}", "Failed to make pre-commit hook executable"):
        return False
    log.info("Git pre-commit hook installed successfully")
    return True


async def _preserve_hook(box: Runtime) -> bool:
    """Rename an existing hook of another origin; whether that worked."""
    there = await box.execute(FileReadAction(path=HOOK))
    if isinstance(there, ErrorObservation):
        # A hook that is not text, a program for example, is preserved, too.
        if "file not found" in there.content.lower():
            return True
    elif MARK in there.content:
        return True
    log.info("Preserving existing pre-commit hook")
    kept = await _run(box, f"mv {HOOK} {PRESERVED_HOOK}", "Failed to preserve existing pre-commit hook")
    return kept and await _run(box, f"chmod +x {PRESERVED_HOOK}", "Failed to make preserved hook executable")


async def _run(box: Runtime, command: str, complaint: str) -> bool:
    result = await run_in_shell(box, command)
    if result.exit_code != 0:
        log.error("%s: %s", complaint, result.output)
    return result.exit_code == 0


async def setup_initial_env(
    box: Runtime,
    initial: Mapping[str, str],
    startup: Mapping[str, str] | None = None,
    *,
    git_user_name: str = GIT_USER_NAME,
    git_user_email: str = GIT_USER_EMAIL,
) -> None:
    """Set the first variables of a new box, and git's identity.

    Raises:
        ClientError: a variable could not be set.
    """
    await box.add_env_vars(initial)
    if startup:
        await box.add_env_vars(startup)
    await set_git_identity(box, git_user_name, git_user_email)


async def set_git_identity(box: Runtime, name: str = GIT_USER_NAME, email: str = GIT_USER_EMAIL) -> None:
    """Set the author of commits. A failure is only logged: a box may have no git."""
    command = (
        f"git config --global user.name {quote_word(name)} && "
        f"git config --global user.email {quote_word(email)}"
    )
    result = await run_in_shell(box, command)
    if result.exit_code != 0:
        log.warning("Git config command failed: %s", result.output)


async def run_unattended(box: Runtime, command: str, *, limit: float) -> ShellResult:
    """Run a command in the persistent shell, and end it if it waits for input."""
    deadline = time.monotonic() + limit
    observation = await box.execute(CmdRunAction(command=command, timeout=limit))
    text = shell_result(observation).output
    while isinstance(observation, CmdOutputObservation) and _is_running(observation):
        question = await _prompt(box)
        left = deadline - time.monotonic()
        if question is not None or left <= 0:
            await box.execute(CmdRunAction(command="C-c", is_input=True, timeout=10))
            why = f"It asked: {question}" if question is not None else f"It did not end in {limit:g} seconds."
            return ShellResult(exit_code=-1, output=f"{text}\n{why}".strip())
        observation = await box.execute(CmdRunAction(command="", timeout=left))
        text += shell_result(observation).output
    return ShellResult(exit_code=shell_result(observation).exit_code, output=text)


def _is_running(observation: CmdOutputObservation) -> bool:
    """Whether the command has not ended; one that has ended may have an unknown exit code."""
    metadata = observation.metadata
    return metadata.exit_code == -1 and bool(metadata.suffix) and not metadata.suffix.startswith(_ENDED)


async def _prompt(box: Runtime) -> str | None:
    """The prompt of a running command that waits for input, else None."""
    try:
        session = decode_json(await box.call("GET", "/sessions/main"), SessionInfo)
        if session.command is None:
            return None
        answer = await box.call("GET", f"/commands/{session.command}")
    except (GloveboxError, msgspec.DecodeError):  # a server without these endpoints
        return None
    command = decode_json(answer, CommandInfo)
    return command.prompt if command.state == "waiting_for_input" else None
