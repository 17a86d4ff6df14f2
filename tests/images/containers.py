"""Containers of the image, started as others start them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from tests.support.engine import RealEngine
from tests.support.running import wait_until

PORT = 30123
#: What OpenHands starts in its own image, word by word.
STOCK = (
    "/openhands/micromamba/bin/micromamba run -n openhands poetry run "
    f"python -u -m openhands.runtime.action_execution_server {PORT} --working-dir /workspace "
    "--plugins agent_skills jupyter --username openhands --user-id 1000 --no-enable-browser"
).split()
ENVIRONMENT = {
    "port": str(PORT),
    "PYTHONUNBUFFERED": "1",
    "VSCODE_PORT": "40123",
    "APP_PORT_1": "50123",
    "APP_PORT_2": "55123",
    "OPENHANDS_SESSION_ID": "a-session",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
}


class Container:
    """A container that was started."""

    def __init__(self, engine: RealEngine, number: str, port: int, key: str) -> None:
        self._engine = engine
        self.number = number
        headers = {"X-Session-API-Key": key} if key else {}
        self.client = httpx.Client(base_url=self.address(port), headers=headers, timeout=180, trust_env=False)

    def address(self, port: int) -> str:
        """Where a port of it is found."""
        published = self.state()["NetworkSettings"]["Ports"].get(f"{port}/tcp")
        return f"http://127.0.0.1:{published[0]['HostPort']}" if published else "http://127.0.0.1:1"

    def state(self) -> Any:
        """The container, as the engine tells it."""
        return self._engine.ask("GET", f"/containers/{self.number}/json")

    def answers(self) -> bool:
        """Whether the box in it does."""
        try:
            return self.client.get("/alive").status_code == 200
        except httpx.TransportError:
            return False

    def run(self, command: str) -> str:
        """The output of a command in the box, however long it prints nothing."""
        return self.execute("run", command=command, blocking=True)

    def execute(self, action: str, **args: Any) -> str:
        """The content of what the box answers to an action."""
        content: str = self.observe(action, **args)["content"]
        return content

    def observe(self, action: str, **args: Any) -> dict[str, Any]:
        """All of what the box answers to an action."""
        answer = self.client.post("/execute_action", json={"action": {"action": action, "args": args}})
        assert answer.status_code == 200, answer.text
        observation: dict[str, Any] = answer.json()
        return observation

    def exec(self, *command: str) -> int:
        """The status of a program that is started from outside of the box."""
        made = self._engine.ask(
            "POST", f"/containers/{self.number}/exec", body={"Cmd": command, "AttachStdout": True}
        )
        self._engine.ask("POST", f"/exec/{made['Id']}/start", body={"Detach": False})
        wait_until(lambda: not self._engine.ask("GET", f"/exec/{made['Id']}/json")["Running"], what="it")
        status: int = self._engine.ask("GET", f"/exec/{made['Id']}/json")["ExitCode"]
        return status

    def logs(self) -> str:
        """What it has printed, with the bytes in between that say to where."""
        answer = self._engine.ask("GET", f"/containers/{self.number}/logs", stdout="1", stderr="1")
        return str(answer)

    def stop(self) -> int:
        """Its exit status after it was told to stop."""
        self._engine.ask("POST", f"/containers/{self.number}/stop", t="20")
        status: int = self.state()["State"]["ExitCode"]
        return status


@contextlib.contextmanager
def container(
    engine: RealEngine,
    image: str,
    command: Sequence[str] | None = STOCK,
    *,
    ports: Sequence[int] = (PORT,),
    key: str = "",
    **environment: str,
) -> Iterator[Container]:
    """A container as OpenHands makes it, with ports on loopback: the first is the box's.

    With a key the client shows it; without a command it starts as its image says.
    """
    variables = {**ENVIRONMENT, **({"SESSION_API_KEY": key} if key else {}), **environment}
    body: dict[str, Any] = {
        "Image": image,
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "ExposedPorts": {f"{port}/tcp": {} for port in ports},
        "HostConfig": {
            "PortBindings": {f"{port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}] for port in ports}
        },
        "Healthcheck": {"Interval": 1_000_000_000},
    }
    if command is not None:
        body |= {"Entrypoint": [], "Cmd": list(command), "WorkingDir": "/openhands/code/"}
    number = engine.ask("POST", "/containers/create", body=body)["Id"]
    try:
        engine.ask("POST", f"/containers/{number}/start")
        started = Container(engine, number, ports[0], key)
        with started.client:
            yield started
    finally:
        engine.ask("DELETE", f"/containers/{number}", force="1", v="1")
