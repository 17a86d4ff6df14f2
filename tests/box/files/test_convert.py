from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from glovebox.box.files.editor.convert import ConversionError, is_document
from glovebox.box.files.editor.convert import to_markdown as convert

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'


def to_markdown(path: str) -> str:
    return convert(path, Path(path).read_bytes())


def archive(path: Path, parts: dict[str, str]) -> str:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return str(path)


def relations(**targets: str) -> str:
    listed = "".join(f'<Relationship Id="{name}" Target="{target}"/>' for name, target in targets.items())
    return f'<Relationships xmlns="http://example.org/relationships">{listed}</Relationships>'


def test_a_word_document_becomes_headings_paragraphs_lists_and_tables(tmp_path: Path) -> None:
    def paragraph(text: str, properties: str = "") -> str:
        return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"

    row = "<w:tr>" + "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("a", "b|c")) + "</w:tr>"
    body = (
        paragraph("Report", '<w:pStyle w:val="Heading2"/>')
        + paragraph("First &amp; last")
        + paragraph("item", "<w:numPr/>")
        + paragraph("")
        + f"<w:tbl>{row}{row}</w:tbl>"
    )
    document = f"<w:document {W}><w:body>{body}</w:body></w:document>"
    path = archive(tmp_path / "a.DOCX", {"word/document.xml": document})
    assert to_markdown(path) == (
        "## Report\n\nFirst & last\n\n- item\n\n| a | b\\|c |\n| --- | --- |\n| a | b\\|c |"
    )


def test_a_workbook_becomes_a_table_per_sheet(tmp_path: Path) -> None:
    cells = (
        '<row><c r="A1" t="s"><v>1</v></c><c r="C1" t="s"><v>0</v></c></row>'
        '<row><c r="B2"><v>2.5</v></c><c r="C2" t="inlineStr"><is><t>in</t></is></c></row>'
    )
    parts = {
        "xl/workbook.xml": f'<workbook {S} {R}><sheets><sheet name="Data" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(r1="worksheets/sheet1.xml"),
        "xl/sharedStrings.xml": f"<sst {S}><si><t>zero</t></si><si><t>one</t></si></sst>",
        "xl/worksheets/sheet1.xml": f"<worksheet {S}><sheetData>{cells}</sheetData></worksheet>",
    }
    assert to_markdown(archive(tmp_path / "a.xlsx", parts)) == (
        "## Data\n| one |  | zero |\n| --- | --- | --- |\n|  | 2.5 | in |"
    )


def test_a_presentation_becomes_slides_with_titles_and_notes(tmp_path: Path) -> None:
    def shape(text: str, kind: str = "") -> str:
        holder = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>' if kind else ""
        return f"<p:sp>{holder}<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"

    def slide(*shapes: str) -> str:
        return f"<p:sld {P} {A}>{''.join(shapes)}</p:sld>"

    listed = '<p:sldId id="256" r:id="r2"/><p:sldId id="257" r:id="r1"/>'
    parts = {
        "ppt/presentation.xml": f"<p:presentation {P} {R}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(r1="slides/slide1.xml", r2="slides/slide2.xml"),
        "ppt/slides/slide1.xml": slide(shape("last words"), shape("2", "sldNum")),
        "ppt/slides/slide2.xml": slide(shape("Welcome", "ctrTitle"), shape("text")),
        "ppt/slides/_rels/slide2.xml.rels": relations(n="../notesSlides/notes1.xml"),
        "ppt/notesSlides/notes1.xml": slide(shape("say hello")),
    }
    assert to_markdown(archive(tmp_path / "a.pptx", parts)) == (
        "<!-- Slide number: 1 -->\n# Welcome\ntext\n### Notes:\nsay hello\n\n"
        "<!-- Slide number: 2 -->\nlast words"
    )


@pytest.mark.parametrize(
    "parts",
    [{}, {"word/document.xml": "<broken"}, {"word/document.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&d;</a>"}],
)
def test_a_damaged_document_is_an_error(tmp_path: Path, parts: dict[str, str]) -> None:
    with pytest.raises(ConversionError):
        to_markdown(archive(tmp_path / "a.docx", parts))


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx"])
def test_text_with_the_name_of_a_document_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("plain text\n")
    with pytest.raises(ConversionError, match="File is not a zip file"):
        to_markdown(str(tmp_path / name))


def test_a_part_that_grows_without_measure_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", b" " * (65 * 1024 * 1024))
    with pytest.raises(ConversionError, match="too large"):
        to_markdown(str(path))


def test_speech_is_not_recognised(tmp_path: Path) -> None:
    (tmp_path / "a.mp3").touch()
    with pytest.raises(ConversionError, match=r"\.mp3"):
        to_markdown(str(tmp_path / "a.mp3"))


def test_documents_are_told_by_their_suffix() -> None:
    assert is_document("/x/a.PDF")
    assert not is_document("/x/pdf")
    assert not is_document("/x/a.pdf.txt")
