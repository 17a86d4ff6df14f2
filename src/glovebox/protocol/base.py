"""What every message is: an immutable, typed struct.

An action names the observation that answers it (`Action[FileReadObservation]`), so a type checker
knows what `await executor.execute(FileReadAction(path="a"))` gives. Any action may also be answered
by an `ErrorObservation`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform

import msgspec

#: A value the wire carries along and the box never looks at; the contract does not check its type.
Unchecked = Any


class _MessageMeta(msgspec.StructMeta):
    """Makes the fields of every message keyword-only; msgspec does not inherit that option."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        options.setdefault("kw_only", True)
        return super().__new__(mcls, name, bases, namespace, **options)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Message(msgspec.Struct, metaclass=_MessageMeta, frozen=True):
    """A frozen struct with keyword-only fields."""


class Observation(Message):
    """What an action came to. Every field but `content` travels in `extras`."""

    observation: ClassVar[str]
    #: One line for a person, as `str.format` fills it from this observation.
    message_template: ClassVar[str] = "{0.content}"
    #: Fields that the contract does not know: they travel in `details`, for callers that ask for these.
    extensions: ClassVar[tuple[str, ...]] = ()

    content: str = ""

    @property
    def message(self) -> str:
        return self.message_template.format(self)

    @property
    def success(self) -> bool | None:
        """Whether it worked, for the kinds that carry this on the wire."""
        return None


ObservationT = TypeVar("ObservationT", bound=Observation, covariant=True)


class Action(Message, Generic[ObservationT]):
    """Something an agent wants done. Every field but `timeout` travels in `args`."""

    action: ClassVar[str]
    #: One line for a person, as `str.format` fills it from this action.
    message_template: ClassVar[str] = ""
    #: Arguments that the contract does not know; they are left out unless they say something.
    extensions: ClassVar[tuple[str, ...]] = ()
    #: Whether it can be picked up again when the box was restarted while it ran.
    resumable: ClassVar[bool] = False

    #: The hard limit in seconds; it travels beside `args`.
    timeout: float | None = None

    @property
    def message(self) -> str:
        return self.message_template.format(self)

    @classmethod
    def refused(cls, args: dict[str, Any], problem: str) -> Observation | None:
        """The answer to arguments of a wrong type, for actions whose contract wants an observation.

        `None` means the request as a whole fails.
        """
        return None
