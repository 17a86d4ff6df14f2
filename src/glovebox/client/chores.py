"""What takes more than one action: files to and fro, variables, a repository, its microagents, MCP servers.

Each is written as a function over a box. Here they become methods, with the runtime as the box.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from glovebox.client import git, hooks, microagents, repository
from glovebox.client.draft_editor import Draft, edit_with_draft
from glovebox.client.lint import Lint
from glovebox.client.mcp import McpConfig, StartedServers, StdioServerConfig
from glovebox.client.protocols import BoxClient
from glovebox.client.shell import bare_or_quoted, masking, quoted, ran
from glovebox.client.spec import BoxSpec
from glovebox.client.transfer import files
from glovebox.errors import ClientError
from glovebox.protocol.actions import FileEditAction, IPythonRunCellAction
from glovebox.protocol.observations import ErrorObservation, FileEditObservation

log = logging.getLogger(__name__)

GIT_USER_NAME = "openhands"
GIT_USER_EMAIL = "openhands@all-hands.dev"
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)


async def setup_initial_env(
    box: BoxClient,
    initial: Mapping[str, str],
    startup: Mapping[str, str] | None = None,
    *,
    jupyter: bool,
    git_user_name: str = GIT_USER_NAME,
    git_user_email: str = GIT_USER_EMAIL,
) -> None:
    """Give a new box its variables and its git identity.

    Raises:
        ClientError: a variable could not be set.
    """
    await add_env_vars(box, initial, jupyter=jupyter)
    if startup:
        await add_env_vars(box, startup, jupyter=jupyter)
    await set_git_identity(box, git_user_name, git_user_email)


async def set_git_identity(box: BoxClient, name: str = GIT_USER_NAME, email: str = GIT_USER_EMAIL) -> None:
    """Say who commits. A box without git is none the worse, so a failure is only logged."""
    command = (
        f"git config --global user.name {quoted(name)} && git config --global user.email {quoted(email)}"
    )
    done = await ran(box, command)
    if done.exit_code != 0:
        log.warning("Git config command failed: %s", done.output)


async def add_env_vars(box: BoxClient, values: Mapping[str, str], *, jupyter: bool) -> None:
    """Set variables, by their upper-cased names, in the shell, in shells to come, and in the kernel.

    A value arrives exactly as it is given, whatever a shell would make of it. One that `~/.bashrc` exports
    already stays there as it is.

    Raises:
        ClientError: a name cannot be one, or a variable could not be set.
    """
    variables = {_checked(name): value for name, value in values.items()}
    words = {name: quoted(value) for name, value in variables.items()}
    if jupyter:
        await _add_to_kernel(box, variables)
    if not variables:
        return
    await _add(
        box, " ".join(f"export {name}={word};" for name, word in words.items()), variables, "environment"
    )
    await _add(box, " ".join(_kept(*variable) for variable in variables.items()), variables, ".bashrc")


def _checked(name: str) -> str:
    upper = name.upper()
    if not _NAME.fullmatch(upper):
        raise ClientError(
            f"{name!r} cannot name a variable: use letters, digits and underscores, and no digit at first."
        )
    return upper


def _kept(name: str, value: str) -> str:
    """What makes shells to come have the variable; the line itself has quotes, which `echo` would lose."""
    line = quoted(f"export {name}={bare_or_quoted(value)}")
    return f'touch ~/.bashrc; grep -q "^export {name}=" ~/.bashrc || printf "%s\\n" {line} >> ~/.bashrc;'


async def _add(box: BoxClient, command: str, variables: Mapping[str, str], where: str) -> None:
    done = await ran(box, command)
    if done.exit_code != 0:
        raise _failed(variables, where, done.output)


async def _add_to_kernel(box: BoxClient, variables: Mapping[str, str]) -> None:
    # Every JSON string is a Python string, if no character is escaped as two.
    lines = [
        f'os.environ["{name}"] = {json.dumps(value, ensure_ascii=False)}\n'
        for name, value in variables.items()
    ]
    answer = await box.execute(IPythonRunCellAction(code=f"import os\n{''.join(lines)}\n"))
    if isinstance(answer, ErrorObservation):
        raise _failed(variables, "environment", answer.content)


def _failed(variables: Mapping[str, str], where: str, words: str) -> ClientError:
    shown = masking(variables.values())(words)
    return ClientError(f"Failed to add env vars [{', '.join(variables)}] to {where}: {shown}")


class _Equipped(BoxClient, Protocol):
    @property
    def spec(self) -> BoxSpec: ...


class _Served(Protocol):
    @property
    def mcp_servers(self) -> StartedServers: ...


class Chores:
    """Methods over a runtime."""

    copy_to = files.copy_to
    copy_from = files.copy_from
    download_to = files.download
    list_files = files.list_files
    clone_or_init_repo = repository.clone_or_init_repo
    initialize_repository = repository.initialize_repository
    maybe_run_setup_script = repository.maybe_run_setup_script
    maybe_setup_git_hooks = hooks.maybe_setup_git_hooks
    get_git_changes = git.get_git_changes
    get_git_diff = git.get_git_diff
    get_workspace_branch = git.get_workspace_branch
    get_microagents_from_selected_repo = microagents.get_microagents_from_selected_repo

    async def add_env_vars(self: _Equipped, values: Mapping[str, str]) -> None:
        """Set variables in the shell, in shells to come, and in the kernel if there is one.

        Raises:
            ClientError: a name cannot be one, or a variable could not be set.
        """
        await add_env_vars(self, values, jupyter="jupyter" in self.spec.plugins)

    async def setup_initial_env(
        self: _Equipped,
        initial: Mapping[str, str] | None = None,
        *,
        git_user_name: str = GIT_USER_NAME,
        git_user_email: str = GIT_USER_EMAIL,
    ) -> None:
        """Set the first variables, and who git says has made a commit.

        Raises:
            ClientError: a variable could not be set.
        """
        await setup_initial_env(
            self,
            initial or {},
            jupyter="jupyter" in self.spec.plugins,
            git_user_name=git_user_name,
            git_user_email=git_user_email,
        )

    async def get_mcp_config(
        self: _Served, extra_stdio_servers: Iterable[StdioServerConfig] = ()
    ) -> McpConfig:
        """What an agent connects to: servers at addresses, and the box for all programs together.

        Raises:
            GloveboxError: the box did not take the list.
        """
        return await self.mcp_servers.get_mcp_config(extra_stdio_servers)

    async def edit_with_draft(
        self: BoxClient, action: FileEditAction, draft: Draft, *, lint: Lint | None = None
    ) -> FileEditObservation | ErrorObservation:
        """Edit a file from a draft: `draft` asks a model for the lines, which are then written.

        `lint` finds mistakes that the edit made; the model is asked to mend these.
        """
        return await edit_with_draft(self, action, draft, lint=lint)
