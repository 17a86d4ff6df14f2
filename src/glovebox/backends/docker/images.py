"""The image of a box: chosen, pulled or built."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO
from urllib.parse import quote

from glovebox.backends.docker import wire
from glovebox.backends.docker.engine import Engine, EngineRefused
from glovebox.client.backend import ProgressReport, RuntimeStatus
from glovebox.client.spec import BoxSpec
from glovebox.errors import BadImage, BadSpec
from glovebox.settings.host import HostSettings

log = logging.getLogger(__name__)

#: The project's own image, if it has been built, and its replacement.
OWN_IMAGE = "glovebox:latest"
PLAIN_IMAGE = "debian:stable-slim"
#: The label and the variable of images that have a runtime.
RUNTIME_LABEL = "glovebox.runtime"
RUNTIME_VARIABLE = "GLOVEBOX_RUNTIME=/opt/glovebox"


def has_runtime(image: wire.Image) -> bool:
    """Whether an image brings a runtime of its own."""
    config = image.config or wire.ImageConfig()
    return RUNTIME_LABEL in (config.labels or {}) or RUNTIME_VARIABLE in (config.env or ())


async def prepare_image(
    engine: Engine,
    settings: HostSettings,
    spec: BoxSpec,
    report: ProgressReport,
    *,
    registry_limit: float | None = None,
) -> tuple[str, wire.Image]:
    """The image for a box, by name and as the engine has it.

    A registry has to answer within `registry_limit` seconds; the rest of a pull may take as long as it does.

    Raises:
        BadImage: it is not available, or no box runs in it.
    """
    if spec.build and spec.image:
        raise BadSpec("A box has either an image or a directory to build one from, not both.")
    if spec.build:
        name = await build(engine, spec.build, report)
        return name, _usable(name, await _inspect(engine, name))
    if name := spec.image or settings.image:
        image = await _look(engine, name)
    else:
        name, image = OWN_IMAGE, await _look(engine, OWN_IMAGE)
        if image is None:
            name, image = PLAIN_IMAGE, await _look(engine, PLAIN_IMAGE)
    if image is None:
        await _pull(engine, name, report, registry_limit)
        image = await _inspect(engine, name)
    return name, _usable(name, image)


async def _look(engine: Engine, name: str) -> wire.Image | None:
    """An image as the engine has it, or None if it is not there."""
    try:
        return await _inspect(engine, name)
    except EngineRefused as error:
        if error.status_code == 404:
            return None
        raise BadImage(f"The image {name!r} cannot be used: {error}") from error


async def _inspect(engine: Engine, name: str) -> wire.Image:
    return await engine.get(wire.Image, f"/images/{quote(name)}/json")


def _usable(name: str, image: wire.Image) -> wire.Image:
    if image.os and image.os != "linux":
        raise BadImage(f"The image {name} is for {image.os}; boxes need one for Linux.")
    if image.config and image.config.user not in ("", "0", "root", "0:0", "root:root"):
        log.info(
            "the image %s wants the user %s; the box runs as root, and commands as the spec's user",
            name,
            image.config.user,
        )
    return image


async def _pull(engine: Engine, name: str, report: ProgressReport, registry_limit: float | None) -> None:
    """Pull an image, and report the bytes of its layers."""
    try:
        async with asyncio.timeout(registry_limit) as silence:
            await _follow_pull(engine, name, report, lambda: silence.reschedule(None))
    except TimeoutError as error:
        words = f"its registry did not answer within {registry_limit:g} seconds"
        raise _cannot_pull(engine, name, words) from error
    except EngineRefused as error:
        raise _cannot_pull(engine, name, str(error)) from error
    if await _look(engine, name) is None:
        raise _cannot_pull(engine, name, "the engine broke off")


async def _follow_pull(engine: Engine, name: str, report: ProgressReport, begun: Callable[[], None]) -> None:
    report.status(RuntimeStatus.BUILDING_RUNTIME, f"Pulling {name}...")
    repository, tag = _parts(name)
    layers: dict[str, wire.Detail] = {}
    async for step in engine.steps("/images/create", query={"fromImage": repository, "tag": tag}):
        begun()
        if step.error:
            raise _cannot_pull(engine, name, step.error)
        if step.status == "Downloading" and step.progress and step.progress.total:
            layers[step.id] = step.progress
        elif step.id in layers and step.status in ("Download complete", "Pull complete"):
            total = layers[step.id].total
            layers[step.id] = wire.Detail(current=total, total=total)
        if layers:
            done = sum(layer.current for layer in layers.values())
            report.progress("pull", done, sum(layer.total for layer in layers.values()))


def _parts(name: str) -> tuple[str, str]:
    """Repository and tag, or repository and digest."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    repository, colon, tag = name.rpartition(":")
    if colon and "/" not in tag:  # otherwise it is the port of a registry
        return repository, tag
    return name, "latest"


def _cannot_pull(engine: Engine, name: str, words: str) -> BadImage:
    command = "podman" if engine.is_podman else "docker"
    return BadImage(
        f"The image {name} is not here and cannot be pulled: {words}\n"
        f"Is its name right, and can the engine reach its registry? Try `{command} pull {name}` (after "
        f"`{command} login`, if it is private), or choose an image that `{command} images` lists."
    )


#: `Step 2/5 : RUN make`, as Docker and (in capitals) Podman say it.
STEP = re.compile(r"^step (\d+)/(\d+) ?: (.*)", re.IGNORECASE)
LAST_WORDS = 20
#: The largest context that is kept in memory.
_IN_MEMORY = 4 << 20


async def build(engine: Engine, directory: str, report: ProgressReport) -> str:
    """Build an image from a directory, with the engine's cache; its name.

    Raises:
        BadSpec: there is no Dockerfile.
        BadImage: it cannot be built; the text has the engine's last output.
    """
    root = _absolute(directory)
    tag = f"glovebox-build:{hashlib.sha256(str(root).encode()).hexdigest()[:12]}"
    report.status(RuntimeStatus.BUILDING_RUNTIME, f"Building an image from {root}...")
    words: deque[str] = deque(maxlen=LAST_WORDS)
    query = {"t": tag, "rm": "1", "forcerm": "1"}
    with await asyncio.to_thread(context, root) as archive:
        try:
            async for step in engine.steps("/build", query=query, data=archive, kind="application/x-tar"):
                if step.error:
                    raise _cannot_build(root, words, step.error)
                _report_step(step.stream or step.status, words, report)
        except EngineRefused as error:
            raise _cannot_build(root, words, str(error)) from error
    return tag


def _absolute(directory: str) -> Path:
    return Path(directory).expanduser().absolute()


def _report_step(text: str, words: deque[str], report: ProgressReport) -> None:
    for line in filter(None, (line.rstrip() for line in text.splitlines())):
        words.append(line)
        if match := STEP.match(line):
            number, total = int(match[1]), int(match[2])
            report.status(RuntimeStatus.BUILDING_RUNTIME, f"Step {number}/{total}: {match[3]}")
            report.progress("build", number, total)


def _cannot_build(root: Path, words: deque[str], error: str) -> BadImage:
    said = "\n".join(words)
    return BadImage(f"The image in {root} cannot be built: {error.strip()}\nThe engine's last words:\n{said}")


def context(root: Path) -> IO[bytes]:
    """A directory as the tar that the engine builds from, without what `.dockerignore` names.

    Raises:
        BadSpec: there is no Dockerfile.
    """
    if not (root / "Dockerfile").is_file():
        raise BadSpec(f"There is no Dockerfile in {root}.")
    with ExitStack() as unfinished:
        archive = unfinished.enter_context(tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))
        ignored = Ignored(_lines(root / ".dockerignore"))
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in _files(root, ignored):
                tar.add(root / path, arcname=path, recursive=False)
        archive.seek(0)
        unfinished.pop_all()  # the caller closes it
    return archive


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def _files(root: Path, ignored: Ignored) -> Iterator[str]:
    """Every path below a directory that is not ignored, relative to it, directories first."""
    for directory, directories, files in os.walk(root):
        here = Path(directory).relative_to(root)
        for name in sorted(directories):
            path = (here / name).as_posix()
            if not ignored(path):
                yield path
            elif not ignored.has_exceptions:
                directories.remove(name)  # nothing below it is needed
        for name in sorted(files):
            path = (here / name).as_posix()
            # The engine always needs these two.
            if path in ("Dockerfile", ".dockerignore") or not ignored(path):
                yield path


class Ignored:
    """The rules of a `.dockerignore`."""

    def __init__(self, lines: list[str]) -> None:
        self._rules: list[tuple[bool, re.Pattern[str]]] = []
        for line in (line.strip() for line in lines):
            if line and not line.startswith("#"):
                wanted = line.startswith("!")
                self._rules.append((wanted, _pattern(line.removeprefix("!").strip())))
        self.has_exceptions = any(wanted for wanted, _ in self._rules)

    def __call__(self, path: str) -> bool:
        """Whether a relative path is ignored; the last matching rule decides."""
        ignored = False
        for wanted, pattern in self._rules:
            if pattern.fullmatch(path):
                ignored = not wanted
        return ignored


def _pattern(glob: str) -> re.Pattern[str]:
    """A pattern of `.dockerignore`; it also matches everything below."""
    translated, rest = "", os.path.normpath(glob).lstrip("/")
    while rest:
        if rest.startswith("**/"):
            translated, rest = translated + "(?:.*/)?", rest[3:]
        elif rest.startswith("**"):
            translated, rest = translated + ".*", rest[2:]
        elif rest[0] == "*":
            translated, rest = translated + "[^/]*", rest[1:]
        elif rest[0] == "?":
            translated, rest = translated + "[^/]", rest[1:]
        else:
            translated, rest = translated + re.escape(rest[0]), rest[1:]
    return re.compile(f"{translated}(?:/.*)?", re.DOTALL)
