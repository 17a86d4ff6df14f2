"""An MCP server over standard streams that does as little as possible, with the standard library alone.

Its one argument: `echo` answers everything, `mute` nothing at all, and `stuck` everything but calls.
"""

from __future__ import annotations

import json
import sys
from typing import Any

_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_TOOL = {"name": "echo", "description": "Return the text.", "inputSchema": _SCHEMA}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}}
            return {"result": {"protocolVersion": params["protocolVersion"], **about}}
        case "ping":
            return {"result": {}}
        case "tools/list":
            return {"result": {"tools": [_TOOL]}}
        case "tools/call":
            return {"result": {"content": [{"type": "text", "text": params["arguments"]["text"]}]}}
    return {"error": {"code": -32601, "message": f"no {message['method']}"}}


def serve(kind: str) -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        is_silent = kind == "mute" or (kind == "stuck" and message.get("method") == "tools/call")
        if not is_silent and "id" in message and "method" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], **answer(message)}
            sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
