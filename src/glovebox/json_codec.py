"""JSON and plain values as typed messages, in any thread.

msgspec examines a type when it is first used, and crashes if another thread uses that type meanwhile.
So types are examined here, one at a time; lint forbids msgspec's own functions elsewhere.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
#: One per type that was examined.
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


@overload
def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """What decodes JSON of this type."""
    decoder = _decoders.get(kind)
    if decoder is None:
        with _lock:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


def msgpack_decoder(kinds: Any) -> msgspec.msgpack.Decoder[Any]:
    """What decodes MessagePack of this type."""
    json_decoder(kinds)
    return msgspec.msgpack.Decoder(kinds)


@overload
def decode_json(data: bytes | str, kind: type[T]) -> T: ...
@overload
def decode_json(data: bytes | str, kind: Any = Any) -> Any: ...
def decode_json(data: bytes | str, kind: Any = Any) -> Any:
    """The value of this type that the JSON is.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return json_decoder(kind).decode(data)


@overload
def convert(value: Any, kind: type[T], **options: Any) -> T: ...
@overload
def convert(value: Any, kind: Any, **options: Any) -> Any: ...
def convert(value: Any, kind: Any, **options: Any) -> Any:
    """The value of this type that plain dictionaries, lists and texts stand for; options as msgspec's.

    Raises:
        msgspec.ValidationError: they stand for none.
    """
    json_decoder(kind)
    return msgspec.convert(value, kind, **options)
