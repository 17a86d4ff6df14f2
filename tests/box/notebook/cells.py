"""Running cells in a real box, as clients do."""

from __future__ import annotations

import threading
from typing import Any

import httpx

from tests.server.reading import Message, envelope, streaming
from tests.support.running import KEY, RunningBox
from tests.support.waiting import LIMIT


class Cells:
    """A box and one of its kernels."""

    def __init__(self, box: RunningBox, kernel: str = "main") -> None:
        self.box = box
        self.kernel = kernel

    def observation(self, code: str, *, timeout: float | None = None, extra: bool = False) -> dict[str, Any]:
        """What a cell is answered with."""
        args = {"code": code, "include_extra": extra, "kernel": self.kernel}
        return self.box.execute("run_ipython", timeout=timeout, **args)

    def run(self, code: str, *, timeout: float | None = None) -> str:
        """The content of the answer, without the two lines."""
        content: str = self.observation(code, timeout=timeout)["content"]
        return content

    def told(self, code: str) -> list[Message]:
        """The events of a cell."""
        args = {"code": code, "include_extra": False, "kernel": self.kernel}
        with streaming(self.box, envelope("run_ipython", **args)) as told:
            return list(told)

    def detailed(self, code: str) -> tuple[str, str]:
        """The content of the answer, and the id of the cell."""
        body = {
            **envelope("run_ipython", code=code, include_extra=False, kernel=self.kernel),
            "details": True,
        }
        answer = self.box.client.post("/execute_action", json=body).json()
        return answer["content"], answer["details"]["action_id"]

    def record(self, cell_id: str) -> dict[str, Any]:
        """A cell, as it is kept."""
        answer = self.box.client.get(f"/kernels/{self.kernel}/cells/{cell_id}")
        assert answer.status_code == 200, answer.text
        record: dict[str, Any] = answer.json()
        return record

    def info(self) -> dict[str, Any]:
        """The kernel."""
        answer = self.box.client.get(f"/kernels/{self.kernel}")
        assert answer.status_code == 200, answer.text
        info: dict[str, Any] = answer.json()
        return info


class Asking(threading.Thread):
    """A cell that somebody else waits for."""

    def __init__(self, cells: Cells, code: str, timeout: float | None = None) -> None:
        super().__init__(daemon=True)
        self._body = envelope("run_ipython", code=code, include_extra=False, kernel=cells.kernel)
        self._body["action"]["timeout"] = timeout
        self._url = cells.box.url
        self._content = ""
        self.start()

    def run(self) -> None:
        with httpx.Client(
            base_url=self._url, headers={"X-Session-API-Key": KEY}, timeout=60, trust_env=False
        ) as client:
            answer = client.post("/execute_action", json=self._body).json()
            self._content = answer.get("content", answer.get("detail"))

    def content(self) -> str:
        """What it was answered with."""
        self.join(LIMIT)
        assert not self.is_alive(), "the cell was not answered"
        return self._content
