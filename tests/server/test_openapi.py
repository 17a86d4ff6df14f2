"""What `/openapi.json` says is true: answers to generated requests, good and bad, are as described."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.running import RunningBox

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
PATH_ARGUMENTS = ("path", "source", "destination", "cwd")


OPERATIONS = (
    "GET /alive", "GET /server_info", "GET /startup", "POST /execute_action", "POST /list_files",
    "POST /upload_file", "GET /download_files", "GET /vscode/connection_token", "POST /update_mcp_server",
    "GET /docs", "POST /execute_action_stream", "GET /commands/{id}", "GET /commands/{id}/output",
    "POST /commands", "GET /commands", "POST /commands/{id}/wait", "POST /commands/{id}/input",
    "POST /commands/{id}/signal", "GET /sessions", "POST /sessions", "GET /sessions/{name}",
    "DELETE /sessions/{name}", "POST /sessions/{name}/resize", "POST /sessions/{name}/signal",
    "GET /kernels", "POST /kernels", "GET /kernels/{name}", "DELETE /kernels/{name}",
    "POST /kernels/{name}/interrupt", "POST /kernels/{name}/restart", "GET /kernels/{name}/cells/{id}",
    "GET /kernelspecs", "GET /plugins", "GET /plugins/{name}", "POST /plugins/{name}/restart", "GET /metrics",
    "GET /browser", "GET /browser/screenshot", "GET /tools", "POST /tools/call",
    "GET /mcp/servers", "PUT /mcp/servers", "GET /mcp/servers/{name}", "POST /mcp/servers/{name}/restart",
    "GET /mcp/servers/{name}/log", "PUT /mcp/profiles/{name}", "DELETE /mcp/profiles",
    "GET /login", "POST /login/links",
    "GET /files/content", "HEAD /files/content", "PUT /files/content", "GET /files/stat", "GET /files/exists",
    "GET /files/list", "POST /files/mkdir", "POST /files/remove", "POST /files/rename", "POST /files/chmod",
    "GET /files/archive", "PUT /files/archive",
    "POST /exec", "POST /processes", "GET /processes", "GET /processes/{id}", "DELETE /processes/{id}",
    "POST /processes/{id}/wait", "GET /processes/{id}/stdout", "GET /processes/{id}/stderr",
    "GET /processes/{id}/events", "GET /processes/{id}/stream", "POST /processes/{id}/stdin",
    "POST /processes/{id}/signal", "POST /processes/{id}/resize",
    "POST /mcp/messages/", "POST /messages/", "POST /mcp", "DELETE /mcp", "POST /mcp/box", "DELETE /mcp/box",
)  # fmt: skip

#: Answers without an end have tests of their own.
ENDLESS = (
    "GET /events", "GET /files/watch", "GET /metrics/system", "GET /browser/screencast",
    "GET /mcp/sse", "GET /sse", "GET /mcp", "GET /mcp/box",
)  # fmt: skip


def inside(workspace: Path, path: Any) -> Any:
    """A generated path, held below the workspace so that a test cannot harm the machine."""
    if not isinstance(path, str):
        return path
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return os.path.join(workspace, "generated", *parts)


def make_harmless(case: Any, workspace: Path) -> None:
    query = case.query or {}
    for name in ("destination", "path"):
        if name in query:
            query[name] = inside(workspace, query[name])
    if case.path.startswith("/files/") and isinstance(case.body, dict):
        for name in ("path", "source", "target"):
            if name in case.body:
                case.body[name] = inside(workspace, case.body[name])
    if case.path == "/upload_file":
        query.setdefault("destination", str(workspace))
        case.query = query
    if case.path in ("/sessions", "/kernels") and isinstance(case.body, dict) and "name" in case.body:
        case.body["name"] = "main"  # every other name would start a shell or a kernel
    if case.path == "/commands" and isinstance(case.body, dict):
        harmless_command = (("command", "true"), ("session", "main"))
        case.body |= {name: value for name, value in harmless_command if isinstance(case.body.get(name), str)}
    if case.path in ("/update_mcp_server", "/mcp/servers"):
        make_servers_harmless(case.body)
    if case.path in ("/exec", "/processes") and isinstance(case.body, dict):
        program = (("argv", ["true"]), ("shell", "true"), ("cwd", str(workspace)), ("user", ""))
        case.body |= {name: value for name, value in program if isinstance(case.body.get(name), type(value))}
    action: Any = case.body.get("action") if isinstance(case.body, dict) else None
    args = action.get("args") if isinstance(action, dict) else None
    if isinstance(args, dict):
        for name in PATH_ARGUMENTS:
            if name in args:
                args[name] = inside(workspace, args[name])
        if isinstance(args.get("command"), str) and action.get("action") in ("run", "command"):
            args["command"] = "true"
        if action.get("action") in ("browse", "browse_interactive"):  # no test goes to pages elsewhere
            harmless = (("url", "about:blank"), ("browser_actions", "noop(0)"))
            args |= {name: value for name, value in harmless if name in args}
        if action.get("action") == "run_ipython":
            args |= {name: value for name, value in (("code", "1"), ("kernel", "main")) if name in args}


def make_servers_harmless(body: Any) -> None:
    """No generated program is run, and no address called."""
    named = body.get("mcpServers") if isinstance(body, dict) else body
    entries = named.values() if isinstance(named, dict) else named if isinstance(named, list) else ()
    for entry in entries:
        if isinstance(entry, dict):
            harmless = (("command", "true"), ("url", "http://127.0.0.1:9"))
            entry |= {name: value for name, value in harmless if isinstance(entry.get(name), str)}


@pytest.fixture(scope="module")
def operations(full_box: RunningBox) -> Iterator[dict[str, Any]]:
    """Every described operation, by method and path."""
    schema = schemathesis.openapi.from_url(
        f"{full_box.url}/openapi.json", headers={"X-Session-API-Key": full_box.key}
    )
    found: list[Any] = list(schema.get_all_operations())
    yield {operation.ok().label: operation.ok() for operation in found}
    full_box.client.post("/update_mcp_server", json=[])


def test_every_operation_is_tried_below(operations: dict[str, Any]) -> None:
    assert sorted(operations) == sorted((*OPERATIONS, *ENDLESS))


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_endpoint_answers_as_its_description_says(
    name: str, operations: dict[str, Any], full_box: RunningBox
) -> None:
    operation = operations[name]
    good = operation.as_strategy(GenerationMode.POSITIVE)
    takes_something = operation.body or operation.query
    bad = operation.as_strategy(GenerationMode.NEGATIVE) if takes_something else st.nothing()

    @given(good | bad)
    @limits(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    def check(case: Any) -> None:
        make_harmless(case, full_box.workspace)
        response = case.call(headers={"X-Session-API-Key": full_box.key})
        case.validate_response(response, checks=CHECKS)

    check()


def test_every_action_and_observation_is_described(full_box: RunningBox) -> None:
    document = full_box.client.get("/openapi.json").json()
    envelopes = document["components"]["schemas"]
    names = [option["properties"]["action"]["const"] for option in envelopes["ActionEnvelope"]["oneOf"]]
    assert {"run", "read", "write", "edit", "glob", "grep"} <= set(names)
    assert len(names) == len(set(names))
