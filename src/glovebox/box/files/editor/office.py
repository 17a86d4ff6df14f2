"""Word, Excel and PowerPoint files as Markdown: the text that is in them, not its looks.

These files are zip archives of XML. Nothing but the standard library is needed to get at the text.
"""

from __future__ import annotations

import codecs
import itertools
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import BinaryIO
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from glovebox.archives.zip_reader import checked_listing
from glovebox.errors import BadArchive

codecs.lookup("cp437")  # of names that are not UTF-8; the sandbox user need not be able to read that module

#: Errors of the converters about damaged or unusual files.
DAMAGED = (BadArchive, zipfile.BadZipFile, ElementTree.ParseError, LookupError, ValueError, OSError, EOFError)

#: A small archive can hold a huge part; what is larger than this is not looked at.
_MAX_PART = 64 * 1024 * 1024
#: Nor are archives of more parts.
_MAX_PARTS = 10_000
#: More of a sheet would not be shown anyway, and empty cells cost nothing in the file but much in memory.
_MAX_ROWS = _MAX_COLUMNS = 1000


def docx(file: BinaryIO) -> str:
    """A Word document: headings, paragraphs, lists and tables."""
    with _opened(file) as archive:
        document = _part(archive, "word/document.xml")
    blocks = [_block(element) for body in _all(document, "body") for element in body]
    return "\n\n".join(block for block in blocks if block)


def xlsx(file: BinaryIO) -> str:
    """A workbook: one table per sheet."""
    with _opened(file) as archive:
        strings = []
        if "xl/sharedStrings.xml" in archive.namelist():
            strings = [_text(item) for item in _all(_part(archive, "xl/sharedStrings.xml"), "si")]
        targets = _relations(archive, "xl/workbook.xml")
        sheets = []
        for sheet in _all(_part(archive, "xl/workbook.xml"), "sheet"):
            rows = _rows(_part(archive, targets[_attribute(sheet, "id")]), strings)
            sheets.append(f"## {_attribute(sheet, 'name')}\n{_table(rows)}")
    return "\n\n".join(sheets)


def pptx(file: BinaryIO) -> str:
    """A presentation: slide by slide, with titles, texts, tables and notes."""
    slides = []
    with _opened(file) as archive:
        targets = _relations(archive, "ppt/presentation.xml")
        for number, slide in enumerate(_all(_part(archive, "ppt/presentation.xml"), "sldId"), 1):
            target = targets[slide.attrib[next(key for key in slide.attrib if key.endswith("}id"))]]
            parts = [f"<!-- Slide number: {number} -->", *_shapes(_part(archive, target))]
            for notes in _relations(archive, target).values():
                if "/notesSlides/" in notes:
                    parts += ["### Notes:", *_shapes(_part(archive, notes))]
            slides.append("\n".join(parts))
    return "\n\n".join(slides)


#: By suffix.
CONVERTERS: dict[str, Callable[[BinaryIO], str]] = {".docx": docx, ".xlsx": xlsx, ".pptx": pptx}


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    checked_listing(file, _MAX_PARTS)
    return zipfile.ZipFile(file)


def _part(archive: zipfile.ZipFile, name: str) -> Element:
    if archive.getinfo(name).file_size > _MAX_PART:
        raise ValueError(f"{name} is too large")
    # The parser refuses entities that expand without end, and loads nothing from elsewhere.
    return ElementTree.fromstring(archive.read(name))  # noqa: S314


def _relations(archive: zipfile.ZipFile, name: str) -> dict[str, str]:
    """The parts that a part refers to, by the names it has for them."""
    directory, base = posixpath.split(name)
    relations = f"{directory}/_rels/{base}.rels"
    if relations not in archive.namelist():
        return {}
    targets = {}
    for relation in _all(_part(archive, relations), "Relationship"):
        if relation.attrib.get("TargetMode") != "External":
            target = posixpath.join("/", directory, relation.attrib["Target"])
            targets[relation.attrib["Id"]] = posixpath.normpath(target)[1:]
    return targets


def _all(element: Element, name: str) -> Iterator[Element]:
    """Elements of that name at any depth, whatever their namespace."""
    return element.iterfind(f".//{{*}}{name}")


def _attribute(element: Element, name: str) -> str:
    """An attribute, whatever its namespace."""
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name:
            return value
    raise KeyError(name)


def _text(element: Element) -> str:
    """The text in an element, with its tabs and line breaks."""
    breaks = {"tab": "\t", "br": "\n"}
    pieces = []
    for part in element.iter():
        name = part.tag.rpartition("}")[2]
        pieces.append((part.text or "") if name == "t" else breaks.get(name, ""))
    return "".join(pieces)


def _block(element: Element) -> str:
    if element.tag.endswith("}tbl"):
        return _table([[_text(cell) for cell in _all(row, "tc")] for row in _all(element, "tr")])
    text = _text(element).strip()
    style = next((_attribute(style, "val") for style in _all(element, "pStyle")), "")
    heading = re.fullmatch(r"[Hh]eading ?([1-6])", style)
    if text and (heading or style == "Title"):
        return f"{'#' * (int(heading[1]) if heading else 1)} {text}"
    return f"- {text}" if text and any(True for _ in _all(element, "numPr")) else text


def _shapes(slide: Element) -> list[str]:
    """The texts and tables of a slide, in order; the title is a heading."""
    parts = []
    for shape in slide.iter():
        name = shape.tag.rpartition("}")[2]
        if name == "tbl":
            parts.append(
                _table([[_paragraphs(cell) for cell in _all(row, "tc")] for row in _all(shape, "tr")])
            )
        elif name == "sp":
            kinds = {holder.attrib.get("type") for holder in _all(shape, "ph")}
            text = _paragraphs(shape)
            if text and not kinds & {"sldNum", "dt", "ftr"}:
                parts.append(f"# {text}" if kinds & {"title", "ctrTitle"} else text)
    return parts


def _paragraphs(element: Element) -> str:
    return "\n".join(_text(paragraph) for paragraph in _all(element, "p")).strip()


def _rows(sheet: Element, strings: list[str]) -> list[list[str]]:
    """The cells of a sheet; ones that are not stored are empty."""
    rows = []
    for row in itertools.islice(_all(sheet, "row"), _MAX_ROWS):
        cells: list[str] = []
        for cell in _all(row, "c"):
            column = _column(cell.attrib.get("r", "")) or len(cells) + 1
            if column > _MAX_COLUMNS:
                break
            cells += [""] * (column - len(cells) - 1)
            cells.append(_cell(cell, strings))
        rows.append(cells)
    return rows


def _column(reference: str) -> int:
    """The number of a column, from 1: `B7` is in column 2."""
    number = 0
    for letter in reference.rstrip("0123456789"):
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def _cell(cell: Element, strings: list[str]) -> str:
    if cell.attrib.get("t") == "inlineStr":
        return _text(cell)
    value = next((part.text or "" for part in _all(cell, "v")), "")
    return strings[int(value)] if cell.attrib.get("t") == "s" and value else value


def _table(rows: list[list[str]]) -> str:
    """A Markdown table, the first row as its head."""
    width = max((len(row) for row in rows), default=0)
    if width == 0:
        return ""
    lines = []
    for row in rows:
        cells = [cell.replace("|", "\\|").replace("\n", " ") for cell in row] + [""] * (width - len(row))
        lines.append(f"| {' | '.join(cells)} |")
    lines.insert(1, f"|{' --- |' * width}")
    return "\n".join(lines)
