"""What `/openapi.json` says is true: answers to generated requests, good and bad, are as described."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck
from hypothesis import settings as limits
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.running import RunningBox

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
PATH_ARGUMENTS = ("path", "source", "destination", "cwd")


@pytest.fixture
def api(shared_box: RunningBox) -> Any:
    return schemathesis.openapi.from_url(
        f"{shared_box.url}/openapi.json", headers={"X-Session-API-Key": shared_box.key}
    )


schema = schemathesis.pytest.from_fixture("api")


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
    if case.path == "/upload_file":
        query.setdefault("destination", str(workspace))
        case.query = query
    action = case.body.get("action") if isinstance(case.body, dict) else None
    args = action.get("args") if isinstance(action, dict) else None
    if isinstance(args, dict):
        for name in PATH_ARGUMENTS:
            if name in args:
                args[name] = inside(workspace, args[name])
        if isinstance(args.get("command"), str) and action.get("action") == "run":
            args["command"] = "true"


@schema.parametrize()
@limits(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_endpoint_answers_as_its_description_says(case: Any, shared_box: RunningBox) -> None:
    make_harmless(case, shared_box.workspace)
    response = case.call(headers={"X-Session-API-Key": shared_box.key})
    case.validate_response(response, checks=CHECKS)


def test_every_action_and_observation_is_described(shared_box: RunningBox) -> None:
    document = shared_box.client.get("/openapi.json").json()
    envelopes = document["components"]["schemas"]
    names = [option["properties"]["action"]["const"] for option in envelopes["ActionEnvelope"]["oneOf"]]
    assert {"run", "read", "write", "edit", "glob", "grep"} <= set(names)
    assert len(names) == len(set(names))
