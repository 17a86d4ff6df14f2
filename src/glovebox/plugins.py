"""For those who write plugins: everything they need, from one place.

`docs/plugins.md` begins with a complete one.
"""

from __future__ import annotations

from glovebox.box.executor import Call
from glovebox.box.plugin import Context, Plugin
from glovebox.box.services import ServiceProcess
from glovebox.errors import ActionError, GloveboxError, PluginFailed
from glovebox.http.endpoints import Endpoint, Parameter, Reply, Socket
from glovebox.http.responses import ErrorBody, json_response
from glovebox.http.sse import Stream, message
from glovebox.protocol.base import Action, Message, Observation
from glovebox.protocol.observations import ErrorObservation

__all__ = [
    "Action",
    "ActionError",
    "Call",
    "Context",
    "Endpoint",
    "ErrorBody",
    "ErrorObservation",
    "GloveboxError",
    "Message",
    "Observation",
    "Parameter",
    "Plugin",
    "PluginFailed",
    "Reply",
    "ServiceProcess",
    "Socket",
    "Stream",
    "json_response",
    "message",
]
