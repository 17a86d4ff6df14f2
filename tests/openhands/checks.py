# mypy: disable-error-code="import-not-found"
"""What a stock OpenHands does with a runtime, through its own classes. Runs in OpenHands' interpreter.

Every check returns what it saw; judging that is left to the tests.
"""

from __future__ import annotations

import asyncio
import threading
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openhands.core.config.mcp_config import MCPStdioServerConfig
from openhands.events import EventSource, EventStreamSubscriber
from openhands.events.action import (
    AgentThinkAction,
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
)
from openhands.events.action.mcp import MCPAction
from openhands.events.serialization import event_to_dict
from openhands.integrations.provider import ProviderHandler, ProviderType
from openhands.integrations.service_types import Repository

LIMIT = 60
#: A repository with everything OpenHands looks for in one.
REPOSITORY = r"""
cd "$(mktemp -d)" && mkdir -p acme/demo.git work/.openhands/microagents/knowledge
git init -q --bare acme/demo.git
git config --global url."file://$PWD/".insteadOf https://github.com/
cd work && git init -q -b main && echo one > file.txt
printf 'export SET_UP=yes\ntouch set-up-was-here\n' > .openhands/setup.sh
printf 'echo the hook ran\n' > .openhands/pre-commit.sh
agents=.openhands/microagents
printf '%s\n' --- 'name: repo' --- 'Be kind.' > $agents/repo.md
printf '%s\n' --- 'name: tea' 'triggers:' '- teapot' --- 'Short and stout.' > $agents/knowledge/tea.md
echo 'Old instructions.' > .openhands_instructions
git add -A && git commit -q -m first && git push -q ../acme/demo.git main && git branch -q other
git push -q ../acme/demo.git other && git --git-dir ../acme/demo.git symbolic-ref HEAD refs/heads/main
"""


@dataclass
class Stage:
    """What checks have to work with."""

    runtime: Any
    #: A directory of the host that is theirs.
    folder: Path
    #: An MCP server, and the interpreter in the box that can run it.
    mcp_server: Path
    python: str
    statuses: list[str]

    def seen(self, action: Any) -> dict[str, Any]:
        observation: dict[str, Any] = event_to_dict(self.runtime.run_action(action))
        return observation

    def run(self, command: str, **more: Any) -> dict[str, Any]:
        return self.seen(CmdRunAction(command=command, **more))

    def output(self, command: str) -> str:
        content: str = self.run(command)["content"]
        return content


def shell(stage: Stage) -> object:
    endless = CmdRunAction(command="echo begun; sleep 1000")
    endless.set_hard_timeout(1)
    return {
        "echo": stage.run("echo hello; echo oops >&2"),
        "unknown": stage.run("no_such_command"),
        "kept": [
            stage.run("mkdir -p deep && cd deep && export KEPT=1"),
            stage.run('pwd; echo "$KEPT"; cd ..'),
        ],
        "two": stage.run("echo a\necho b"),
        "late": stage.seen(endless),
        "stopped": stage.run("C-c", is_input=True),
        "after": stage.run("echo again"),
    }


def files(stage: Stage) -> object:
    path = f"{stage.runtime.workspace_root}/notes.txt"
    written = stage.seen(FileWriteAction(path=path, content="one\ntwo\nthree"))
    return {
        "written": written,
        "read": stage.seen(FileReadAction(path=path)),
        "relative": stage.seen(FileReadAction(path="notes.txt")),
        "missing": stage.seen(FileReadAction(path="/no/such/file")),
    }


def editing(stage: Stage) -> object:
    path = f"{stage.runtime.workspace_root}/edited.py"

    def edit(command: str, path: str = path, **more: Any) -> dict[str, Any]:
        return stage.seen(FileEditAction(path=path, command=command, **more))

    return {
        "create": edit("create", file_text="a = 1\nb = 2\n"),
        "again": edit("create", file_text="x"),
        "replace": edit("str_replace", old_str="b = 2", new_str="b = 3"),
        "not there": edit("str_replace", old_str="c = 9", new_str=""),
        "insert": edit("insert", insert_line=1, new_str="between = True"),
        "view": edit("view"),
        "undo": edit("undo_edit"),
        "no text": edit("create", path=f"{path}.new"),
        "content": stage.output(f"cat {path}"),
    }


def notebook(stage: Stage) -> object:
    return {
        "print": stage.seen(IPythonRunCellAction(code="x = 20\nprint(x + 1)")),
        "state": stage.seen(IPythonRunCellAction(code="x * 2")),
        "fails": stage.seen(IPythonRunCellAction(code="1 / 0")),
        "environment": stage.seen(
            IPythonRunCellAction(code="import os; print(os.environ['FOOBAR'])", include_extra=False)
        ),
    }


def transfer(stage: Stage) -> object:
    tree = stage.folder / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "a.txt").write_text("a")
    (tree / "inner/b.bin").write_bytes(bytes(range(256)))
    inside = f"{stage.runtime.workspace_root}/sent"
    stage.runtime.copy_to(str(tree / "a.txt"), inside)
    stage.runtime.copy_to(str(tree), inside, recursive=True)
    archive = stage.runtime.copy_from(inside)
    try:
        with zipfile.ZipFile(archive) as contents:
            back = sorted(name for name in contents.namelist() if not name.endswith("/"))
            same = contents.read("tree/inner/b.bin") == bytes(range(256))
    finally:
        archive.unlink()
    try:
        stage.runtime.copy_to("/no/such/file", inside)
        missing = ""
    except FileNotFoundError as error:
        missing = str(error)
    return {
        "listed": stage.runtime.list_files(inside),
        "nothing": stage.runtime.list_files("/no/such/directory"),
        "back": back,
        "same": same,
        "missing": missing,
    }


def environment(stage: Stage) -> object:
    quoted = 'abc"def'
    stage.runtime.add_env_vars({"quoted": quoted})
    stage.runtime.add_env_vars({})
    return {
        "host": stage.output("echo $FOOBAR"),
        "startup": stage.output("echo $STARTED_WITH"),
        "added": stage.output("echo $QUOTED"),
        "kept": stage.output("grep -c '^export FOOBAR=' ~/.bashrc"),
        "key": stage.output('echo "[$SESSION_API_KEY]"'),
        "identity": stage.output("git config --global user.name; git config --global user.email"),
        "home": stage.output("cd; pwd; cd - > /dev/null"),
    }


class KnownProvider(ProviderHandler):  # type: ignore[misc]
    """Answers for GitHub, which cannot be reached from here; all else is OpenHands' own."""

    async def verify_repo_provider(self, repository: str, *args: Any, **kwargs: Any) -> Repository:
        return Repository(
            id="1", full_name=repository, git_provider=ProviderType.GITHUB, is_public=True, main_branch="main"
        )


def repository(stage: Stage) -> object:
    runtime = stage.runtime
    script = f"{runtime.workspace_root}/make-repository.sh"
    stage.seen(FileWriteAction(path=script, content=REPOSITORY.strip()))
    made = stage.run(f"bash {script} && rm {script}")
    runtime.provider_handler = KnownProvider(runtime.provider_handler.provider_tokens)
    name = asyncio.run(runtime.clone_or_init_repo(None, "acme/demo", None))
    runtime.maybe_run_setup_script()
    runtime.maybe_setup_git_hooks()
    where = f"{runtime.workspace_root}/{name}"
    branch = runtime.get_workspace_branch(name)
    committed = stage.run("git add -A && git commit -m second")
    stage.run("echo two >> file.txt && echo new > new.txt")
    result = {
        "made": made,
        "name": name,
        "branch": branch,
        "remote": stage.output("git remote get-url --no-push origin; git config remote.origin.url"),
        "set up": stage.output('echo "$SET_UP"; ls set-up-was-here'),
        "hook": stage.output("cat .git/hooks/pre-commit"),
        "committed": committed,
        "changes": runtime.get_git_changes(where),
        "diff": runtime.get_git_diff("file.txt", where),
        "microagents": sorted(
            [agent.name, agent.type.value]
            for agent in runtime.get_microagents_from_selected_repo("acme/demo")
        ),
    }
    stage.run(f"cd {runtime.workspace_root}")
    return result


def mcp(stage: Stage) -> object:
    runtime = stage.runtime
    inside = f"{runtime.workspace_root}/mcp-server"
    runtime.copy_to(str(stage.mcp_server), inside)
    server = MCPStdioServerConfig(
        name="scripted", command=stage.python, args=[f"{inside}/{stage.mcp_server.name}"]
    )
    runtime.get_mcp_config([server])
    config = runtime.get_mcp_config([server])
    action = MCPAction(name="echo", arguments={"text": "said"})
    return {
        "sse": [entry.url.removeprefix(runtime.action_execution_server_url) for entry in config.sse_servers],
        "key": [bool(entry.api_key) for entry in config.sse_servers],
        "called": event_to_dict(asyncio.run(runtime.call_tool_mcp(action))),
    }


def events(stage: Stage) -> object:
    """An action that an agent puts on the event stream."""
    stream = stage.runtime.event_stream
    seen: list[dict[str, Any]] = []
    answered = threading.Event()

    def hear(event: Any) -> None:
        if event.source == EventSource.AGENT and getattr(event, "observation", None):
            seen.append(event_to_dict(event))
            answered.set()

    stream.subscribe(EventStreamSubscriber.TEST, hear, "checks")
    try:
        action = CmdRunAction(command="echo from the stream")
        stream.add_event(action, EventSource.AGENT)
        answered.wait(LIMIT)
    finally:
        stream.unsubscribe(EventStreamSubscriber.TEST, "checks")
    return {"seen": seen, "cause": action.id}


def others(stage: Stage) -> object:
    return {
        "thought": stage.seen(AgentThinkAction(thought="hm")),
        "browse": stage.seen(BrowseURLAction(url="http://127.0.0.1:9/")),
        "vscode": stage.runtime.vscode_url,
        "hosts": len(stage.runtime.web_hosts),
        "statuses": stage.statuses,
    }


COMMON = (shell, files, editing, notebook, transfer, environment, repository, mcp, events, others)
