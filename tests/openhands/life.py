# mypy: disable-error-code="import-not-found"
"""How boxes of `GloveboxRuntime` begin, are found again and end. Runs in OpenHands' interpreter."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from openhands.core.config import OpenHandsConfig
from openhands.core.exceptions import AgentRuntimeError
from openhands.events.action import CmdRunAction
from openhands.runtime.impl.action_execution.action_execution_client import ActionExecutionClient
from openhands.utils.async_utils import call_async_from_sync
from tenacity import wait_none

from glovebox.client.spec import BoxSpec
from glovebox.errors import GloveboxError
from glovebox.integrations.openhands.config import Ports, box_name, box_spec, ignored_settings, window_spec

Make = Callable[..., tuple[Any, list[str]]]
LIMIT = 60


def connect(make: Make, **more: Any) -> Any:
    runtime, _ = make(**more)
    call_async_from_sync(runtime.connect, LIMIT)
    return runtime


def attach(make: Make, sid: str) -> Any:
    runtime, _ = make(sid=sid)
    runtime.attach_to_existing = True
    call_async_from_sync(runtime.connect, LIMIT)
    return runtime


def output(runtime: Any, command: str) -> str:
    content: str = runtime.run(CmdRunAction(command=command)).content
    return content


def refused(work: Callable[[], object]) -> list[str]:
    """The classes and the text of the exception."""
    try:
        work()
    except AgentRuntimeError as error:
        return [type(error).__name__, str(error)]
    return []


def one(make: Make) -> object:
    """What a single box goes through."""
    runtime = connect(make, sid="one")
    try:
        return {"guarded": _guarded(runtime), "paused": _paused(runtime), "repeated": _repeated(runtime)}
    finally:
        runtime.close()


def _guarded(runtime: Any) -> list[int]:
    url = f"{runtime.action_execution_server_url}/list_files"
    with httpx.Client(trust_env=False) as client:
        bare = client.post(url, json={})
        keyed = client.post(url, json={}, headers={"X-Session-API-Key": runtime.session_api_key})
    return [bare.status_code, keyed.status_code]


def _paused(runtime: Any) -> str:
    output(runtime, "export HELD=still; touch file")
    runtime.pause()
    runtime.pause()
    runtime.resume()
    return output(runtime, "echo $HELD; ls file")


def _repeated(runtime: Any) -> object:
    """The answer to a command is lost on its way, and OpenHands sends the command again."""
    ActionExecutionClient._send_action_server_request.retry.wait = wait_none()
    request = runtime.session.request
    lost: list[Any] = []

    def losing(method: str, url: str, **more: Any) -> Any:
        answer = request(method, url, **more)
        if url.endswith("/execute_action") and not lost:
            lost.append(answer)
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        return answer

    runtime.session.request = losing
    output(runtime, "echo once >> log")
    return {"lost": len(lost), "log": output(runtime, "cat log")}


def reopened(make: Make) -> object:
    """A conversation of the web interface: closed, opened again, looked at by a second one, deleted."""
    first = connect(make, sid="reopened", headless_mode=False)
    output(first, "echo kept > file")
    first.close()
    first.close()
    second = connect(make, sid="reopened", headless_mode=False)
    third = attach(make, "reopened")
    seen = output(third, "cat file")
    same = third.session_api_key == second.session_api_key
    third.close()
    after = output(second, "echo lives")
    second.close()
    asyncio.run(type(second).delete(second.sid))
    asyncio.run(type(second).delete(second.sid))
    return {
        "seen": seen,
        "same key": same,
        "after the other closed": after,
        "deleted": refused(lambda: attach(make, "reopened")),
    }


def kept(make: Make) -> object:
    """Kept alive: frozen by the first, looked at by the second, left running by the third."""
    first = connect(make, sid="kept", sandbox={"keep_runtime_alive": True})
    pid = output(first, "sleep 1000 & echo $!").splitlines()[-1]
    first.close()
    frozen = becomes(pid, "T")
    second = attach(make, "kept")
    jobs = output(second, "jobs")
    second.close()
    attached = becomes(pid, "S")
    third = connect(make, sid="kept", sandbox={"keep_runtime_alive": True, "pause_closed_runtimes": False})
    third.close()
    left = becomes(pid, "S")
    asyncio.run(type(third).delete(third.sid))
    return {"frozen": frozen, "jobs": jobs, "attached": attached, "left": left, "deleted": becomes(pid, "")}


def becomes(pid: str, state: str) -> bool:
    """Whether a process gets into a state, soon; nothing is the state of one that has ended."""
    deadline = time.monotonic() + 10
    while (now := state_of(pid)) != state and time.monotonic() < deadline:
        time.sleep(0.01)
    return now == state


def state_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0].replace("Z", "")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(make: Make) -> object:
    """A headless run leaves nothing. Nobody has said which backend has boxes, and no engine answers."""
    said = os.environ.pop("GLOVEBOX_BACKEND")
    os.environ["DOCKER_HOST"] = "unix:///nowhere/docker.sock"
    try:
        runtime = connect(make, sid="gone")
        workspace = runtime.workspace_root
        output(runtime, "touch file")
        runtime.close()
        asyncio.run(type(runtime).delete(runtime.sid))
        return {
            "place": str(workspace),
            "workspace": workspace.exists(),
            "attach": refused(lambda: attach(make, "gone")),
            "used": refused(lambda: output(runtime, "true")),
            "impossible": refused(lambda: connect(make, sid="no", sandbox={"volumes": "/tmp:/elsewhere"})),
            "not_isolated": refused(lambda: connect_without_bubblewrap(make)),
        }
    finally:
        os.environ["GLOVEBOX_BACKEND"] = said
        del os.environ["DOCKER_HOST"]


def connect_without_bubblewrap(make: Make) -> None:
    """Nothing isolates a box, and nobody has said that this is meant."""
    path, isolation = os.environ["PATH"], os.environ.pop("GLOVEBOX_ISOLATION")
    os.environ["PATH"] = "/nowhere"
    try:
        connect(make, sid="no")
    finally:
        os.environ.update({"PATH": path, "GLOVEBOX_ISOLATION": isolation})


def died(make: Make) -> object:
    """The server is killed while a command runs: it is the parent of what holds the shell."""
    runtime = connect(make, sid="died")
    kill = "kill -9 $(awk '/^PPid/ {print $2}' /proc/$PPID/status); sleep 1000"
    during = refused(lambda: output(runtime, kill))
    after = refused(lambda: output(runtime, "true"))
    runtime.close()
    return {"during": during, "after": after, "workspace": runtime.workspace_root.exists()}


def wishes(make: Make) -> object:
    """What the configuration comes to, without a box."""
    ports = Ports(vscode=41000, apps=(51000, 56000), with_vscode=True)

    def spec(backend: str = "docker", core: dict[str, Any] | None = None, **sandbox: Any) -> Any:
        config = OpenHandsConfig()
        for name, value in (core or {}).items():
            setattr(config, name, value)
        for name, value in sandbox.items():
            setattr(config.sandbox, name, value)
        made = box_spec(
            config, sid="s", backend=backend, plugins=("jupyter",), env={"A": "1"}, ports=ports, keep=False
        )
        return {name: getattr(made, name) for name in made.__struct_fields__}

    def told(**sandbox: Any) -> str:
        try:
            spec(**sandbox)
        except GloveboxError as error:
            return f"{error.code}: {error}"
        return ""

    def mounts(found: dict[str, Any]) -> Any:
        return [found["workspace"], [[m.source, m.target, m.mode] for m in found["volumes"]]]

    plain = spec()
    return {
        "plain": {name: value for name, value in plain.items() if name != "volumes"},
        "process": {name: value for name, value in spec("process").items() if name != "volumes"},
        "image": spec(runtime_container_image="own:1")["image"],
        "root": [spec(core={"run_as_openhands": False})[name] for name in ("user", "user_id")],
        "mounts": mounts(spec(volumes="/a:/workspace:rw,volume:cache:/cache,/b:/b:ro,/c:/c:overlay")),
        "read only": mounts(spec(volumes="/a:/workspace:ro")),
        "old mount": mounts(spec(core={"workspace_mount_path": "/old"})),
        "network": [spec(use_host_network=True)[name] for name in ("network", "ports")],
        "networks": spec(additional_networks=["one", "two"])["networks"],
        "runtime": spec(remote_runtime_class="gvisor")["runtime"],
        "elsewhere": [
            spec(local_runtime_url="http://host.docker.internal")["publish_address"],
            spec(runtime_binding_address="10.0.0.1")["publish_address"],
        ],
        "vscode": spec(vscode_port=41000)["ports"],
        "evaluation": spec(browsergym_eval_env="browsergym/miniwob x")["arguments"],
        "gpu": told(enable_gpu=True),
        "kwargs": told(docker_runtime_kwargs={"shm_size": "1g"}),
        "deps": told(runtime_extra_deps="pip install numpy"),
        "bad mount": told(volumes="nowhere"),
        "names": [box_name("abc"), box_name("a/b c"), box_name("x" * 80) != box_name("x" * 81)],
    }


def window_wishes(make: Make) -> object:
    """What the configuration comes to for a VS Code window, without one."""

    def spec(**sandbox: Any) -> list[Any]:
        config = OpenHandsConfig()
        for name, value in sandbox.items():
            setattr(config.sandbox, name, value)
        ignored = ignored_settings(config, "vscode")
        try:
            made = window_spec(config, sid="s", env={"a": "1"}, keep=False)
        except GloveboxError as error:
            return [error.code, str(error), ignored]
        default = BoxSpec()
        wished = {name: getattr(made, name) for name in made.__struct_fields__}
        return [{name: it for name, it in wished.items() if it != getattr(default, name)}, ignored]

    return {
        "plain": spec(),
        "workspace": spec(volumes="/home/ada/project:/workspace:rw", runtime_startup_env_vars={"B": "2"}),
        "mounts": spec(volumes="/a:/workspace:rw,/b:/b:ro"),
        "evaluation": spec(browsergym_eval_env="browsergym/miniwob"),
        "ignored": spec(base_container_image="own:1", use_host_network=True, platform="linux/arm64"),
    }


def left_open(make: Make) -> object:
    """Nobody closes it: the end of the interpreter has to."""
    runtime = connect(make, sid="left-open")
    return str(runtime.workspace_root)
