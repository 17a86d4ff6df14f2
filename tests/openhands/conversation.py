# mypy: disable-error-code="import-not-found"
"""A whole conversation of OpenHands: its own loop, its CodeActAgent, and a scripted model.

    python -m tests.openhands.conversation PLAN RESULT

Runs in OpenHands' interpreter. The result has every event of the conversation.
"""

from __future__ import annotations

import asyncio
import json
import sys
import zipfile
from pathlib import Path
from typing import Any


def main(plan_file: str, result_file: str) -> None:
    plan = json.loads(Path(plan_file).read_text())
    sys.path[:0] = plan["paths"]
    from tests.openhands.scripted_model import ScriptedModel, served

    model = ScriptedModel(plan["calls"])
    with served(model) as address:
        result = asyncio.run(converse(plan, address))
    Path(result_file).write_text(json.dumps({**result, "offered": model.offered[0]}, default=str))


async def converse(plan: dict[str, Any], address: str) -> dict[str, Any]:
    from openhands.core.config import load_openhands_config
    from openhands.core.main import run_controller
    from openhands.core.setup import create_agent, create_runtime
    from openhands.events.action import MessageAction
    from openhands.events.serialization import event_to_dict
    from openhands.llm.llm_registry import LLMRegistry
    from openhands.utils.async_utils import call_async_from_sync, call_sync_from_async

    config = load_openhands_config(set_logging_levels=False, config_file=plan["config"])
    config.get_llm_config().base_url = address
    registry = LLMRegistry(config)
    agent = create_agent(config, registry)
    runtime = create_runtime(config, registry, sid=plan["sid"], agent=agent)
    result: dict[str, Any] = {"plugins": [plugin.name for plugin in runtime.plugins]}
    try:
        await call_sync_from_async(call_async_from_sync, runtime.connect, 300)
        await call_sync_from_async(runtime.copy_to, plan["source"], str(runtime.workspace_root))
        task = MessageAction(content="Do what the script says.")
        state = await run_controller(config, task, sid=plan["sid"], runtime=runtime)
        archive = await call_sync_from_async(runtime.copy_from, str(runtime.workspace_root))
        with zipfile.ZipFile(archive) as contents:
            result["copied"] = sorted(contents.namelist())
        archive.unlink()
        result["state"] = str(state.agent_state) if state else "none"
        result["root"] = str(runtime.workspace_root)
        result["events"] = [event_to_dict(event) for event in runtime.event_stream.search_events()]
    finally:
        await call_sync_from_async(runtime.close)
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
