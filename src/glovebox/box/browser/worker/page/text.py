"""A page as text to read: Markdown, made of a DOM snapshot. No I/O.

A snapshot becomes HTML, which is parsed and read as if it had been laid out anew. What a page says is written
into that HTML as it is, and documents inside others are laid out before they are put in: the text has to be
that which BrowserGym, Beautiful Soup and html2text lead to, their oddities included.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from glovebox.box.browser.worker.page.elements import BID, Snapshot
from glovebox.box.browser.worker.page.html_layout import Layout, laid_out, parse
from glovebox.box.browser.worker.page.markdown import Markdown

_ELEMENT, _TEXT, _CDATA = 1, 3, 4
_FRAME = re.compile(r"(</?)iframe\b")
_END_OF_ADDED = re.compile(r"</::[^>]*>")


def page_text(snapshot: Snapshot, *, limit: int) -> str:
    """The text of a page. It is cut, with a note, after about `limit` characters."""
    documents = snapshot["documents"]
    order = [0]
    for place in order:
        inner = documents[place]["nodes"]["contentDocumentIndex"]["value"]
        order += [child for child in inner if child not in order]
    source = _Source(snapshot["strings"])
    laid: dict[int, str] = {}
    for place in reversed(order[1:]):
        html = _as_before(source.of(documents[place]["nodes"], laid))
        laid[place] = laid_out(html)
    return _cut(_read(_as_before(source.of(documents[0]["nodes"], laid)), limit), limit)


def html_text(html: str) -> str:
    """The text of HTML that Beautiful Soup has laid out."""
    return _read(_as_before(html), sys.maxsize)


class _Source:
    """Writes documents of a snapshot as HTML, without escaping anything."""

    def __init__(self, strings: list[str]) -> None:
        self._strings = strings

    def of(self, nodes: dict[str, Any], inner: Mapping[int, str]) -> str:
        """A document, with those inside it put where they belong."""
        strings, types, values = self._strings, nodes["nodeType"], nodes["nodeValue"]
        parents, held = nodes["parentIndex"], nodes["contentDocumentIndex"]
        documents = dict(zip(held["index"], held["value"], strict=True))
        children: dict[int, list[int]] = {}
        for child, parent in enumerate(parents):
            children.setdefault(parent, []).append(child)
        parts: list[str] = []
        # Nodes to be written, and end tags.
        pending: list[int | str] = [0] if types else []
        while pending:
            node = pending.pop()
            if isinstance(node, str):
                parts.append(node)
                continue
            kind = types[node]
            if kind == _ELEMENT:
                tag = strings[nodes["nodeName"][node]].lower().strip()
                parts.append(f"<{tag}{self._attributes(nodes['attributes'][node])}>")
                pending.append(f"</{tag}>")
            elif kind in (_TEXT, _CDATA) and types[parents[node]] == _ELEMENT and values[node] >= 0:
                text = strings[values[node]]
                parts.append(text if kind == _TEXT else f"<!CDATA[[{text}]]>")
            if node in documents:
                parts.append(inner.get(documents[node], ""))
            pending += reversed(children.get(node, ()))
        return "".join(parts)

    def _attributes(self, pairs: list[int]) -> str:
        """The attributes of an element, given as numbers of names and values in turn. Its id comes first."""
        strings = self._strings
        texts: list[str] = []
        for at in range(0, len(pairs), 2):
            name, value = strings[pairs[at]], pairs[at + 1]
            text = f' {name}="{strings[value]}"' if value >= 0 else f" {name}"
            if name == BID:
                if value >= 0:
                    texts.insert(0, text)
            else:
                texts.append(text)
        return "".join(texts)


def _as_before(html: str) -> str:
    """HTML that is read as it was when the contract was made.

    Newer parsers take what is in a frame for text, and the end tags of what Chromium adds (`::marker`) for
    comments.
    """
    return _FRAME.sub(r"\1glovebox-frame", _END_OF_ADDED.sub("", html))


#: Signs that the contract's reader of HTML reports one by one.
_SIGNS = re.compile(r"([&<>])")


class _Reading(Layout):
    """Reads a document instead of laying it out, up to about so many characters."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.markdown = Markdown()
        self._limit = limit
        self._run: list[str] = []
        #: The run is that of a script or a style, in which signs are like other characters.
        self._run_is_plain = False

    @property
    def is_done(self) -> bool:
        return self.markdown.length > self._limit

    def blanks(self, text: str) -> None:
        self._run.append(text)

    def characters(self, text: str, *, plain: bool) -> None:
        self._run.append(text)
        self._run_is_plain = plain

    def opening(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._read_run()
        self.markdown.start(tag, attributes)

    def closing(self, tag: str) -> None:
        self._read_run()
        self.markdown.end(tag)

    def empty(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.opening(tag, attributes)
        self.markdown.end(tag)

    def declaration(self, text: str) -> None:
        self._read_run()
        if text.endswith("\n"):
            self._run.append("\n")

    def _read_run(self) -> None:
        text = "".join(self._run)
        self._run.clear()
        for piece in [text] if self._run_is_plain else _SIGNS.split(text):
            if piece:
                self.markdown.text(piece, is_sign=piece in "&<>")
        self._run_is_plain = False

    def text(self) -> str:
        self._read_run()
        return self.markdown.finish()


def _read(html: str, limit: int) -> str:
    """The text of a document; if that is longer than the limit, maybe only the beginning."""
    reading = _Reading(limit)
    parse(html, reading)
    return reading.text()


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    end = text.rfind("\n", 0, limit + 1)
    if end < limit // 2:
        # The line is very long.
        end = limit
    return f"{text[:end]}\n[... the page goes on; its text is cut after {limit} characters]\n"
