"""The git hook that runs a repository's own check before each commit."""

from __future__ import annotations

import logging

from glovebox.client.backend import RuntimeStatus
from glovebox.client.protocols import BoxClient
from glovebox.client.shell import ran
from glovebox.protocol.actions import FileReadAction, FileWriteAction
from glovebox.protocol.observations import ErrorObservation

log = logging.getLogger(__name__)

SCRIPT = ".openhands/pre-commit.sh"
HOOK = ".git/hooks/pre-commit"
KEPT_HOOK = ".git/hooks/pre-commit.local"
MARK = "This hook was installed by OpenHands"
_TEXT = f"""\
#!/bin/bash
# {MARK}
# It calls the pre-commit script in the .openhands directory

if [ -x {SCRIPT} ]; then
    source {SCRIPT}
    exit $?
fi
echo "Warning: {SCRIPT} not found or not executable"
exit 0"""


async def maybe_setup_git_hooks(box: BoxClient) -> bool:
    """Install the hook if the repository has a script for it; whether it did. A failure is only logged."""
    if isinstance(await box.execute(FileReadAction(path=SCRIPT)), ErrorObservation):
        return False
    box.report.status(RuntimeStatus.SETTING_UP_GIT_HOOKS, "Setting up git hooks...")
    log.info("Setting up git hooks...")
    if not await _done(box, "mkdir -p .git/hooks", "Failed to create git hooks directory"):
        return False
    if not await _done(box, f"chmod +x {SCRIPT}", "Failed to make pre-commit script executable"):
        return False
    if not await _kept_own(box):
        return False
    written = await box.execute(FileWriteAction(path=HOOK, content=_TEXT))
    if isinstance(written, ErrorObservation):
        log.error("Failed to write pre-commit hook: %s", written.content)
        return False
    if not await _done(box, f"chmod +x {HOOK}", "Failed to make pre-commit hook executable"):
        return False
    log.info("Git pre-commit hook installed successfully")
    return True


async def _kept_own(box: BoxClient) -> bool:
    """Put a hook that somebody else installed aside, unless there is none; whether that worked."""
    there = await box.execute(FileReadAction(path=HOOK))
    if isinstance(there, ErrorObservation):
        # One that cannot be read as text, a program say, is somebody else's as well.
        if "file not found" in there.content.lower():
            return True
    elif MARK in there.content:
        return True
    log.info("Preserving existing pre-commit hook")
    kept = await _done(box, f"mv {HOOK} {KEPT_HOOK}", "Failed to preserve existing pre-commit hook")
    return kept and await _done(box, f"chmod +x {KEPT_HOOK}", "Failed to make preserved hook executable")


async def _done(box: BoxClient, command: str, complaint: str) -> bool:
    end = await ran(box, command)
    if end.exit_code != 0:
        log.error("%s: %s", complaint, end.output)
    return end.exit_code == 0
