"""Every error Glovebox raises on purpose, each with a code that never changes.

    GloveboxError
    ├── SettingsError          settings_invalid        a flag or variable that cannot be used
    ├── StartupError           startup_failed          the box could not be prepared
    ├── RequestError           request_invalid         the request itself is malformed
    │   ├── InvalidKey         invalid_api_key         the session key is missing or wrong
    │   ├── HostNotAllowed     host_not_allowed        called by a name a web page could own
    │   ├── OriginNotAllowed   origin_not_allowed      called by a web page that may not
    │   ├── NotFound           not_found               no such endpoint
    │   └── MethodNotAllowed   method_not_allowed      the endpoint does not know that method
    ├── ActionError            action_failed           an action could not be carried out
    │   ├── UnknownEvent       unknown_event           neither an action nor anything known
    │   ├── UnknownAction      unknown_action          no action of that name
    │   ├── WrongArguments     wrong_arguments         unknown, missing or mistyped arguments
    │   ├── UnsupportedAction  unsupported_action      known, but nothing here carries it out
    │   └── KeyReused          idempotency_key_reused  the key belongs to another action
    └── TransferError          transfer_failed         an upload or download that was refused
        ├── BadArchive         bad_archive             not a zip, or one that must not be unpacked
        └── TooLarge           too_large               beyond the configured size

Codes travel over the wire (header `X-Glovebox-Error`), class names never do.
"""

from __future__ import annotations

from typing import ClassVar


class GloveboxError(Exception):
    """The root: something went wrong that a caller can be told about."""

    code: ClassVar[str] = "error"

    @property
    def message(self) -> str:
        """What to tell the caller."""
        return str(self)


class SettingsError(GloveboxError):
    """A flag or environment variable has a value that cannot be used."""

    code = "settings_invalid"


class StartupError(GloveboxError):
    """The box could not be prepared, so it must not serve."""

    code = "startup_failed"


class RequestError(GloveboxError):
    """The request is malformed: body, query or headers."""

    code = "request_invalid"


class InvalidKey(RequestError):
    """The session key is missing or wrong."""

    code = "invalid_api_key"


class HostNotAllowed(RequestError):
    """The box was called by a host name that a web page could own."""

    code = "host_not_allowed"


class OriginNotAllowed(RequestError):
    """The request comes from a web page that may not call the box."""

    code = "origin_not_allowed"


class NotFound(RequestError):
    """There is no such endpoint."""

    code = "not_found"


class MethodNotAllowed(RequestError):
    """The endpoint does not know that method."""

    code = "method_not_allowed"


class ActionError(GloveboxError):
    """An action could not be carried out."""

    code = "action_failed"


class UnknownEvent(ActionError):
    """The envelope holds neither an action nor an observation."""

    code = "unknown_event"


class UnknownAction(ActionError):
    """No action has that name."""

    code = "unknown_action"


class WrongArguments(ActionError):
    """An action's arguments are unknown, missing or of the wrong type."""

    code = "wrong_arguments"


class UnsupportedAction(ActionError):
    """The action is known, but nothing in this box carries it out."""

    code = "unsupported_action"


class KeyReused(ActionError):
    """An idempotency key came back with a different action."""

    code = "idempotency_key_reused"


class TransferError(GloveboxError):
    """An upload or download was refused or broke off."""

    code = "transfer_failed"


class BadArchive(TransferError):
    """The archive is not one, or unpacking it would do harm."""

    code = "bad_archive"


class TooLarge(TransferError):
    """The upload is beyond the configured size."""

    code = "too_large"
