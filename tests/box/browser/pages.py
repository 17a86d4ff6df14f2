"""Pages as a box tells of them, and where to find things on them."""

from __future__ import annotations

import re
from typing import Any

from tests.support.running import RunningBox

_WANTED = re.compile(r"<(\w+ '[^>]+)>")
_BID = re.compile(r"\t*\[(\w+)\] ")
_UNNUMBERED = re.compile(r"^\t*(\[\w+\] )?")


class Seen:
    """A page in the answer of a box."""

    def __init__(self, observation: dict[str, Any]) -> None:
        self.observation = observation
        self.kind: str = observation["observation"]
        self.content: str = observation["content"]
        self.extras: dict[str, Any] = observation["extras"]

    @property
    def url(self) -> str:
        return str(self.extras["url"])

    @property
    def error(self) -> str:
        """What went wrong, empty if nothing did."""
        text = str(self.extras["last_browser_action_error"])
        assert bool(text) == self.extras["error"], self.content
        return text

    @property
    def tree(self) -> str:
        """The accessibility tree."""
        return self._between("accessibility tree")

    @property
    def text(self) -> str:
        """The page as text to read."""
        return self._between("webpage content")

    def bid(self, what: str) -> str:
        """The id of the first thing that the tree shows so, such as `button 'Send'`."""
        return bid_of(self.tree, what)

    def _between(self, what: str) -> str:
        _, begun, rest = self.content.partition(f"============== BEGIN {what} ==============\n")
        inner, ended, _ = rest.rpartition(f"\n============== END {what} ==============")
        assert begun, self.content
        assert ended, self.content
        return inner


class Browser:
    """The browser of a box."""

    def __init__(self, box: RunningBox) -> None:
        self.box = box
        self.seen: Seen | None = None

    def act(self, actions: str, **args: Any) -> Seen:
        """Carry out actions. What stands in angle brackets is found on the page: `click(<button 'Send'>)`."""
        if self.seen is not None and _WANTED.search(actions):
            actions = aimed(actions, self.seen.tree)
        seen = Seen(self.box.execute("browse_interactive", browser_actions=actions, **args))
        if seen.kind == "browse":
            self.seen = seen
        return seen

    def go(self, url: str) -> Seen:
        """Open a page that can be opened."""
        seen = self.act(f'goto("{url}")')
        assert not seen.error, seen.content
        return seen

    def read(self, url: str) -> Seen:
        """Open a page as text to read."""
        return Seen(self.box.execute("browse", url=url))


def bid_of(tree: str, what: str) -> str:
    """The id of the first thing that a tree shows so; text has none of its own, but that of what it is in."""
    lines = tree.split("\n")
    found = [at for at, line in enumerate(lines) if _UNNUMBERED.sub("", line).startswith(what)]
    assert found, f"no {what} in\n{tree}"
    depth = _depth(lines[found[0]])
    for line in reversed(lines[: found[0] + 1]):
        if _depth(line) <= depth:
            depth = _depth(line)
            if match := _BID.match(line):
                return match[1]
    raise AssertionError(f"{what} is in nothing that has an id in\n{tree}")


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip("\t"))


def aimed(actions: str, tree: str) -> str:
    """Actions with the ids of the things in angle brackets."""
    return _WANTED.sub(lambda match: f'"{bid_of(tree, match[1])}"', actions)
