"""The OpenHands runtime API, and the two servers that have it: this project's box and the reference."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from benchmarks.connection import parsed
from benchmarks.harness import OWN, REFERENCE
from benchmarks.load import Request
from benchmarks.peers.server import (
    LISTING,
    READ_TEXT,
    Api,
    Peer,
    Server,
    cache_folder,
    find_python_312,
    install_package,
    package_version,
)
from benchmarks.processes import Failed, Unavailable

REFERENCE_VERSION = "0.62.0"
#: What a server is started with that is to run cells; with all plugins of a box that can be chosen by name.
CELL_PLUGINS = ("--plugins", "agent_skills", "jupyter")
ALL_PLUGINS = (*CELL_PLUGINS, "vscode")
_EDITED = "".join(f"line {n:03}\n" for n in range(100)) + "value = A\n"
_VIEW = "".join(f"{n:6}\t{line}\n" for n, line in enumerate(READ_TEXT.splitlines(), 1)).rstrip()
#: Operations of one request that changes nothing: action, arguments within the measures' folder, check.
_QUERIES: Mapping[str, tuple[str, Mapping[str, str], Callable[[Any], bool]]] = {
    "read": ("read", {"path": "read.txt"}, lambda a: (a["observation"], a["content"]) == ("read", READ_TEXT)),
    "view": (
        "read",
        {"path": "read.txt", "impl_source": "oh_aci"},
        lambda a: a["observation"] == "read" and _VIEW in a["content"],
    ),
}


class OpenHandsApi(Api):
    """The OpenHands runtime API. Some operations are only offered by the box."""

    def alive(self) -> Request:
        return self.get("/alive", lambda a: a["status"] == "ok")

    def command(self, text: str) -> Request:
        return self._action("run", {"command": text}, lambda a: a["observation"] == "run", timeout=60)

    def echo(self, text: str, session: str | None = None, **more: object) -> Request:
        args = {"command": f"echo {text}", **({"session": session} if session else {}), **more}

        def is_right(answer: Any) -> bool:
            return bool(answer["content"] == text and answer["extras"]["metadata"]["exit_code"] == 0)

        return self._action("run", args, is_right, timeout=60)

    def session(self, name: str) -> Request:
        return Request(self.site.post("/sessions", {"name": name}), lambda status, _: status == 201)

    def cell(self, code: str, shown: str, timeout: float = 60) -> Request:
        args = {"code": code, "include_extra": False}
        right = ("run_ipython", shown)
        return self._action(
            "run_ipython", args, lambda a: (a["observation"], a["content"]) == right, timeout=timeout
        )

    def upload(self, folder: str, name: str, content: bytes) -> tuple[bytes, bytes]:
        return self.site.upload(f"/upload_file?destination={quote(folder)}", name, content)

    def download(self, folder: str) -> bytes:
        return self.site.head("GET", f"/download_files?path={quote(folder)}", more="Connection: close\r\n")

    def script(self, name: str, client: int) -> Sequence[Request]:
        # Different words each time: the answer to the command before is a wrong answer.
        words, numbers = ([f"{word}{client}.{n}1" for n in range(4)] for word in ("hi", ""))
        match name:
            case "alive":
                return [self.alive()]
            case "write":
                return [self._write(f"write{client}.txt", letter * 199 + "\n") for letter in "ab"]
            case "edit":
                return [self._edit(client, "A", "B"), self._edit(client, "B", "A")]
            case "list":
                path = {"path": f"{self.site.folder}/list"}
                return [self.post("/list_files", path, lambda a: a == LISTING)]
            case "run":
                return [self.echo(word) for word in words]
            case "static":
                return [self.echo(word, is_static=True) for word in words]
            case "ipython":
                return [self.cell(f"print({number})", number) for number in numbers]
        action, args, check = _QUERIES[name]
        return [self._action(action, {**args, "path": f"{self.site.folder}/{args['path']}"}, check)]

    def prepare(self, name: str, client: int) -> Sequence[Request]:
        return [self._write(f"edit{client}.txt", _EDITED)] if name == "edit" else ()

    def _action(
        self, name: str, args: Mapping[str, object], check: Callable[[Any], bool], **more: float
    ) -> Request:
        return self.post("/execute_action", {"action": {"action": name, "args": args, **more}}, check)

    def _write(self, name: str, content: str) -> Request:
        path = f"{self.site.folder}/{name}"
        right = ("write", path)
        return self._action(
            "write",
            {"path": path, "content": content},
            lambda a: (a["observation"], a["extras"]["path"]) == right,
        )

    def _edit(self, client: int, old: str, new: str) -> Request:
        path = f"{self.site.folder}/edit{client}.txt"
        args = {"path": path, "command": "str_replace"}
        args |= {"old_str": f"value = {old}", "new_str": f"value = {new}"}

        def is_right(answer: Any) -> bool:
            is_edited = answer["content"].startswith(f"The file {path} has been edited.")
            return is_edited and f"\n+value = {new}" in answer["extras"]["diff"]

        return self._action("edit", args, is_right)


class GloveboxApi(OpenHandsApi):
    """What only the box offers: programs without a shell."""

    def execute(self, number: int) -> Request:
        def is_right(answer: Any) -> bool:
            return bool(answer["process"]["exit_code"] == 0 and not answer["stdout"] + answer["stderr"])

        return self.post("/exec", {"argv": ["true"], "tag": str(number)}, is_right)


class Glovebox(Peer):
    """The box of this project, from the environment the benchmark runs in."""

    name = OWN
    api = GloveboxApi
    folder = Path(sys.prefix)

    def __init__(self, *flags: str, bashrc: str = "") -> None:
        self._program, self._flags, self._bashrc = self.folder / "bin" / "glovebox", flags, bashrc

    def install(self) -> None:
        if not self._program.exists():
            raise Failed("glovebox is not installed beside this Python")

    def version(self) -> str:
        return f"glovebox {package_version(self.python, 'glovebox-runtime')}"

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        plain = [str(self._program), "serve", str(port), "--working-dir", str(folder), "--no-enable-browser"]
        return [*plain, *self._flags]

    def environment(self, home: Path, key: str) -> Mapping[str, str]:
        home.mkdir()
        (home / ".bashrc").write_text(self._bashrc)
        return {"SESSION_API_KEY": key}

    def start(self) -> Box:
        return Box(self)


class Box(Server):
    """A box of this project, and its processes."""

    @property
    def server(self) -> psutil.Process:
        return psutil.Process(self.pid)

    @property
    def holder(self) -> psutil.Process:
        for child in self.server.children():
            if any("holder.main" in word for word in child.cmdline()):
                return child
        raise Failed("the box has no holder")

    def shell(self, session: str = "main") -> psutil.Process:
        return psutil.Process(self.get(f"/sessions/{session}")["pid"])

    def get(self, path: str) -> Any:
        status, body = self.exchange(self.site.head("GET", path))
        if status != 200:
            raise Failed(f"GET {path}: HTTP {status}")
        return parsed(body)


@contextmanager
def fresh_box(*flags: str, bashrc: str = "") -> Iterator[Box]:
    """A box that was just started, with its first shell, and has run nothing. Failed: it does not start."""
    with Glovebox(*flags, bashrc=bashrc).start() as box:
        box.wait_alive()
        give_up = time.monotonic() + 30
        while box.get("/sessions/main")["pid"] is None:  # it answers before its shell is ready
            if time.monotonic() > give_up:
                raise Failed("the box has no shell")
            time.sleep(0.01)
        yield box


def fresh(peer: Peer, *flags: str) -> AbstractContextManager[Server]:
    """A fresh box with these flags; of another peer its server as it is."""
    return fresh_box(*flags) if peer.name == OWN else peer.running()


class Reference(Peer):
    """The action execution server of OpenHands, with or without its IPython plugin, without its browser."""

    name = REFERENCE
    api = OpenHandsApi

    def __init__(self, *, is_bare: bool = False) -> None:
        self.is_bare, self.folder = is_bare, cache_folder() / "openhands"

    def install(self) -> None:
        if shutil.which("tmux") is None:
            raise Unavailable("tmux is missing")
        install_package(self.folder, find_python_312, f"openhands-ai=={REFERENCE_VERSION}")

    def version(self) -> str:
        version = package_version(self.python, "openhands-ai")
        kind = "without plugins" if self.is_bare else "with agent_skills and jupyter"
        return f"OpenHands {version}, {kind}, listening on all interfaces while it is measured"

    def command(self, port: int, folder: Path, key: str) -> Sequence[str]:
        """It binds all interfaces and has no option against that."""
        user = "root" if os.getuid() == 0 else os.environ.get("USER", "openhands")
        return [
            *(str(self.python), "-u", "-m", "openhands.runtime.action_execution_server", str(port)),
            *("--working-dir", str(folder), *(() if self.is_bare else CELL_PLUGINS)),
            *("--username", user, "--user-id", str(os.getuid()), "--no-enable-browser"),
        ]

    def environment(self, home: Path, key: str) -> Mapping[str, str]:
        return {
            "SESSION_API_KEY": key,
            "LOCAL_RUNTIME_MODE": "1",
            "SU_TO_USER": "false",
            "OPENHANDS_REPO_PATH": str(home),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # or its start would depend on the network
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }
