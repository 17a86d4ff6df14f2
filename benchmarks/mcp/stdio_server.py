"""An MCP server over standard streams that does as little as possible, with the standard library alone.

The servers that are measured start it. Its one argument tells what it does: `echo` answers everything, `mute`
nothing at all, and `stuck` everything but calls.
"""

from __future__ import annotations

import json
import sys
from typing import Any

_TOOL = {
    "name": "echo",
    "description": "Say the same again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """The result of a request, or an error."""
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        return {
            "result": {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            }
        }
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": [_TOOL]}}
    if method == "tools/call":
        return {"result": {"content": [{"type": "text", "text": params["arguments"]["text"]}]}}
    return {"error": {"code": -32601, "message": f"no {method}"}}


def serve(kind: str) -> None:
    """Answer one line after the other."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        is_silent = kind == "mute" or (kind == "stuck" and message.get("method") == "tools/call")
        if is_silent or "id" not in message or "method" not in message:
            continue
        said = {"jsonrpc": "2.0", "id": message["id"], **answer(message)}
        sys.stdout.buffer.write(json.dumps(said).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
