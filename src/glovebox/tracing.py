"""What belongs to the request that is being handled, wherever its work has got to.

The variables follow the request into the tasks it creates, so they are still there when an action goes on
after its caller has gone.
"""

from __future__ import annotations

from contextvars import ContextVar

#: The id of the request; empty outside of one.
request_id: ContextVar[str] = ContextVar("request_id", default="")
#: Where the caller's trace goes on: the header `traceparent` of W3C Trace Context, unchecked; mostly empty.
traceparent: ContextVar[str] = ContextVar("traceparent", default="")
