"""HTML as Beautiful Soup lays it out. No I/O."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping
from html import escape
from importlib import import_module
from typing import Any

_etree: Any = import_module("lxml.etree")


def laid_out(html: str) -> str:
    """HTML as Beautiful Soup lays it out with lxml: each tag and text on a line of its own, indented."""
    layout = _Written()
    parse(html, layout)
    return layout.text()


def parse(html: str, layout: Layout) -> None:
    """Parse HTML with lxml, and tell what is found to a layout."""
    parser = _etree.HTMLParser(target=layout, recover=True)
    # Half of a surrogate pair is no text. Scripts can make one of any string they cut in two.
    parser.feed(html.encode("utf-16", "surrogatepass").decode("utf-16", "replace").removeprefix("\ufeff"))
    parser.close()


class Layout:
    """The target of a parser of lxml: decides where blanks go around tags and texts."""

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

    def __init__(self) -> None:
        self._words: list[str] = []
        self._open: list[str] = []
        #: How many elements are around the one whose text stays as it is, if there is one.
        self._literal = -1
        #: An element that has no end tag if nothing comes before it.
        self._void: tuple[str, Mapping[str, str]] | None = None
        self._spaces = 0

    # What is made of it.

    @property
    def is_done(self) -> bool:
        """Whether the rest of the document does not matter."""
        return False

    @abstractmethod
    def blanks(self, text: str) -> None:
        """The end of a line, or an indentation."""

    @abstractmethod
    def characters(self, text: str, *, plain: bool) -> None:
        """A text, which may be plain to parsers of HTML."""

    @abstractmethod
    def opening(self, tag: str, attributes: Mapping[str, str]) -> None: ...

    @abstractmethod
    def closing(self, tag: str) -> None: ...

    @abstractmethod
    def empty(self, tag: str, attributes: Mapping[str, str]) -> None:
        """The tag of an element without an end tag."""

    @abstractmethod
    def declaration(self, text: str) -> None:
        """A comment, an instruction or a document type."""

    # Called by lxml.

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self.is_done:
            return
        self._end_words()
        self._fill_void()
        if tag in self._VOID:
            self._void = (tag, attributes)
        else:
            self._begin(tag, attributes)
        self._open.append(tag)

    def end(self, tag: str) -> None:
        """The element that began last and has not ended ends."""
        if self.is_done:
            return
        self._end_words()
        self._open.pop()
        self._margin()
        if self._void is not None:
            self.empty(*self._void)
            self._void = None
        else:
            self.closing(tag)
        if self._literal == len(self._open):
            self._literal = -1
        self._line_end()

    def data(self, text: str) -> None:
        self._words.append(text)

    def comment(self, text: str) -> None:
        """A comment, or what is taken for one."""
        self._declare("<!--", text, "-->")

    def pi(self, target: str, data: str | None = None) -> None:
        self._declare("<?", f"{target} {data}", ">")

    def doctype(self, name: str | None, public: str | None, system: str | None) -> None:
        """A document type, which texts about HTML contain."""
        ids = "".join(f' "{part}"' for part in (public, system) if part is not None)
        kind = " PUBLIC" if public is not None else " SYSTEM" if ids else ""
        self._declare("<!DOCTYPE ", f"{name or ''}{kind}{ids}", ">\n")

    def close(self) -> None:
        """The end of the document."""
        self._end_words()

    def _margin(self) -> None:
        if self._literal >= 0:
            return
        depth = len(self._open)
        self._spaces += depth
        if self._spaces <= self._MOST_SPACES:
            self.blanks(" " * depth)

    def _line_end(self) -> None:
        if self._literal < 0:
            self.blanks("\n")

    def _begin(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._margin()
        self.opening(tag, attributes)
        if tag in self._LITERAL and self._literal < 0:
            self._literal = len(self._open)
        self._line_end()

    def _fill_void(self) -> None:
        """An element that would need no end tag has something in it."""
        if self._void is not None:
            void, self._void = self._void, None
            tag = self._open.pop()
            self._begin(*void)
            self._open.append(tag)

    def _end_words(self) -> None:
        if self._words and not self.is_done:
            text = "".join(self._words)
            self._words.clear()
            self._fill_void()
            plain = bool(self._open) and self._open[-1] in self._UNESCAPED
            if self._literal >= 0:
                self.characters(text, plain=plain)
            elif text := text.strip():
                self._margin()
                self.characters(text, plain=plain)
                self._line_end()

    def _declare(self, prefix: str, text: str, suffix: str) -> None:
        if self.is_done:
            return
        self._end_words()
        self._fill_void()
        if self._literal >= 0:
            self.declaration(f"{prefix}{text}{suffix}")
            return
        if not text.strip(" \n\t\f\r"):
            text = "\n" if "\n" in text else " "
        self._margin()
        self.declaration(f"{prefix}{text}{suffix}".strip())
        self._line_end()


class _Written(Layout):
    """A document as text."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []

    def blanks(self, text: str) -> None:
        self._pieces.append(text)

    def characters(self, text: str, *, plain: bool) -> None:
        self._pieces.append(text if plain else escape(text, quote=False))

    def opening(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._pieces.append(f"<{tag}{_attributes(tag, attributes)}>")

    def closing(self, tag: str) -> None:
        self._pieces.append(f"</{tag}>")

    def empty(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._pieces.append(f"<{tag}{_attributes(tag, attributes)}/>")

    def declaration(self, text: str) -> None:
        self._pieces.append(text)

    def text(self) -> str:
        return "".join(self._pieces)


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


def _attributes(tag: str, attributes: Mapping[str, str]) -> str:
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
