"""A repository in the workspace: where it comes from, how it is cloned, and how it sets itself up."""

from __future__ import annotations

import logging
import posixpath
import secrets
import shlex
import string
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from glovebox.client.backend import RuntimeStatus
from glovebox.client.hooks import maybe_setup_git_hooks
from glovebox.client.protocols import BoxClient
from glovebox.client.shell import Ran, masking, ran, ran_unattended, without_tokens
from glovebox.errors import ClientError
from glovebox.protocol.actions import CmdRunAction, FileReadAction
from glovebox.protocol.observations import CmdOutputObservation, ErrorObservation

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
_MISSING = "Missing either Git token or valid repository"


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
    box: BoxClient, *, url: str | None = None, repository: str | None = None, branch: str | None = None
) -> str:
    """Clone a repository, have it set itself up, and install its hooks; the name of its directory.

    Raises:
        ClientError: it could not be cloned.
    """
    name = await clone_or_init_repo(box, url=url, repository=repository, branch=branch)
    await maybe_run_setup_script(box)
    await maybe_setup_git_hooks(box)
    return name


async def clone_or_init_repo(
    box: BoxClient,
    *,
    url: str | None = None,
    repository: str | None = None,
    branch: str | None = None,
    init_in_empty: bool = False,
    limit: float = CLONE_LIMIT,
) -> str:
    """Clone into the workspace and go there; the name of the directory.

    `url` may hold a token; without one, `repository` (`owner/name`) is taken from GitHub. With neither, the
    workspace itself becomes a repository if `init_in_empty` says so, and the name is empty. Without a branch
    a new one is begun. A clone of the same repository that is there already is used as it is.

    Raises:
        ClientError: git failed; the text has its words, without the token.
    """
    if not url and not repository:
        if init_in_empty:
            safe = shlex.quote(box.workspace)
            made = await ran(box, f"git init && git config --global --add safe.directory {safe}")
            if made.exit_code != 0:
                log.warning("The workspace could not be made a git repository: %s", made.output)
        else:
            log.info("In workspace mount mode, not initializing a new git repository.")
        return ""
    source = url or remote_url("github", repository or "")
    name = _directory_name(repository or urlsplit(source).path.removesuffix(".git"))
    if source.startswith("-") or (branch or "").startswith("-"):
        raise ClientError(f"Neither a repository nor a branch begins with a dash: {without_tokens(source)}")
    box.report.status(RuntimeStatus.SETTING_UP_WORKSPACE, "Setting up workspace...")
    await _clone(box, source, posixpath.join(box.workspace, name), branch, limit)
    return name


def _directory_name(repository: str) -> str:
    name = posixpath.basename(repository.rstrip("/"))
    if name in ("", ".", ".."):
        raise ClientError(_MISSING)
    return name


async def _clone(box: BoxClient, url: str, path: str, branch: str | None, limit: float) -> None:
    where, source = shlex.quote(path), shlex.quote(url)
    cloned = await ran_unattended(box, f"git clone {source} {where}", limit=limit)
    if cloned.exit_code == -1 or (cloned.exit_code != 0 and not await _is_clone_of(box, url, where)):
        raise _failed("cloned", url, cloned)
    choice = f"git checkout {shlex.quote(branch)}" if branch else f"git checkout -b {_new_branch()}"
    chosen = await ran_unattended(box, f"cd {where} && {choice}", limit=limit)
    if chosen.exit_code != 0:
        raise _failed(f"checked out at {branch}" if branch else "given a branch", url, chosen)
    set_url = await ran(box, f"cd {where} && git remote set-url origin {source}")
    if set_url.exit_code != 0:
        raise _failed("given its address", url, set_url)


async def _is_clone_of(box: BoxClient, url: str, where: str) -> bool:
    """Whether a clone failed because it had been made before: a workspace may outlive its box."""
    told = await ran(box, f"git -C {where} remote get-url origin")
    lines = told.output.split()
    return told.exit_code == 0 and bool(lines) and without_tokens(lines[-1]) == without_tokens(url)


def _new_branch() -> str:
    letters = string.ascii_lowercase + string.digits
    return "openhands-workspace-" + "".join(secrets.choice(letters) for _ in range(8))


def _failed(what: str, url: str, end: Ran) -> ClientError:
    return ClientError(f"{without_tokens(url)} could not be {what}: {without_secrets(url, end.output)}")


def without_secrets(url: str, text: str) -> str:
    """A text without the tokens of an address."""
    parts = urlsplit(url)
    given = (parts.username or "", parts.password or "")
    return without_tokens(masking({*given, *map(unquote, given)})(text))


async def maybe_run_setup_script(box: BoxClient) -> CmdOutputObservation | ErrorObservation | None:
    """Run the repository's script that sets things up; what it came to, or None if there is none."""
    found = await box.execute(FileReadAction(path=SETUP_SCRIPT))
    if isinstance(found, ErrorObservation):
        return None
    box.report.status(RuntimeStatus.SETTING_UP_WORKSPACE, "Setting up workspace...")
    return await box.execute(setup_action())


def setup_action() -> CmdRunAction:
    """What runs the script, in the shell itself, so that it can leave variables there."""
    return CmdRunAction(
        command=f"chmod +x {SETUP_SCRIPT} && source {SETUP_SCRIPT}",
        blocking=True,
        hidden=True,
        timeout=SETUP_LIMIT,
    )
