from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glovebox.box.notebook.skills import parse_docx, parse_latex, parse_pdf, parse_pptx

Capture = pytest.CaptureFixture[str]


def pdf(*pages: list[str]) -> bytes:
    """A PDF file with these lines on its pages."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        drawn = " ".join(["BT /F1 12 Tf 14 TL 72 720 Td", *(f"({line}) Tj T*" for line in lines), "ET"])
        resources = "<< /Font << /F1 3 0 R >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {resources} "
            f"/Contents {5 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    data = "%PDF-1.4\n"
    table = "0000000000 65535 f \n"
    for number, content in enumerate(objects, 1):
        table += f"{len(data):010} 00000 n \n"
        data += f"{number} 0 obj\n{content}\nendobj\n"
    size = len(objects) + 1
    end = f"trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return f"{data}xref\n0 {size}\n{table}{end}".encode()


def test_a_pdf_file_is_shown_page_by_page(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("pypdf")
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(["Hello, this is a test PDF document."]))
    parse_pdf(str(path))
    assert capsys.readouterr().out == (
        f"[Reading PDF file from {path}]\n@@ Page 1 @@\nHello, this is a test PDF document.\n"
    )
    path.write_bytes(pdf(["first page", "second line"], [], ["third page"]))
    parse_pdf(str(path))
    assert capsys.readouterr().out == (
        f"[Reading PDF file from {path}]\n"
        "@@ Page 1 @@\nfirst page\nsecond line\n\n\n@@ Page 2 @@\n\n\n@@ Page 3 @@\nthird page\n"
    )


def test_a_word_file_is_shown_paragraph_by_paragraph(tmp_path: Path, capsys: Capture) -> None:
    docx: Any = pytest.importorskip("docx")
    document = docx.Document()
    document.add_paragraph("Hello, this is a test document.")
    document.add_paragraph("two\nlines")
    path = tmp_path / "a.docx"
    document.save(str(path))
    parse_docx(str(path))
    assert capsys.readouterr().out == (
        f"[Reading DOCX file from {path}]\n"
        "@@ Page 1 @@\nHello, this is a test document.\n\n@@ Page 2 @@\ntwo\nlines\n\n\n"
    )


def test_a_latex_file_is_shown_without_commands(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("pylatexenc")
    path = tmp_path / "a.tex"
    path.write_text(
        r"\documentclass{article}\begin{document}Hello, \textbf{this} is $\alpha$.\end{document}" + "\n"
    )
    parse_latex(str(path))
    assert capsys.readouterr().out == f"[Reading LaTex file from {path}]\nHello, this is α.\n"


def test_a_presentation_is_shown_slide_by_slide(tmp_path: Path, capsys: Capture) -> None:
    pptx: Any = pytest.importorskip("pptx")
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Hello"
    slide.placeholders[1].text = "one\ntwo"
    deck.slides.add_slide(deck.slide_layouts[6])
    path = tmp_path / "a.pptx"
    deck.save(str(path))
    parse_pptx(str(path))
    assert capsys.readouterr().out == (
        f"[Reading PowerPoint file from {path}]\n@@ Slide 1 @@\nHello\none\ntwo\n@@ Slide 2 @@\n"
    )


@pytest.mark.parametrize("parse", [parse_pdf, parse_docx, parse_latex])
@pytest.mark.parametrize("path", ["missing", "", "/", None, 5])
def test_a_file_that_is_not_there_is_said_to_be_missing(capsys: Capture, parse: Any, path: Any) -> None:
    parse(path)
    heading, trouble = capsys.readouterr().out.splitlines()
    assert heading.startswith("[Reading ")
    assert heading.endswith(f" file from {path}]")
    assert trouble == f"ERROR: File {path} not found."


def test_a_missing_presentation_is_told_in_the_words_of_the_contract(capsys: Capture) -> None:
    pytest.importorskip("pptx")
    parse_pptx("missing.pptx")
    assert capsys.readouterr().out == (
        "[Reading PowerPoint file from missing.pptx]\n"
        "Error reading PowerPoint file: Package not found at 'missing.pptx'\n"
    )


@pytest.mark.parametrize(
    ("library", "parse", "said"),
    [
        ("pypdf", parse_pdf, "ERROR: PDF file {} cannot be read: "),
        ("docx", parse_docx, "ERROR: DOCX file {} cannot be read: "),
        ("pptx", parse_pptx, "Error reading PowerPoint file: "),
    ],
)
@pytest.mark.parametrize("content", [b"", b"not a document", b"PK\x05\x06" + bytes(18), pdf(["x"])[:300]])
def test_a_damaged_file_is_told_in_a_line(
    tmp_path: Path, capsys: Capture, library: str, parse: Any, said: str, content: bytes
) -> None:
    pytest.importorskip(library)
    path = tmp_path / "damaged"
    path.write_bytes(content)
    parse(str(path))
    _, trouble = capsys.readouterr().out.splitlines()
    assert trouble.startswith(said.format(path))


@pytest.mark.parametrize(
    ("parse", "package", "what"),
    [
        ("parse_pdf", "pypdf", "PDF"),
        ("parse_docx", "python-docx", "DOCX"),
        ("parse_latex", "pylatexenc", "LaTeX"),
        ("parse_pptx", "python-pptx", "PowerPoint"),
    ],
)
def test_without_its_library_a_parser_says_what_to_install(
    tmp_path: Path, parse: str, package: str, what: str
) -> None:
    path = tmp_path / "document"
    path.touch()
    source = Path(__file__).parents[4] / "src"
    # -IS: a Python without any installed packages
    code = f"import sys; sys.path.append({str(source)!r})\n"
    code += f"from glovebox.box.notebook.skills import *; {parse}({str(path)!r})"
    done = subprocess.run(
        [sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[1:] == [
        f"ERROR: Reading {what} files needs the package {package}. "
        f"Install it in this kernel: %pip install {package}"
    ]
    assert done.stderr == ""
