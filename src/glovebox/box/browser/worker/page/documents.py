"""The documents of a page: its own and those of its frames, each in reach of a script of ours."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

from playwright.async_api import CDPSession, Page
from playwright.async_api import Error as PlaywrightError

#: The name of the world in which our script runs, where no page's script can see it.
_WORLD = "glovebox"
#: What elements are described with while the accessibility tree is read.
DESCRIPTION = "glovebox"
_FRAMES = ("IFRAME", "FRAME")
#: Numbers of worlds are given anew in every process, so what is called shows that it is the right one.
_CALL = """async function(token, name, ...given) {
  if (globalThis.glovebox?.token !== token) return null;
  return (await globalThis.glovebox[name](...given)) ?? true;
}"""


class FrameOwner(NamedTuple):
    """The element that holds a frame."""

    #: Which of the sessions knows it.
    session: int
    node: int


class Document(NamedTuple):
    """A document, its session, and the element that holds it."""

    frame_id: str
    session: int
    owner: FrameOwner | None


class Marked(NamedTuple):
    """The result of marking a document."""

    marks: list[list[Any]]
    focused: str
    #: The focus is in a frame of the document.
    focus_inside: bool
    visibility: dict[str, float]


class _World(NamedTuple):
    """Where our script is in one document."""

    context: int
    token: str


class Documents:
    """Finds the documents of a page, and runs our script in them."""

    def __init__(self, page: Page, session: CDPSession) -> None:
        self._page = page
        #: The first is the page's own; every frame in a process of its own has another.
        self.sessions = [session]
        self._worlds: dict[tuple[int, str], _World] = {}
        self._installed = itertools.count(1)
        self._main = ""

    async def find(self) -> list[Document]:
        """All documents, parents before their frames."""
        await self.release()
        if len(self._page.frames) == 1:
            if not self._main:  # stays the same as long as the page lives
                tree = await self.sessions[0].send("Page.getFrameTree")
                self._main = tree["frameTree"]["frame"]["id"]
            return [Document(self._main, 0, None)]
        found = await self._local(0, None)
        if len(found) < len(self._page.frames):
            await self._attach_others()
            for index in range(1, len(self.sessions)):
                found += await self._local(index, found)
        return _parents_first(found)

    async def mark(self, document: Document, prefix: str, *, raw: bool) -> Marked:
        """Give the elements of a document their ids."""
        result = await self._call(document, "mark", prefix, DESCRIPTION, raw)
        bid, inside = result["focused"]
        return Marked(result["marks"], bid, inside, result["visibility"])

    async def unmark(self, document: Document) -> None:
        """Remove the marks that are only for the accessibility tree."""
        await self._call(document, "unmark")

    async def bid_of(self, owner: FrameOwner) -> tuple[str, tuple[float, float]] | None:
        """The id of an element that holds a frame, and where its content begins; None if it has none."""
        session = self.sessions[owner.session]
        node = {"backendNodeId": owner.node}
        described = (await session.send("DOM.describeNode", node))["node"]
        attributes = described.get("attributes", [])
        named = dict(zip(attributes[::2], attributes[1::2], strict=False))
        if (
            "bid" not in named or described["nodeName"] not in _FRAMES
        ):  # others, <embed> say, have no ids inside
            return None
        try:
            box = (await session.send("DOM.getBoxModel", node))["model"]["content"]
        except PlaywrightError:  # it is not shown
            return named["bid"], (0.0, 0.0)
        return named["bid"], (box[0], box[1])

    async def release(self) -> None:
        """Detach the sessions of frames, which may have moved to other processes."""
        others = self.sessions[1:]
        del self.sessions[1:]
        self._worlds = {key: world for key, world in self._worlds.items() if key[0] == 0}
        for session in others:
            with contextlib.suppress(PlaywrightError):
                await session.detach()

    async def _local(self, index: int, parents: list[Document] | None) -> list[Document]:
        """The documents that one session reaches."""
        session = self.sessions[index]
        tree = (await session.send("Page.getFrameTree"))["frameTree"]
        top: str = tree["frame"]["id"]
        owner = await self._owner_elsewhere(top, index) if parents is not None else None
        if parents is not None and owner is None:
            return []
        found = [Document(top, index, owner)]
        waiting = list(tree.get("childFrames", ()))
        while waiting:
            branch = waiting.pop(0)
            frame_id = branch["frame"]["id"]
            held = await session.send("DOM.getFrameOwner", {"frameId": frame_id})
            found.append(Document(frame_id, index, FrameOwner(index, held["backendNodeId"])))
            waiting += branch.get("childFrames", ())
        return found

    async def _owner_elsewhere(self, frame_id: str, index: int) -> FrameOwner | None:
        """The element that holds the frame of a session; another session knows it."""
        for other, session in enumerate(self.sessions):
            if other == index:
                continue
            with contextlib.suppress(PlaywrightError):
                held = await session.send("DOM.getFrameOwner", {"frameId": frame_id})
                return FrameOwner(other, held["backendNodeId"])
        return None

    async def _attach_others(self) -> None:
        """Reach the frames that are in processes of their own; the others have no session."""
        context = self._page.context
        frames = [frame for frame in self._page.frames if frame != self._page.main_frame]
        tried = await asyncio.gather(
            *(context.new_cdp_session(frame) for frame in frames), return_exceptions=True
        )
        for session in tried:
            if isinstance(session, CDPSession):
                self.sessions.append(session)
            elif not isinstance(session, PlaywrightError):
                raise session

    async def _call(self, document: Document, function: str, *arguments: object) -> Any:
        """Call a function of our script in a document, and install the script if need be.

        Raises:
            PlaywrightError: the document is gone, or the script fails.
        """
        key = (document.session, document.frame_id)
        session = self.sessions[document.session]
        for last in (False, True):
            world = self._worlds.get(key)
            if world is None:
                world = self._worlds[key] = await self._install(session, document.frame_id)
            given = [{"value": value} for value in (world.token, function, *arguments)]
            try:
                result = await session.send(
                    "Runtime.callFunctionOn",
                    {
                        "functionDeclaration": _CALL,
                        "executionContextId": world.context,
                        "arguments": given,
                        "returnByValue": True,
                        "awaitPromise": True,
                    },
                )
            except PlaywrightError:
                del self._worlds[key]  # the document was replaced
                if last:
                    raise
                continue
            if problem := result.get("exceptionDetails"):
                description = problem.get("exception", {}).get("description", problem.get("text", ""))
                raise PlaywrightError(f"Marking failed: {description}")
            answer = result["result"].get("value")
            if answer is not None:
                return answer
            del self._worlds[key]
        raise PlaywrightError("The document changes too often.")

    async def _install(self, session: CDPSession, frame_id: str) -> _World:
        made = await session.send("Page.createIsolatedWorld", {"frameId": frame_id, "worldName": _WORLD})
        world = _World(made["executionContextId"], f"{frame_id} {next(self._installed)}")
        # A world that is there already keeps what it counts.
        source = f"globalThis.glovebox ||\n{_script()}\nglovebox.token = {json.dumps(world.token)};"
        await session.send("Runtime.evaluate", {"expression": source, "contextId": world.context})
        return world


@functools.cache
def _script() -> str:
    return Path(__file__).with_name("marking.js").read_text("utf-8")


def _parents_first(found: list[Document]) -> list[Document]:
    """Documents of one session are in that order; those of others follow their owners' session."""
    done = {0}
    ordered = [document for document in found if document.session == 0]
    left = {document.session for document in found} - done
    while left:
        ready = [
            index
            for index in sorted(left)
            if any(
                document.session == index and document.owner is not None and document.owner.session in done
                for document in found
            )
        ]
        if not ready:
            break
        for index in ready:
            ordered += [document for document in found if document.session == index]
        done.update(ready)
        left -= set(ready)
    return ordered
