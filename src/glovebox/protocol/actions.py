"""The actions of the OpenHands runtime contract, in its order and with its words."""

from __future__ import annotations

from typing import Any, ClassVar

from glovebox.protocol.base import Action, Observation, Unchecked
from glovebox.protocol.observations import (
    AgentDelegateObservation,
    AgentStateChangedObservation,
    AgentThinkObservation,
    BrowserOutputObservation,
    CmdOutputObservation,
    ErrorObservation,
    FileDownloadObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    IPythonRunCellObservation,
    MCPObservation,
    NullObservation,
    RecallObservation,
    TaskTrackingObservation,
)
from glovebox.protocol.terminal import Limits


class NullAction(Action[NullObservation]):
    """Do nothing."""

    action: ClassVar[str] = "null"
    message_template: ClassVar[str] = "No action"


class CmdRunAction(Action[CmdOutputObservation]):
    """Run a command in a persistent shell, or send input to the running one."""

    action: ClassVar[str] = "run"
    message_template: ClassVar[str] = "Running command: {0.command}"
    resumable: ClassVar[bool] = True
    extensions: ClassVar[tuple[str, ...]] = ("session", "budget", "limits")
    command: str
    is_input: bool = False
    thought: Unchecked = ""
    blocking: bool = False
    is_static: bool = False
    cwd: str | None = None
    hidden: bool = False
    confirmation_state: Unchecked = "confirmed"
    security_risk: Unchecked = -1
    #: The shell to run it in, opened if there is none of that name.
    session: str = "main"
    #: How many characters of output to answer with: head, tail and what is around errors.
    budget: int | None = None
    limits: Limits | None = None

    @classmethod
    def refused(cls, args: dict[str, Any], problem: str) -> Observation:
        """Errors of a command are observations."""
        return ErrorObservation(content=problem)


class IPythonRunCellAction(Action[IPythonRunCellObservation]):
    """Run a cell in the IPython kernel."""

    action: ClassVar[str] = "run_ipython"
    message_template: ClassVar[str] = "Running Python code interactively: {0.code}"
    extensions: ClassVar[tuple[str, ...]] = ("kernel", "cwd")
    code: str
    thought: Unchecked = ""
    include_extra: bool = True
    confirmation_state: Unchecked = "confirmed"
    security_risk: Unchecked = -1
    kernel_init_code: Unchecked = ""
    #: Which kernel; one that does not exist is started.
    kernel: str = "main"
    #: The directory that the kernel follows; by default that of the main shell.
    cwd: str = ""


class BrowseURLAction(Action[BrowserOutputObservation | FileDownloadObservation]):
    """Open a page and read it."""

    action: ClassVar[str] = "browse"
    message_template: ClassVar[str] = "I am browsing the URL: {0.url}"
    url: str
    thought: Unchecked = ""
    security_risk: Unchecked = -1
    return_axtree: bool = False


class BrowseInteractiveAction(Action[BrowserOutputObservation | FileDownloadObservation]):
    """Act on the current page."""

    action: ClassVar[str] = "browse_interactive"
    message_template: ClassVar[str] = "I am interacting with the browser:\n```\n{0.browser_actions}\n```"
    browser_actions: str
    thought: Unchecked = ""
    browsergym_send_msg_to_user: Unchecked = ""
    security_risk: Unchecked = -1
    return_axtree: bool = False


class FileReadAction(Action[FileReadObservation]):
    """Read a file: plainly, or through the editor's `view` (`impl_source: oh_aci`)."""

    action: ClassVar[str] = "read"
    message_template: ClassVar[str] = "Reading file: {0.path}"
    path: str
    start: int = 0
    end: int = -1
    thought: Unchecked = ""
    security_risk: Unchecked = -1
    impl_source: Unchecked = "default"
    view_range: Unchecked = None


class FileWriteAction(Action[FileWriteObservation]):
    """Write lines into a file, replacing all of it or a range."""

    action: ClassVar[str] = "write"
    message_template: ClassVar[str] = "Writing file: {0.path}"
    path: str
    content: str
    start: int | None = 0
    end: int | None = -1
    thought: Unchecked = ""
    security_risk: Unchecked = -1


class FileEditAction(Action[FileEditObservation]):
    """An editor command: view, create, str_replace, insert or undo_edit."""

    action: ClassVar[str] = "edit"
    path: str
    command: Unchecked = ""
    file_text: str | None = None
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | float | str | None = None
    content: Unchecked = ""
    start: Unchecked = 1
    end: Unchecked = -1
    thought: Unchecked = ""
    security_risk: Unchecked = -1
    impl_source: Unchecked = "oh_aci"

    @classmethod
    def refused(cls, args: dict[str, Any], problem: str) -> Observation | None:
        """The editor reports mistyped arguments like any other mistake of its caller, but needs a path."""
        if not isinstance(args.get("path"), str):
            return None
        return FileEditObservation(
            content=f"ERROR:\n{problem}",
            path=args["path"],
            old_content=args.get("old_str"),
            new_content=args.get("new_str"),
            diff="",
        )


class AgentThinkAction(Action[AgentThinkObservation]):
    """Note a thought."""

    action: ClassVar[str] = "think"
    message_template: ClassVar[str] = "I am thinking...: {0.thought}"
    thought: Unchecked = ""


class AgentFinishAction(Action[NullObservation]):
    """The agent is done."""

    action: ClassVar[str] = "finish"
    final_thought: Unchecked = ""
    outputs: dict[str, Any] = {}
    thought: Unchecked = ""

    @property
    def message(self) -> str:
        return str(self.thought) if self.thought else "All done! What's next on the agenda?"


class AgentRejectAction(Action[NullObservation]):
    """The agent will not do it."""

    action: ClassVar[str] = "reject"
    outputs: dict[str, Any] = {}
    thought: Unchecked = ""

    @property
    def message(self) -> str:
        reason = f" Reason: {self.outputs['reason']}" if "reason" in self.outputs else ""
        return f"Task is rejected by the agent.{reason}"


class AgentDelegateAction(Action[AgentDelegateObservation]):
    """Hand a task to another agent."""

    action: ClassVar[str] = "delegate"
    message_template: ClassVar[str] = "I'm asking {0.agent} for help with this task."
    agent: str
    inputs: dict[str, Any]
    thought: Unchecked = ""


class RecallAction(Action[RecallObservation]):
    """Ask for context or knowledge."""

    action: ClassVar[str] = "recall"
    recall_type: str
    query: str = ""
    thought: Unchecked = ""

    @property
    def message(self) -> str:
        return f"Retrieving content for: {self.query[:50]}"


class ChangeAgentStateAction(Action[AgentStateChangedObservation]):
    """Set the agent's state."""

    action: ClassVar[str] = "change_agent_state"
    message_template: ClassVar[str] = "Agent state changed to {0.agent_state}"
    agent_state: str
    thought: Unchecked = ""


class MessageAction(Action[NullObservation]):
    """Say something."""

    action: ClassVar[str] = "message"
    message_template: ClassVar[str] = "{0.content}"
    content: str
    file_urls: list[str] | None = None
    image_urls: list[str] | None = None
    wait_for_response: bool = False
    security_risk: Unchecked = -1


class SystemMessageAction(Action[NullObservation]):
    """The agent's system prompt and tools."""

    action: ClassVar[str] = "system"
    message_template: ClassVar[str] = "{0.content}"
    content: str
    tools: list[Any] | None = None
    openhands_version: str | None = None
    agent_class: str | None = None


class CondensationAction(Action[NullObservation]):
    """Forget some events, given as ids or as a range, perhaps with a summary."""

    action: ClassVar[str] = "condensation"
    forgotten_event_ids: list[int] | None = None
    forgotten_events_start_id: int | None = None
    forgotten_events_end_id: int | None = None
    summary: str | None = None
    summary_offset: int | None = None

    def __post_init__(self) -> None:
        by_range = (self.forgotten_events_start_id is not None, self.forgotten_events_end_id is not None)
        by_ids = self.forgotten_event_ids is not None
        named_once = by_range == ((False, False) if by_ids else (True, True))
        if not named_once or (self.summary is None) != (self.summary_offset is None):
            raise ValueError("Invalid configuration of the optional fields.")

    @property
    def message(self) -> str:
        if self.summary:
            return f"Summary: {self.summary}"
        ids = self.forgotten_event_ids
        if ids is None:
            assert self.forgotten_events_start_id is not None
            assert self.forgotten_events_end_id is not None
            ids = list(range(self.forgotten_events_start_id, self.forgotten_events_end_id + 1))
        return f"Condenser is dropping the events: {ids}."


class CondensationRequestAction(Action[NullObservation]):
    """Ask for a condensation."""

    action: ClassVar[str] = "condensation_request"
    message_template: ClassVar[str] = "Requesting a condensation of the conversation history."


class MCPAction(Action[MCPObservation]):
    """Call a tool of an MCP server."""

    action: ClassVar[str] = "call_tool_mcp"
    message_template: ClassVar[str] = (
        "I am interacting with the MCP server with name:\n```\n{0.name}\n```\n"
        "and arguments:\n```\n{0.arguments}\n```"
    )
    name: str
    arguments: dict[str, Any] = {}
    thought: Unchecked = ""
    security_risk: Unchecked = -1


class TaskTrackingAction(Action[TaskTrackingObservation]):
    """View or replace the agent's list of tasks."""

    action: ClassVar[str] = "task_tracking"
    command: str = "view"
    task_list: list[dict[str, Any]] = []
    thought: Unchecked = ""

    @property
    def message(self) -> str:
        count = len(self.task_list)
        if count == 0:
            return "Clearing the task list."
        return f"Managing {count} task item{'' if count == 1 else 's'}."


class LoopRecoveryAction(Action[NullObservation]):
    """Choose how to get out of a loop."""

    action: ClassVar[str] = "loop_recovery"
    option: int = 1


OPENHANDS_ACTIONS: tuple[type[Action[Any]], ...] = (
    NullAction, CmdRunAction, IPythonRunCellAction, BrowseURLAction, BrowseInteractiveAction, FileReadAction,
    FileWriteAction, FileEditAction, AgentThinkAction, AgentFinishAction, AgentRejectAction,
    AgentDelegateAction, RecallAction, ChangeAgentStateAction, MessageAction, SystemMessageAction,
    CondensationAction, CondensationRequestAction, MCPAction, TaskTrackingAction, LoopRecoveryAction,
)  # fmt: skip
