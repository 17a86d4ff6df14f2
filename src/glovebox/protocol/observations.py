"""The observations of the OpenHands runtime contract."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from glovebox.protocol.base import Message, Observation
from glovebox.protocol.notebook import CellInfo


class ErrorObservation(Observation):
    """The action was understood and could not be done."""

    observation: ClassVar[str] = "error"
    error_id: str = ""


class NullObservation(Observation):
    """Nothing to say."""

    observation: ClassVar[str] = "null"
    message_template: ClassVar[str] = "No observation"


class CmdOutputMetadata(Message):
    """The shell's state after a command; -1 means still running or unknown."""

    exit_code: int = -1
    pid: int = -1
    username: str | None = None
    hostname: str | None = None
    working_dir: str | None = None
    py_interpreter_path: str | None = None
    prefix: str = ""
    suffix: str = ""


class CmdOutputObservation(Observation):
    """The output of a shell command."""

    observation: ClassVar[str] = "run"
    message_template: ClassVar[str] = "Command `{0.command}` executed with exit code {0.metadata.exit_code}."
    command: str
    metadata: CmdOutputMetadata = CmdOutputMetadata()
    hidden: bool = False

    @property
    def success(self) -> bool:
        return self.metadata.exit_code == 0


class IPythonRunCellObservation(Observation):
    """The output of an IPython cell."""

    observation: ClassVar[str] = "run_ipython"
    message_template: ClassVar[str] = "Code executed in IPython cell."
    extensions: ClassVar[tuple[str, ...]] = ("cell",)
    code: str
    image_urls: list[str] | None = None
    #: How the cell ended, and with which exception.
    cell: CellInfo | None = None

    @property
    def success(self) -> bool:
        """Whether the cell did not fail. On the wire it is always true: there, failures are in the text."""
        return self.cell is None or self.cell.status == "ok"


class FileReadObservation(Observation):
    """A file's content."""

    observation: ClassVar[str] = "read"
    message_template: ClassVar[str] = "I read the file {0.path}."
    path: str
    impl_source: str = "default"


class FileWriteObservation(Observation):
    """A file was written."""

    observation: ClassVar[str] = "write"
    message_template: ClassVar[str] = "I wrote to the file {0.path}."
    path: str


class FileEditObservation(Observation):
    """What an editor command came to; `old_content` and `new_content` echo the action's strings."""

    observation: ClassVar[str] = "edit"
    message_template: ClassVar[str] = "I edited the file {0.path}."
    path: str
    prev_exist: bool = False
    old_content: Any = None
    new_content: Any = None
    impl_source: str = "oh_aci"
    diff: str | None = None
    diff_cache: str | None = msgspec.field(default=None, name="_diff_cache")


class BrowserOutputObservation(Observation):
    """A page after a browser action."""

    observation: ClassVar[str] = "browse"
    message_template: ClassVar[str] = "Visited {0.url}"
    url: str
    trigger_by_action: str
    screenshot: str = ""
    screenshot_path: str | None = None
    set_of_marks: str = ""
    error: bool = False
    goal_image_urls: list[str] = []
    open_pages_urls: list[str] = []
    active_page_index: int = -1
    dom_object: dict[str, Any] = {}
    axtree_object: dict[str, Any] = {}
    extra_element_properties: dict[str, Any] = {}
    last_browser_action: str = ""
    last_browser_action_error: str = ""
    focused_element_bid: str = ""
    filter_visible_only: bool = False


class MCPObservation(Observation):
    """The result of an MCP tool, as a JSON text."""

    observation: ClassVar[str] = "mcp"
    name: str = ""
    arguments: dict[str, Any] = {}


class FileDownloadObservation(Observation):
    """A browser action downloaded a file."""

    observation: ClassVar[str] = "download"
    message_template: ClassVar[str] = "Downloaded the file at location: {0.file_path}"
    file_path: str


class AgentThinkObservation(Observation):
    """A thought was noted."""

    observation: ClassVar[str] = "think"


class UserRejectObservation(Observation):
    """The user said no."""

    observation: ClassVar[str] = "user_rejected"


class SuccessObservation(Observation):
    """It worked."""

    observation: ClassVar[str] = "success"


class AgentCondensationObservation(Observation):
    """A summary of forgotten events."""

    observation: ClassVar[str] = "condense"


class AgentDelegateObservation(Observation):
    """What a delegate brought back."""

    observation: ClassVar[str] = "delegate"
    message_template: ClassVar[str] = ""
    outputs: dict[str, Any]


class AgentStateChangedObservation(Observation):
    """The agent's state changed."""

    observation: ClassVar[str] = "agent_state_changed"
    message_template: ClassVar[str] = ""
    agent_state: str
    reason: str = ""


class TaskTrackingObservation(Observation):
    """The agent's list of tasks."""

    observation: ClassVar[str] = "task_tracking"
    command: str
    task_list: list[dict[str, Any]]


class LoopDetectionObservation(Observation):
    """The agent goes in circles."""

    observation: ClassVar[str] = "loop_detection"
    message_template: ClassVar[str] = ""


class MicroagentKnowledge(Message):
    """One piece of knowledge that a trigger brought up."""

    name: str
    trigger: str
    content: str


class RecallObservation(Observation):
    """Context that the agent requested."""

    observation: ClassVar[str] = "recall"
    recall_type: str
    repo_name: str = ""
    repo_directory: str = ""
    repo_branch: str = ""
    repo_instructions: str = ""
    runtime_hosts: dict[str, int] = {}
    additional_agent_instructions: str = ""
    date: str = ""
    custom_secrets_descriptions: dict[str, str] = {}
    conversation_instructions: str = ""
    working_dir: str = ""
    microagent_knowledge: list[MicroagentKnowledge] = []

    @property
    def message(self) -> str:
        return (
            "Added workspace context"
            if self.recall_type == "workspace_context"
            else "Added microagent knowledge"
        )


OBSERVATIONS: tuple[type[Observation], ...] = (
    NullObservation, CmdOutputObservation, IPythonRunCellObservation, BrowserOutputObservation,
    FileReadObservation, FileWriteObservation, FileEditObservation, AgentDelegateObservation,
    SuccessObservation, ErrorObservation, AgentStateChangedObservation, UserRejectObservation,
    AgentCondensationObservation, AgentThinkObservation, RecallObservation, MCPObservation,
    FileDownloadObservation, TaskTrackingObservation, LoopDetectionObservation,
)  # fmt: skip


#: The contract's limit for the output of a command, in characters.
LIMIT = 30_000

NOTICE = "\n[... Observation truncated due to length ...]\n"


def truncate(content: str, limit: int = LIMIT) -> str:
    """The first and the last half of a content that is longer than `limit`, with a notice between."""
    if len(content) <= limit:
        return content
    half = limit // 2
    return content[:half] + NOTICE + content[-half:]
