"""A model that says what a script tells it to: the chat completions API of OpenAI on a loopback address."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class ScriptedModel:
    """Answers the n-th request with the n-th tool call; the last one is repeated.

    A call with `after` is made when there is a file of that name.
    """

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        self._calls = calls
        #: The tools that were offered with each request.
        self.offered: list[list[str]] = []

    def complete(self, asked: dict[str, Any]) -> dict[str, Any]:
        number = len(self.offered)
        self.offered.append([tool["function"]["name"] for tool in asked.get("tools", [])])
        call = self._calls[min(number, len(self._calls) - 1)]
        while not Path(call.get("after", "/")).exists():
            time.sleep(0.1)
        function = {"name": call["tool"], "arguments": json.dumps(call["arguments"])}
        tool_call = {"id": f"call_{number}", "type": "function", "function": function}
        message = {"role": "assistant", "content": "", "tool_calls": [tool_call]}
        return {
            "id": f"answer-{number}", "object": "chat.completion", "created": 0, "model": "scripted",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }  # fmt: skip


@contextmanager
def served(model: ScriptedModel) -> Iterator[str]:
    """The address of a server of this model."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(model.complete(asked)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
