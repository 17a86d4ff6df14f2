"""An MCP server over standard streams that does as little as possible, with the standard library alone.

Its one argument: `echo`; for tests of the measures, `wrong` answers calls with another text, and `renamed`
has a tool of another name.
"""

from __future__ import annotations

import json
import sys
from typing import Any

_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_TOOL = {"name": "echo", "description": "Return the text.", "inputSchema": _SCHEMA}


def answer(message: dict[str, Any], kind: str) -> dict[str, Any]:
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}}
            return {"result": {"protocolVersion": params["protocolVersion"], **about}}
        case "tools/list":
            return {"result": {"tools": [{**_TOOL, "name": "other"} if kind == "renamed" else _TOOL]}}
        case "tools/call":
            text = "wrong" if kind == "wrong" else params["arguments"]["text"]
            return {"result": {"content": [{"type": "text", "text": text}]}}
    return {"error": {"code": -32601, "message": f"no {message['method']}"}}


def serve(kind: str) -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message and "method" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], **answer(message, kind)}
            sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
