"""Errors of this project in the words of OpenHands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from glovebox import errors
from glovebox.openhands import upstream

#: The first that fits. OpenHands shows the text of an *unavailable* runtime to its user, so that is what
#: everything becomes that only the user can put right.
KINDS: tuple[tuple[type[errors.GloveboxError], type[upstream.AgentRuntimeError]], ...] = (
    (errors.DeadlineExceeded, upstream.AgentRuntimeTimeoutError),
    (errors.BoxDied, upstream.AgentRuntimeDisconnectedError),
    (errors.BoxUnreachable, upstream.AgentRuntimeDisconnectedError),
    (errors.NoSuchBox, upstream.AgentRuntimeNotFoundError),
    (errors.NotConnected, upstream.AgentRuntimeNotReadyError),
    (errors.BadImage, upstream.AgentRuntimeBuildError),
    (errors.NoBundle, upstream.AgentRuntimeBuildError),
    (errors.BackendError, upstream.AgentRuntimeUnavailableError),
    (errors.ClientError, upstream.AgentRuntimeUnavailableError),
    (errors.GloveboxError, upstream.AgentRuntimeError),
)


def in_their_words(error: errors.GloveboxError) -> upstream.AgentRuntimeError:
    """The exception that OpenHands expects instead."""
    theirs = next(theirs for ours, theirs in KINDS if isinstance(error, ours))
    return theirs(error.message)


@contextmanager
def translated() -> Iterator[None]:
    """What is raised inside leaves as an exception of OpenHands."""
    try:
        yield
    except errors.GloveboxError as error:
        raise in_their_words(error) from error
