"""What the parts of a runtime need of it: actions carried out, and endpoints called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from glovebox.client.backend import ProgressReport
from glovebox.protocol.base import Action, ObservationT
from glovebox.protocol.observations import ErrorObservation


class BoxClient(Protocol):
    """A box that can be asked."""

    @property
    def workspace(self) -> str:
        """The path of the workspace, as the box sees it."""

    @property
    def report(self) -> ProgressReport:
        """Hears what is being done."""

    async def execute(self, action: Action[ObservationT]) -> ObservationT | ErrorObservation:
        """What an action came to.

        Raises:
            GloveboxError: it could not be carried out; its class says why.
        """

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        limit: float = 60.0,
    ) -> bytes:
        """The body that an endpoint answers with. `body` is JSON; `limit` is the deadline in seconds.

        Raises:
            GloveboxError: the box refused, or did not answer in time; its class says why.
        """
