"""BrowserGym in a process of its own, as OpenHands uses it: what the box's browser is compared with."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from glovebox.box.browser.worker.page.markdown import Markdown

#: This is also run as a program of its own, which knows nothing of the other tests.
LIMIT = 60.0


class Observed(NamedTuple):
    """What BrowserGym says of a page after a step."""

    tree: str
    page_text: str
    url: str
    focused: str | None
    error: str
    properties: dict[str, dict[str, Any]]


class Gym:
    """The process, spoken to in lines of JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def step(self, actions: str) -> Observed:
        """Carry out actions, and look at the page."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(actions), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"BrowserGym has ended: exit status {self._process.wait(LIMIT)}"
        return Observed(**json.loads(line))


@contextlib.contextmanager
def running_gym(executable: str) -> Iterator[Gym]:
    """Start BrowserGym with a Chromium, and end it."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__)), executable],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Gym(process)
    finally:
        process.stdin.close()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()


#: It waits half a second after every step, for events that here come sooner.
PAUSE = 0.1


class SilentChat:
    """Stands in for BrowserGym's chat window, which is a browser that takes no executable."""

    def __init__(self, **_options: Any) -> None:
        self.messages: list[dict[str, str]] = []

    def add_message(self, role: str, msg: str) -> None:
        self.messages.append({"role": role, "message": msg})

    def close(self) -> None:
        """There is no window to close."""


def environment(executable: str) -> Any:
    """BrowserGym's environment with the options OpenHands gives it, but without its pauses."""
    import gymnasium

    import_module("browsergym.core")
    module = vars(import_module("browsergym.core.env"))
    module["Chat"] = SilentChat
    module["time"] = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(min(seconds, PAUSE)))
    return gymnasium.make(
        "browsergym/openended",
        task_kwargs={"start_url": "about:blank", "goal": "PLACEHOLDER_GOAL"},
        wait_for_user_message=False,
        headless=True,
        disable_env_checker=True,
        tags_to_mark="all",
        timeout=100000,
        slow_mo=0,
        pw_context_kwargs={"accept_downloads": True},
        pw_chromium_kwargs={"executable_path": executable},
    )


def read_as_before(html: str) -> str:
    """HTML that today's libxml2 reads as 2.12 did, with which the contract was made.

    The newer one takes what is in a frame for text, and end tags that begin with a colon for comments.
    """
    return re.sub(r"(</?)iframe\b", r"\1glovebox-frame", re.sub(r"</::[^>]*>", "", html))


def use_older_reading(module: Any) -> None:
    """Have BrowserGym read HTML so."""
    soup = import_module("bs4").BeautifulSoup
    module.BeautifulSoup = lambda html, parser: soup(read_as_before(html), parser)


class Reader(HTMLParser):
    """Reads HTML with Python's own parser, as html2text does."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.markdown = Markdown()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.markdown.start(tag, {name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        self.markdown.end(tag)

    def handle_data(self, data: str) -> None:
        self.markdown.text(data)

    def handle_entityref(self, name: str) -> None:
        self.markdown.text(unescape(f"&{name};"), is_sign=True)


def as_text(html: str) -> str:
    """A page as OpenHands has it read.

    It keeps one converter for all pages, which then repeats the abbreviations of earlier ones.
    """
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader.markdown.finish()


def main() -> None:
    """Answer every line of actions with a line of what is seen then."""
    flat: Any = import_module("browsergym.utils.obs")
    use_older_reading(flat)
    env = environment(sys.argv[1])
    env.reset()
    for line in sys.stdin:
        seen = env.step(json.loads(line))[0]
        properties = seen["extra_element_properties"]
        observed = Observed(
            tree=flat.flatten_axtree_to_str(
                seen["axtree_object"], extra_properties=properties, with_clickable=True, skip_generic=False
            ),
            page_text=as_text(flat.flatten_dom_to_str(seen["dom_object"])),
            url=seen["url"],
            focused=seen["focused_element_bid"],
            error=seen["last_action_error"],
            properties=properties,
        )
        print(json.dumps(observed._asdict()), flush=True)
    env.close()


if __name__ == "__main__":
    main()
