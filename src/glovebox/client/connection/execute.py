"""Execution of an action: exactly once, however often the connection breaks."""

from __future__ import annotations

import time
import typing
import uuid
from typing import Any

import msgspec

from glovebox.client.connection.answers import decode, envelope, observation_of
from glovebox.client.connection.http import Connection, deadline
from glovebox.client.connection.retry import Lost, Patience
from glovebox.errors import (
    BadAnswer,
    BoxUnreachable,
    Interrupted,
    KeyReused,
    UnsupportedAction,
    WrongArguments,
)
from glovebox.protocol.actions import AgentThinkAction, CmdRunAction
from glovebox.protocol.base import Action, Message, Observation, ObservationT
from glovebox.protocol.observations import (
    AgentThinkObservation,
    ErrorObservation,
    NullObservation,
    UserRejectObservation,
)
from glovebox.protocol.openhands import encode_action, expected_observations

#: Seconds for the answer beyond the action's own limit.
GRACE_SECONDS = 5.0
BAD_ACTION = "AGENT_ERROR$BAD_ACTION"
#: Actions of the contract that no box executes: notes of the agent to itself.
_NOTES = frozenset({
    "null", "think", "finish", "reject", "delegate", "recall", "change_agent_state", "message", "system",
    "condensation", "condensation_request", "task_tracking", "loop_recovery",
})  # fmt: skip
_REJECTED = "Action has been rejected by the user! Waiting for further user input."
_UNCONFIRMED = "The action awaits confirmation, and was not carried out."
_RESTARTED = (
    "The box was restarted while this action was under way, and whether it took effect is not known. "
    "Look, and send it again."
)


class _ServerInfo(Message):
    uptime: float


def with_limit(action: Action[ObservationT], timeout: float) -> Action[ObservationT]:
    """The action with a time limit: its own, or the given one.

    Raises:
        WrongArguments: it is blocking and has no time limit.
    """
    if action.timeout is not None:
        return action
    if isinstance(action, CmdRunAction) and action.blocking:
        raise WrongArguments("Blocking command with no timeout set")
    return msgspec.structs.replace(action, timeout=timeout)


def client_answer(action: Action[Any]) -> Observation | None:
    """The answer to an action that is not sent to a box, in the contract's words; None for all others."""
    if action.action in _NOTES:
        if isinstance(action, AgentThinkAction):
            return AgentThinkObservation(content="Your thought has been logged.")
        return NullObservation()
    state = getattr(action, "confirmation_state", "confirmed")
    if state == "awaiting_confirmation":
        return NullObservation()
    return UserRejectObservation(content=_REJECTED) if state == "rejected" else None


def typed_client_answer(action: Action[ObservationT]) -> ObservationT | ErrorObservation | None:
    """The same for callers that rely on the type of the answer."""
    answer = client_answer(action)
    if answer is None:
        return None
    if isinstance(answer, expected_observations(type(action))):
        return typing.cast("ObservationT", answer)
    if action.action in _NOTES:
        why = f"Action {action.action} is not supported in the current runtime."
    else:
        why = answer.content or _UNCONFIRMED
    return ErrorObservation(content=why, error_id=BAD_ACTION)


async def execute(
    connection: Connection, action: Action[ObservationT], timeout: float
) -> ObservationT | ErrorObservation:
    """Execute an action.

    Raises:
        GloveboxError: it could not be executed; its class says why.
    """
    answer = typed_client_answer(action)
    if answer is not None:
        return answer
    action = with_limit(action, timeout)
    extended = any(kind.extensions for kind in expected_observations(type(action)))
    order = KeyedRequest(connection, action, details=extended)
    async with deadline(order.limit, too_late(action)):
        while True:
            try:
                body = await connection.once("POST", "/execute_action", body=order.body)
                break
            except Lost as lost:
                await order.again(lost)
    return observation_of(action, envelope(body))


def too_late(action: Action[Any]) -> str:
    """The message for an action that was not answered in time, in the contract's words."""
    return f"Runtime failed to return execute_action before the requested timeout of {action.timeout}s"


class KeyedRequest:
    """A request with an idempotency key: if it is sent again, the box does not execute it again."""

    def __init__(self, connection: Connection, action: Action[Any], *, details: bool = False) -> None:
        assert action.timeout is not None
        #: Seconds until it has to be answered.
        self.limit = action.timeout + GRACE_SECONDS
        self._connection = connection
        self._patience = Patience(connection.patience, time.monotonic() + self.limit)
        self._asked: dict[str, Any] = {"action": encode_action(action)}
        if details:
            self._asked["details"] = True
        self._renew()

    def _renew(self) -> None:
        self._key = uuid.uuid4().hex
        #: Whether the box may have received it, and since when.
        self._sent, self._since = False, time.monotonic()
        self.body = msgspec.json.encode({**self._asked, "idempotency_key": self._key})

    async def again(self, lost: Lost) -> None:
        """Prepare to send `body` again, after a pause.

        Raises:
            Interrupted: the box was restarted and has forgotten the key, so the outcome is unknown.
            BoxUnreachable: the retries are used up, or the box does not know keys.
        """
        self._sent = self._sent or lost.sent
        while True:
            await self._patience.wait(lost)
            if not self._sent:
                self._since = time.monotonic()
                return
            try:
                if not await self._is_known(lost):
                    await self._check_not_forgotten(lost)
                    self._renew()
            except Lost as again:
                lost = again
            else:
                self._patience.reset()
                return

    async def _is_known(self, lost: Lost) -> bool:
        """Whether the box has received the action. If not, it will never accept it under this key."""
        # The key is claimed for an action that no box executes: only a box that knows the key objects.
        claim = msgspec.json.encode({"action": {"action": "null", "args": {}}, "idempotency_key": self._key})
        try:
            await self._connection.once("POST", "/execute_action", body=claim)
        except KeyReused:
            return True
        except UnsupportedAction:
            return False
        except BadAnswer:
            pass
        raise BoxUnreachable(str(lost)) from lost

    async def _check_not_forgotten(self, lost: Lost) -> None:
        """Check that the action never arrived, rather than that it was forgotten."""
        info = decode(await self._connection.once("GET", "/server_info"), _ServerInfo)
        if info.uptime < time.monotonic() - self._since:
            raise Interrupted(_RESTARTED) from lost
