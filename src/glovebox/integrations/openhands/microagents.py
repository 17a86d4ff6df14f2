"""Microagents: knowledge for agents in a repository, as Markdown files with a YAML header."""

from __future__ import annotations

import asyncio
import logging
import posixpath
import re
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from glovebox.archives.zip_reader import BROKEN, checked_listing
from glovebox.client.runtime import Runtime
from glovebox.client.shell import run_separately
from glovebox.errors import BadArchive, GloveboxError, TransferError
from glovebox.integrations.openhands.repository import Provider, remote_url, run_unattended, without_secrets
from glovebox.protocol.actions import FileReadAction
from glovebox.protocol.base import Message
from glovebox.protocol.observations import ErrorObservation

log = logging.getLogger(__name__)

DIRECTORY = ".openhands/microagents"
LEGACY_FILE = ".openhands_instructions"
LEGACY_NAME = "repo_legacy"
#: Bytes of the largest file that is read.
_LARGEST = 1 << 20
#: A directory of more files is not looked through.
_MOST_FILES = 100_000
_CLONE_LIMIT = 120.0
_HEAD = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*$(.*)", re.DOTALL | re.MULTILINE)

Kind = Literal["repo", "knowledge", "task"]


class MicroagentInput(Message):
    """An input of a task."""

    name: str
    description: str = ""


class Microagent(Message):
    """Knowledge of a repository: always used, triggered by a word, or a task that a word starts."""

    name: str
    type: Kind
    content: str
    #: The path of its file in the box.
    source: str
    triggers: tuple[str, ...] = ()
    inputs: tuple[MicroagentInput, ...] = ()

    def match_trigger(self, message: str) -> str | None:
        """The trigger that a message has in it, if any."""
        lowered = message.lower()
        return next((trigger for trigger in self.triggers if trigger.lower() in lowered), None)


async def get_microagents_from_selected_repo(
    box: Runtime,
    selected_repository: str | None = None,
    *,
    provider: Provider = "github",
    host: str = "",
    token: str = "",
    organisation: bool = False,
) -> list[Microagent]:
    """The microagents of the workspace, or of a repository (`owner/name`) that was cloned into it.

    With `organisation`, those that its owner has for all repositories come first. Unreadable files are
    skipped with a warning.
    """
    root = box.workspace.rstrip("/") or "/"
    found: list[Microagent] = []
    if selected_repository:
        root = posixpath.join(root, posixpath.basename(selected_repository.rstrip("/")))
        if organisation:
            url = organisation_url(provider, selected_repository, host=host, token=token)
            found += await load_organisation(box, url, selected_repository.split("/")[0])
    legacy = posixpath.join(root, LEGACY_FILE)
    text = await box.execute(FileReadAction(path=legacy))
    if not isinstance(text, ErrorObservation):
        found.append(Microagent(name=LEGACY_NAME, type="repo", content=text.content, source=legacy))
    return found + await load_directory(box, posixpath.join(root, DIRECTORY))


def organisation_url(provider: Provider, repository: str, *, host: str = "", token: str = "") -> str:
    """The address of an owner's repository of microagents for all repositories."""
    owner = repository.split("/")[0]
    names = {
        "gitlab": f"{owner}/openhands-config",
        "azure_devops": f"{owner}/openhands-config/openhands-config",
    }
    return remote_url(provider, names.get(provider, f"{owner}/.openhands"), host=host, token=token)


async def load_organisation(box: Runtime, url: str, owner: str) -> list[Microagent]:
    """The microagents of an owner's repository. A failure is only logged: most owners have none."""
    clone = posixpath.join(box.workspace, f"org_openhands_{re.sub(r'[^a-zA-Z0-9_.-]', '_', owner)}")
    where = shlex.quote(clone)
    command = f"GIT_TERMINAL_PROMPT=0 git clone --depth 1 {shlex.quote(url)} {where}"
    try:
        cloned = await run_unattended(box, command, limit=_CLONE_LIMIT)
        if cloned.exit_code != 0:
            log.debug("%s has no microagents for all: %s", owner, without_secrets(url, cloned.output))
            return []
        try:
            return await load_directory(box, posixpath.join(clone, "microagents"))
        finally:
            await run_separately(box, f"rm -rf {where}")
    except GloveboxError as error:
        log.debug("%s has no microagents for all: %s", owner, without_secrets(url, str(error)))
        return []


async def load_directory(box: Runtime, path: str) -> list[Microagent]:
    """The microagents below a directory of the box; none if it is missing or cannot be copied."""
    if not await box.list_files(path):
        return []
    try:
        archive = await box.copy_from(path)
    except TransferError as error:
        log.warning("The microagents in %s cannot be had: %s", path, error)
        return []
    try:
        return await asyncio.to_thread(_parse_archive, archive, path)
    except BadArchive as error:
        log.warning("The microagents in %s cannot be had: %s", path, error)
        return []
    finally:
        await asyncio.to_thread(archive.unlink)


def _parse_archive(archive: Path, directory: str) -> list[Microagent]:
    found = []
    try:
        with open(archive, "rb") as file:
            checked_listing(file, _MOST_FILES)
            entries = zipfile.ZipFile(file)
            for name, data in _documents(entries, directory):
                path = posixpath.join(directory, name)
                try:
                    found.append(parse(data.decode(), name.removesuffix(".md"), path))
                except ValueError as error:
                    log.warning("The microagent %s is left out: %s", path, error)
    except BROKEN as error:
        raise BadArchive(f"The archive of the box is damaged: {error}") from error
    return found


def _documents(entries: zipfile.ZipFile, directory: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(entries.infolist(), key=lambda entry: entry.filename):
        name = entry.filename
        if not name.endswith(".md") or posixpath.basename(name) == "README.md":
            continue
        with entries.open(entry) as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            log.warning("The microagent %s is left out: it is too large", posixpath.join(directory, name))
        else:
            yield name, data


def parse(text: str, name: str, source: str) -> Microagent:
    """The microagent in a file.

    Raises:
        ValueError: its header is not valid.
    """
    head, content = _split(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    triggers = _words(head.get("triggers"), "triggers")
    inputs = _inputs(head.get("inputs"))
    kind: Kind = "task" if inputs else "knowledge" if triggers else "repo"
    own = f"/{head.get('name') or posixpath.basename(name)}"
    if inputs and own not in triggers:
        triggers = (*triggers, own)
    return Microagent(name=name, type=kind, content=content, source=source, triggers=triggers, inputs=inputs)


def _split(text: str) -> tuple[dict[str, Any], str]:
    """The header of a file, empty if it has none, and the rest."""
    match = _HEAD.match(text.lstrip())
    if match is None:
        return {}, text.strip()
    try:
        head = msgspec.yaml.decode(match[1])
    except msgspec.DecodeError as error:
        raise ValueError(f"its head is not YAML: {error}") from error
    except RecursionError:
        raise ValueError("its head is nested too deeply") from None
    if head is None:
        head = {}
    if not isinstance(head, dict):
        raise ValueError("its head is not a list of names and values")
    return head, match[2].strip()


# Only one level of a header is read: with aliases, a few lines of YAML can expand beyond any memory.


def _words(value: Any, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(word, str | int | float) for word in value):
        raise ValueError(f"{what} must be a list of words")
    return tuple(str(word) for word in value)


def _inputs(value: Any) -> tuple[MicroagentInput, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError("inputs must be a list")
    inputs = []
    for item in value:
        name = item.get("name") if isinstance(item, dict) else None
        description = item.get("description") or "" if isinstance(item, dict) else ""
        if not isinstance(name, str) or not isinstance(description, str):
            raise ValueError("each of its inputs needs a name and a description")
        inputs.append(MicroagentInput(name=name, description=description))
    return tuple(inputs)
