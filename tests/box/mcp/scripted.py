"""An MCP server over standard input and output that does what tests ask for.

Without any library, so that it starts in a few milliseconds. Calls are taken in the order of arrival.

    scripted.py [--received FILE] [--gate FILE] [hang | mute | die | noisy | list-once]

`hang` answers nothing, `mute` does not say that it is there, `die` ends at once, `noisy` prints rubbish among
its messages, `list-once` tells its tools only once. Every line that comes in is added to the file
`--received`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from typing import Any

LIMIT = 60.0
RUBBISH = b"Loading ...\n\xff\xfe\x00\n{}\n[1]\nnull\n\n" + b"x" * 300_000 + b"\n"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
STRUCTURE = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
NAMES = (
    "echo", "number", "block", "silent", "image", "structured", "fail", "refuse", "progress", "environment",
    "grow", "spill", "end", "ask", "flood",
)  # fmt: skip

writing = threading.Lock()


def send(message: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    with writing:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


class Refused(Exception):
    """What is answered with an error of the protocol."""


class Server:
    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.names = list(NAMES)
        self.count = 0
        self.listed = 0
        self.cancelled: set[Any] = set()

    def take(self, message: dict[str, Any]) -> None:
        number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "notifications/cancelled":
            self.cancelled.add(params["requestId"])
        if number is None or method is None or self.mode == "hang":
            return
        if method == "ping" and self.mode == "mute":
            return
        if self.mode == "noisy":
            with writing:
                sys.stdout.buffer.write(os.environ.get("CAUSE", "").encode() + b" " + RUBBISH)
                sys.stdout.buffer.flush()
        try:
            result = self.answer(number, method, params)
        except Refused as error:
            code, words = error.args
            send({"id": number, "error": {"code": code, "message": words}})
            return
        if result is not None:
            send({"id": number, "result": result})

    def answer(self, number: Any, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }
        if method == "ping":
            return {}
        if method == "tools/list":
            self.listed += 1
            if self.mode == "list-once" and self.listed > 1:
                return None
            return {"tools": [self.tool(name) for name in self.names]}
        if method == "tools/call":
            return self.call(number, params)
        raise Refused(-32601, f"no such method: {method}")

    def tool(self, name: str) -> dict[str, Any]:
        tool: dict[str, Any] = {
            "name": name, "description": f"does {name}", "inputSchema": {"type": "object"},
        }  # fmt: skip
        return {**tool, "outputSchema": STRUCTURE} if name == "structured" else tool

    def call(self, number: Any, params: dict[str, Any]) -> dict[str, Any] | None:
        name, given = params["name"], params.get("arguments") or {}
        if name == "echo":
            return text(given["text"])
        if name == "number":
            self.count += 1
            return text(json.dumps([given["number"], self.count]))
        if name == "block":
            threading.Thread(target=self.block, args=(number, given["until"]), daemon=True).start()
        elif name == "image":
            return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}
        elif name == "structured":
            return text('{"sum": 5}', structuredContent={"sum": 5})
        elif name == "fail":
            return text("it failed", isError=True)
        elif name == "refuse":
            raise Refused(given.get("code", -32000), "it cannot be done")
        elif name == "progress":
            self.progress(params)
            return text("done")
        elif name == "environment":
            told = {"variables": dict(os.environ), "uid": os.geteuid(), "cwd": os.getcwd()}
            return text(json.dumps(told))
        elif name == "grow":
            self.names.append(given["name"])
            send({"method": "notifications/tools/list_changed"})
            return text("grown")
        elif name == "spill":
            sys.stderr.write(given["text"] * given["times"] + "\nthe end of it\n")
            sys.stderr.flush()
            return text("spilt")
        elif name == "end":
            os._exit(given.get("status", 3))
        elif name == "flood":
            with writing:
                sys.stdout.buffer.write(b"x" * given["size"])
                sys.stdout.buffer.flush()
        elif name == "ask":
            send({"id": "q1", "method": "roots/list"})
            return text("asked")
        elif name != "silent":
            return text(f"{name} was called")
        return None

    def block(self, number: Any, path: str) -> None:
        """Wait for a file; a call that is cancelled meanwhile is not answered."""
        deadline = time.monotonic() + LIMIT
        while not os.path.exists(path) and time.monotonic() < deadline:
            if number in self.cancelled:
                return
            time.sleep(0.005)
        send({"id": number, "result": text("unblocked")})

    def progress(self, params: dict[str, Any]) -> None:
        token = (params.get("_meta") or {}).get("progressToken")
        if token is None:
            return
        for step in (1, 2, 3):
            told = {"progressToken": token, "progress": step, "total": 3, "message": f"step {step}"}
            send({"method": "notifications/progress", "params": told})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "mode", nargs="?", default="", choices=["", "hang", "mute", "die", "noisy", "list-once"]
    )
    parser.add_argument("--received", default=os.devnull)
    parser.add_argument("--gate", default="", help="begin when there is such a file")
    given = parser.parse_args()
    if given.mode == "die":
        sys.exit(f"dying of {os.environ.get('CAUSE', 'nothing')}")
    deadline = time.monotonic() + LIMIT
    while given.gate and not os.path.exists(given.gate) and time.monotonic() < deadline:
        time.sleep(0.005)
    server = Server(given.mode)
    with open(given.received, "a", encoding="utf-8", buffering=1) as received:
        for line in sys.stdin:
            received.write(line)
            server.take(json.loads(line))


if __name__ == "__main__":
    main()
