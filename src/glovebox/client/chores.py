"""What takes more than one action: files to and fro, variables, a repository, its microagents, MCP servers.

Each is written as a function over a box. Here they become methods, with the runtime as the box.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from glovebox.client import environment, git, hooks, microagents, repository, transfer
from glovebox.client.asking import Asked
from glovebox.client.drafting import Draft, edit_with_draft
from glovebox.client.linting import Lint
from glovebox.client.mcp import McpConfig, McpServers, StdioServer
from glovebox.client.spec import BoxSpec
from glovebox.protocol.actions import FileEditAction
from glovebox.protocol.observations import ErrorObservation, FileEditObservation


class _Equipped(Asked, Protocol):
    @property
    def spec(self) -> BoxSpec: ...


class _Served(Protocol):
    @property
    def mcp_servers(self) -> McpServers: ...


class Chores:
    """Methods over a runtime."""

    copy_to = transfer.copy_to
    copy_from = transfer.copy_from
    download_to = transfer.download
    list_files = transfer.list_files
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
        await environment.add_env_vars(self, values, jupyter="jupyter" in self.spec.plugins)

    async def setup_initial_env(
        self: _Equipped,
        initial: Mapping[str, str] | None = None,
        *,
        git_user_name: str = environment.GIT_USER_NAME,
        git_user_email: str = environment.GIT_USER_EMAIL,
    ) -> None:
        """Set the first variables, and who git says has made a commit.

        Raises:
            ClientError: a variable could not be set.
        """
        await environment.setup_initial_env(
            self,
            initial or {},
            jupyter="jupyter" in self.spec.plugins,
            git_user_name=git_user_name,
            git_user_email=git_user_email,
        )

    async def get_mcp_config(self: _Served, extra_stdio_servers: Iterable[StdioServer] = ()) -> McpConfig:
        """What an agent connects to: servers at addresses, and the box for all programs together.

        Raises:
            GloveboxError: the box did not take the list.
        """
        return await self.mcp_servers.get_mcp_config(extra_stdio_servers)

    async def edit_with_draft(
        self: Asked, action: FileEditAction, draft: Draft, *, lint: Lint | None = None
    ) -> FileEditObservation | ErrorObservation:
        """Edit a file from a draft: `draft` asks a model for the lines, which are then written.

        `lint` finds mistakes that the edit made; the model is asked to mend these.
        """
        return await edit_with_draft(self, action, draft, lint=lint)
