"""A page as text to read: Markdown, made of a DOM snapshot. No I/O.

A snapshot becomes HTML, which is parsed and laid out anew, and then read by html2text. What a page says is
written into that HTML as it is, and documents inside others are laid out before they are put in: the text has
to be that which BrowserGym and Beautiful Soup lead to, their oddities included.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from html import escape
from importlib import import_module
from typing import Any

from html2text import HTML2Text

from glovebox.box.browser.worker.elements import BID, Snapshot

_etree: Any = import_module("lxml.etree")

_ELEMENT, _TEXT, _CDATA = 1, 3, 4
#: The attributes that html2text looks at.
_READ = ("href", "start", "title")
_PLAIN = re.compile("plaintext", re.IGNORECASE)
_FRAME = re.compile(r"(</?)iframe\b")
_END_OF_ADDED = re.compile(r"</::[^>]*>")


def page_text(snapshot: Snapshot, *, limit: int) -> str:
    """What there is to read on a page. Ends, and says so, after about `limit` characters."""
    documents = snapshot["documents"]
    order = [0]
    for place in order:
        inner = documents[place]["nodes"]["contentDocumentIndex"]["value"]
        order += [child for child in inner if child not in order]
    source = _Source(snapshot["strings"])
    # After a <plaintext>, which has no end, documents inside others are text themselves, attributes and all.
    whole = len(order) > 1 and any(_PLAIN.search(text) for text in snapshot["strings"])
    laid: dict[int, str] = {}
    for place in reversed(order):
        html = _as_before(source.of(documents[place]["nodes"], laid))
        laid[place] = laid_out(html, kept=() if whole and place else _READ)
    return _cut(_read(laid[0], limit), limit)


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


def laid_out(html: str, *, kept: Collection[str] = ()) -> str:
    """HTML as Beautiful Soup lays it out with lxml: each tag and text on a line of its own, indented.

    With `kept`, the sorted names of some attributes, all others are left out.
    """
    layout = _Layout(kept)
    parser = _etree.HTMLParser(target=layout, recover=True)
    # Half of a surrogate pair is no text. Scripts can make one of any string they cut in two.
    parser.feed(html.encode("utf-16", "surrogatepass").decode("utf-16", "replace").removeprefix("\ufeff"))
    parser.close()
    return layout.text()


class _Layout:
    """What a parser of lxml tells its findings to."""

    # fmt: off
    _VOID = frozenset({
        "area", "base", "basefont", "bgsound", "br", "col", "command", "embed", "frame", "hr", "image", "img",
        "input", "isindex", "keygen", "link", "menuitem", "meta", "nextid", "param", "source", "spacer",
        "track", "wbr",
    })
    # fmt: on
    _LITERAL = frozenset({"pre", "textarea"})
    _UNESCAPED = frozenset({"script", "style"})
    #: Most of a very deep document would be indentation, so not all of it gets some.
    _MOST_SPACES = 10_000_000

    def __init__(self, kept: Collection[str]) -> None:
        self._kept = kept
        self._pieces: list[str] = []
        self._words: list[str] = []
        self._open: list[str] = []
        #: How many elements are around the one whose text stays as it is, if there is one.
        self._literal = -1
        #: The start tag of an element that has no end tag if nothing comes before it.
        self._void = ""
        self._spaces = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self._end_words()
        self._fill_void()
        opening = f"<{tag}{self._some(attributes) if self._kept else _all_attributes(tag, attributes)}"
        if tag in self._VOID:
            self._void = opening
        else:
            self._begin(f"{opening}>", literal=tag in self._LITERAL)
        self._open.append(tag)

    def end(self, tag: str) -> None:
        """The element that began last and has not ended ends."""
        self._end_words()
        self._open.pop()
        ending = f"</{tag}>"
        if self._void:
            ending, self._void = f"{self._void}/>", ""
        if self._literal < 0:
            self._pieces += (self._margin(), ending, "\n")
        elif self._literal < len(self._open):
            self._pieces.append(ending)
        else:
            self._pieces += (ending, "\n")
            self._literal = -1

    def data(self, text: str) -> None:
        """A piece of text."""
        self._words.append(text)

    def comment(self, text: str) -> None:
        """A comment, or what is taken for one."""
        self._declare("<!--", text, "-->")

    def pi(self, target: str, data: str | None = None) -> None:
        """A processing instruction."""
        self._declare("<?", f"{target} {data}", ">")

    def doctype(self, name: str | None, public: str | None, system: str | None) -> None:
        """A document type, which texts about HTML contain."""
        ids = "".join(f' "{part}"' for part in (public, system) if part is not None)
        kind = " PUBLIC" if public is not None else " SYSTEM" if ids else ""
        self._declare("<!DOCTYPE ", f"{name or ''}{kind}{ids}", ">\n")

    def close(self) -> None:
        """The end of the document."""
        self._end_words()

    def text(self) -> str:
        """The whole document."""
        return "".join(self._pieces)

    def _some(self, attributes: Mapping[str, str]) -> str:
        return "".join([_quoted(name, attributes[name]) for name in self._kept if name in attributes])

    def _margin(self) -> str:
        depth = len(self._open)
        self._spaces += depth
        return " " * depth if self._spaces <= self._MOST_SPACES else ""

    def _begin(self, tag: str, *, literal: bool) -> None:
        if self._literal >= 0:
            self._pieces.append(tag)
        elif literal:
            self._pieces += (self._margin(), tag)
            self._literal = len(self._open)
        else:
            self._pieces += (self._margin(), tag, "\n")

    def _fill_void(self) -> None:
        """An element that would need no end tag has something in it."""
        if self._void:
            opening, self._void = f"{self._void}>", ""
            tag = self._open.pop()
            self._begin(opening, literal=False)
            self._open.append(tag)

    def _end_words(self) -> None:
        if self._words:
            text = "".join(self._words)
            self._words.clear()
            plain = bool(self._open) and self._open[-1] in self._UNESCAPED
            self._write(text if plain else escape(text, quote=False))

    def _declare(self, prefix: str, text: str, suffix: str) -> None:
        self._end_words()
        if self._literal < 0 and not text.strip(" \n\t\f\r"):
            text = "\n" if "\n" in text else " "
        self._write(f"{prefix}{text}{suffix}")

    def _write(self, text: str) -> None:
        self._fill_void()
        if self._literal >= 0:
            self._pieces.append(text)
        elif text := text.strip():
            self._pieces += (self._margin(), text, "\n")


#: Attributes whose value is a list of words, for all elements and for some.
_LISTS = frozenset({"class", "accesskey", "dropzone"})
_LISTS_OF: Mapping[str, Collection[str]] = {
    "a": ("rel", "rev"),
    "link": ("rel", "rev"),
    "td": ("headers",),
    "th": ("headers",),
    "form": ("accept-charset",),
    "object": ("archive",),
    "area": ("rel",),
    "icon": ("sizes",),
    "iframe": ("sandbox",),
    "output": ("for",),
}
_CHARSET = re.compile(r"((?:^|[\s;])charset=)[^;]*", re.MULTILINE)


def _all_attributes(tag: str, attributes: Mapping[str, str]) -> str:
    """Attributes by name, lists with single spaces; the encoding is what the text is translated to."""
    lists = _LISTS_OF.get(tag, ())
    found: dict[str, str] = {}
    for name, value in attributes.items():
        if name.startswith("{") and "}" in name:
            # It is taken for a namespace.
            name = name.partition("}")[2] or "None"
        found[name] = " ".join(value.split()) if name in _LISTS or name in lists else value
    if tag == "meta":
        if "charset" in found:
            found["charset"] = "utf-8"
        elif found.get("http-equiv", "").lower() == "content-type" and "content" in found:
            found["content"] = _CHARSET.sub(r"\1utf-8", found["content"])
    return "".join([_quoted(name, value) for name, value in sorted(found.items())])


def _quoted(name: str, value: str) -> str:
    value = escape(value, quote=False)
    if '"' not in value:
        return f' {name}="{value}"'
    if "'" not in value:
        return f" {name}='{value}'"
    return f' {name}="{value.replace(chr(34), "&quot;")}"'


#: How much is read before it is checked whether that is enough. A little can become a lot, in lists in lists.
_PIECE = 1 << 13
_BLANKS = re.compile(r"\s{64,}")
_NEEDS_ESCAPE = re.compile(r"[\\.+-]")


class _Reader(HTML2Text):
    """html2text, set up as agents know it, and quicker."""

    def __init__(self) -> None:
        super().__init__(bodywidth=0)
        self.ignore_links = False
        self.ignore_images = True
        self.images_to_alt = True

    def handle_data(self, data: str, entity_char: bool = False) -> None:
        """Text between tags. To escape it takes most of the time, and is rarely needed."""
        plain = entity_char or bool(self.quiet) or not _NEEDS_ESCAPE.search(data)
        if not plain and not self.pre and len(data) > 64:
            # Many blanks are one space in the end, but the square of their number would be spent on them.
            data = _BLANKS.sub(_one_blank, data)
        super().handle_data(data, plain)


def _one_blank(blanks: re.Match[str]) -> str:
    return "\n" if "\n" in blanks[0] else " "


def _read(html: str, limit: int) -> str:
    """The text of a laid-out document; if that is longer than the limit, maybe only the beginning."""
    reader = _Reader()
    at = counted = length = 0
    piece = _PIECE
    while at < len(html) and length <= limit:
        end = html.find("<", at + piece)
        if end < 0:
            end = len(html)
        reader.feed(html[at:end])
        at = end
        length += sum(map(len, reader.outtextlist[counted:]))
        counted = len(reader.outtextlist)
        # A script is looked through from its beginning until its end is there: better in ever longer pieces.
        piece = 2 * piece if reader.rawdata else _PIECE
    text: str = reader.finish()
    return text


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    end = text.rfind("\n", 0, limit + 1)
    if end < limit // 2:
        # The line is very long.
        end = limit
    return f"{text[:end]}\n[... the page goes on; its text is cut after {limit} characters]\n"
