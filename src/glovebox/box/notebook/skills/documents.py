"""Documents as plain text. The libraries are optional; without one, the error says how to get it."""

from __future__ import annotations

import zipfile
from importlib import import_module
from typing import Any

from glovebox.box.notebook.skills.text_files import Trouble, expect_file, telling, text_lines

#: What damaged files make the libraries raise, besides errors of their own.
_DAMAGED = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    EOFError,
    SyntaxError,  # of XML
    NotImplementedError,
    zipfile.BadZipFile,
)


def library(module: str, package: str, use: str) -> Any:
    """A library that may not be there.

    Raises:
        Trouble: it is not; the text says how to install it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise Trouble(
            f"{use} needs the package {package}. Install it in this kernel: %pip install {package}"
        ) from None


@telling
def parse_pdf(file_path: object) -> None:
    """Print the pages of a PDF file."""
    print(f"[Reading PDF file from {file_path}]")
    path = expect_file(file_path)
    pypdf = library("pypdf", "pypdf", "Reading PDF files")
    errors = import_module("pypdf.errors")
    try:
        with open(path, "rb") as file:
            found = enumerate(pypdf.PdfReader(file).pages, 1)
            pages = [f"@@ Page {number} @@\n{page.extract_text()}\n\n" for number, page in found]
    except (errors.PyPdfError, errors.DependencyError, *_DAMAGED) as error:
        raise Trouble(f"PDF file {path} cannot be read: {error}") from None
    print("".join(pages).strip())


@telling
def parse_docx(file_path: object) -> None:
    """Print the paragraphs of a Word file."""
    print(f"[Reading DOCX file from {file_path}]")
    path = expect_file(file_path)
    docx = library("docx", "python-docx", "Reading DOCX files")
    try:
        paragraphs = [paragraph.text for paragraph in docx.Document(path).paragraphs]
    except (import_module("docx.opc.exceptions").OpcError, *_DAMAGED) as error:
        raise Trouble(f"DOCX file {path} cannot be read: {error}") from None
    print("".join(f"@@ Page {n} @@\n{text}\n\n" for n, text in enumerate(paragraphs, 1)))


@telling
def parse_latex(file_path: object) -> None:
    """Print a LaTeX file without its commands."""
    print(f"[Reading LaTex file from {file_path}]")
    path = expect_file(file_path)
    latex2text = library("pylatexenc.latex2text", "pylatexenc", "Reading LaTeX files")
    source = "".join(text_lines(path))
    try:
        text: str = latex2text.LatexNodes2Text().latex_to_text(source)
    except _DAMAGED as error:
        raise Trouble(f"LaTeX file {path} cannot be read: {error}") from None
    print(text.strip())


@telling
def parse_pptx(file_path: object) -> None:
    """Print the texts on the slides of a PowerPoint file."""
    print(f"[Reading PowerPoint file from {file_path}]")
    pptx = library("pptx", "python-pptx", "Reading PowerPoint files")
    shown = []
    try:
        for number, slide in enumerate(pptx.Presentation(str(file_path)).slides, 1):
            shown.append(f"@@ Slide {number} @@")
            shown += [shape.text for shape in slide.shapes if hasattr(shape, "text")]
    except (import_module("pptx.exc").PythonPptxError, *_DAMAGED) as error:
        print(f"Error reading PowerPoint file: {error}")
    else:
        print("\n".join(shown))
