"""Documents the editor can show though they are not text, turned into Markdown."""

from __future__ import annotations

import importlib
import io
import os
from typing import Any

from glovebox.box.credentials import own_rights

#: Suffixes `view` converts; no other command takes such a file.
SUFFIXES = frozenset({".docx", ".xlsx", ".pptx", ".pdf", ".mp3", ".wav", ".m4a", ".flac"})


class ConversionError(Exception):
    """The document could not be turned into Markdown; the text says why."""


def is_document(path: str) -> bool:
    """Whether the file is one that is converted."""
    return os.path.splitext(path)[1].lower() in SUFFIXES


def to_markdown(path: str, data: bytes) -> str:
    """A document as Markdown; the suffix of `path` says which kind it is.

    Raises:
        ConversionError: it is damaged, or no library for it is installed.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix in (".docx", ".xlsx", ".pptx"):
        with own_rights():
            from glovebox.box.files.editor import office  # loads what nothing else here needs

        try:
            return office.CONVERTERS[suffix](io.BytesIO(data))
        except office.DAMAGED as error:
            raise ConversionError(str(error)) from error
    if suffix == ".pdf":
        return _pdf(data)
    raise ConversionError(f"speech recognition for {suffix} files is not available here")


def _pdf(data: bytes) -> str:
    try:
        with own_rights():
            pdf: Any = importlib.import_module("pdfminer.high_level")
            problems: Any = importlib.import_module("pdfminer.psparser")
    except ImportError:
        raise ConversionError(
            "PDF files need the Python package pdfminer.six (pip install pdfminer.six)"
        ) from None
    try:
        return str(pdf.extract_text(io.BytesIO(data)))
    except (problems.PSException, OSError, ValueError) as error:
        raise ConversionError(str(error)) from error
