"""Notes as files of several formats, and the one clear sentence for what is no note."""

import io
import logging
import sys
from pathlib import Path

import pytest

from archqa.errors import InputError, MissingExtra
from archqa.notes.formats import ENCODING_REMARK
from archqa.notes.note_files import (
    MAX_FILE_BYTES,
    MAX_NOTE_CHARACTERS,
    note_text,
    read_note,
)
from archqa.notes.sentences import split_note

SECRET = "Mueller has syphilis"


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def pdf(*pages: str, encrypt: str = "") -> bytes:
    """Return a PDF with a text layer; lines of a page are separated by `\\n`, columns by tabs."""
    pypdf = pytest.importorskip("pypdf")
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = pypdf.PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Courier"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(width=600, height=800)
        operators = []
        for number, line in enumerate(text.split("\n")):
            for column, cell in enumerate(line.split("\t")):
                x, y = 40 + 200 * column, 760 - 14 * number
                operators.append(f"BT /F1 10 Tf {x} {y} Td ({cell}) Tj ET")
        stream = DecodedStreamObject()
        stream.set_data("\n".join(operators).encode("latin-1"))
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        page[NameObject("/Contents")] = writer._add_object(stream)
    if encrypt:
        writer.encrypt(user_password=encrypt, algorithm="RC4-128")
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        "Fieber 38,5 °C – Müller".encode(),
        "\ufeffFieber 38,5 °C – Müller".encode(),
        "Fieber 38,5 °C – Müller".encode("utf-16"),
        "Fieber 38,5 °C – Müller".encode("utf-16-be"),
        "Fieber 38,5 °C – Müller".encode("utf-32"),
    ],
)
def test_text_in_unicode_is_read_whatever_its_encoding(
    tmp_path: Path, content: bytes
) -> None:
    note = read_note(write(tmp_path, "note.txt", content))
    assert note == ("Fieber 38,5 °C – Müller", ())


def test_text_in_windows_1252_is_read_with_a_remark(tmp_path: Path) -> None:
    path = write(tmp_path, "note.txt", "Müller – 38 °C".encode("cp1252"))
    assert read_note(path) == ("Müller – 38 °C", (ENCODING_REMARK,))


def test_a_note_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{\\rtf1 He is well.}"))
    )
    assert read_note("-").text.strip() == "He is well."


def test_html_becomes_lines_items_and_rows() -> None:
    source = """<html><head><title>Title</title><style>p {}</style></head><body>
    <h1>Discharge summary</h1><p>The <b>patient</b>\n is well.<br>He left.</p>
    <ul><li>Lasix<li>ASA</ul><ol><li>Diabetes</li><li>Asthma</li></ol>
    <table><tr><th>Test<th>Result<tr><td>Na</td><td><p>140</p></td></tr></table>
    <script>alert(1)</script><!-- comment --><p style="display: none">hidden</p><p hidden>too</p>
    <table><tr><td><div>Placed</div><div>by a table</div></td></tr></table>
    <pre>K   4.0\nCl  100</pre></body></html>"""
    assert note_text(source.encode(), "text/html; charset=utf-8").split("\n") == [
        "Discharge summary",
        "",
        "The patient is well.",
        "He left.",
        "",
        "- Lasix",
        "- ASA",
        "",
        "1. Diabetes",
        "2. Asthma",
        "",
        "Test | Result",
        "--- | ---",
        "Na | 140",
        "",
        "Placed",
        "by a table",
        "",
        "K   4.0",
        "Cl  100",
    ]


def test_a_table_that_only_places_prose_is_no_row() -> None:
    prose = "<p>He walks every day.</p>" * 30
    text = note_text(
        f"<table><tr><td>HPI</td><td>{prose}</td></tr></table>".encode(), ".html"
    )
    assert text.count("He walks every day.\n") == 29
    assert "|" not in text


@pytest.mark.parametrize("charset", ["utf-8", "windows-1252", "iso-8859-2"])
def test_html_is_decoded_by_the_charset_that_it_names(charset: str) -> None:
    source = f'<html><meta charset="{charset}"><p>Müller</p></html>'
    assert note_text(source.encode(charset)) == "Müller"
    xml = f'<?xml version="1.0" encoding="{charset}"?><html><p>Müller</p></html>'
    assert note_text(xml.encode(charset), ".xhtml") == "Müller"


def test_html_nested_in_tables_is_read_in_time() -> None:
    nested = "<table><tr><td>a</td><td>" * 60 + "x"
    assert note_text(nested.encode(), ".html").replace("|", "").split() == [
        "a"
    ] * 60 + ["x"]


def test_rtf_becomes_lines_and_rows() -> None:
    source = (
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Times;}}{\info{\author Nobody}}\b HPI\b0\par "
        rb"The patient\rquote s well, 38\'b0C. M\'fcller \u8804?5.\par "
        rb"\trowd\cellx1000\cellx2000 Na\cell 140\cell\row "
        rb"\trowd\cellx1000\cellx2000 K\cell 4.0\cell\row "
        rb"\pard{\pict\wmetafile8 " + b"0123456789abcdef\n" * 200 + rb"}Home.\par}"
    )
    assert note_text(source).strip().split("\n") == [
        "HPI",
        "The patient’s well, 38°C. Müller ≤5.",
        "Na | 140",
        "K | 4.0",
        "Home.",
    ]


def test_pdf_keeps_lines_pages_and_columns(caplog: pytest.LogCaptureFixture) -> None:
    content = pdf("HPI\nHe is well.\nTest\tResult\tUnit\nNa\t140\tmmol/L", "Page two.")
    texts = [sentence.text for sentence in split_note(note_text(content))]
    assert [" ".join(text.split()) for text in texts] == [
        "HPI",
        "He is well.",
        "Test Result Unit",
        "Na 140 mmol/L",
        "Page two.",
    ]


def test_a_pdf_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(MissingExtra, match=r"archqa\[pdf\]"):
        note_text(b"%PDF-1.7 ...")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("note.txt", b"", "is empty"),
        ("note.txt", "\ufeff \u200b\n".encode(), "is empty"),
        ("note.html", b"<html><p> </p></html>", "is empty"),
        ("note.html", b"<b>x" * 5000, "nested too deeply"),
        ("note.txt", b"\x01\x02\x03" + SECRET.encode(), "is not a text file"),
        ("note.txt", b"\xff\x81" + SECRET.encode(), "is not a text file"),
        ("note.rtf", b"{\\rtf1 \\u99999999? " + SECRET.encode(), "is damaged RTF"),
        ("note.pdf", b"%PDF-1.7 " + SECRET.encode(), "is a damaged PDF"),
        ("note.docx", b"PK\x03\x04" + SECRET.encode(), "is a Word document"),
        ("note.doc", b"\xd0\xcf\x11\xe0" + SECRET.encode(), "is a Word document"),
        ("note.png", b"\x89PNG" + SECRET.encode(), "is a picture"),
        ("note.txt", b"x" * (MAX_FILE_BYTES + 1), "is too large"),
        ("note.txt", b"x " * MAX_NOTE_CHARACTERS, "has 2,000,000 characters"),
    ],
)
def test_what_is_no_note_gets_one_sentence_and_the_way_out(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    content: bytes,
    says: str,
) -> None:
    if name == "note.pdf":
        pytest.importorskip("pypdf")
    with pytest.raises(InputError, match=says) as caught:
        read_note(write(tmp_path, name, content))
    assert len(str(caught.value).split("\n")) == 2
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None
    assert caplog.record_tuples == []


@pytest.mark.parametrize(
    ("password", "says"), [("secret", "encrypted"), ("", "without text")]
)
def test_a_pdf_that_is_locked_or_has_no_text_is_refused(
    password: str, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        note_text(pdf("", encrypt=password) if password else pdf(""))


def test_a_folder_and_an_absent_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        read_note(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_note(tmp_path / "absent.txt")


def test_a_damaged_pdf_leaves_the_log_of_its_reader_as_it_was() -> None:
    pytest.importorskip("pypdf")
    level = logging.getLogger("pypdf").level
    with pytest.raises(InputError):
        note_text(b"%PDF-1.7")
    assert logging.getLogger("pypdf").level == level
