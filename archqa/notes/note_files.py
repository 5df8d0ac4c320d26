"""Notes as files: plain text, HTML, RTF and PDF (the extra `pdf`) become text.

The kind is told by the first bytes, else by the file's suffix or the media type. No message quotes
what a file holds.
"""

import sys
from pathlib import Path
from typing import NamedTuple

from archqa.errors import InputError, without_suppressed_causes
from archqa.notes.formats import NotReadable, decode_text

MAX_FILE_BYTES = 20_000_000
MAX_NOTE_CHARACTERS = 1_000_000
STANDARD_INPUT = "-"

_FIX = "Name a note as plain text, HTML, RTF or PDF."
_HTML, _RTF, _PDF, _PLAIN = "html", "rtf", "pdf", "plain"
_KINDS = {
    ".html": _HTML,
    ".htm": _HTML,
    ".xhtml": _HTML,
    "text/html": _HTML,
    "application/xhtml+xml": _HTML,
    ".rtf": _RTF,
    "text/rtf": _RTF,
    "application/rtf": _RTF,
    ".pdf": _PDF,
    "application/pdf": _PDF,
}
READ_MEDIA_TYPES = frozenset(kind for kind in _KINDS if "/" in kind)
"""Beside `text/plain`; `application/pdf` needs the extra `pdf`."""

_FOREIGN_KINDS = {
    b"PK\x03\x04": "a Word document or an archive",
    b"\xd0\xcf\x11\xe0": "a Word document",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"II*\x00": "a picture",
    b"MM\x00*": "a picture",
    b"\x1f\x8b": "a compressed file",
}
_HTML_OPENINGS = (b"<!doctype html", b"<html")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


_INVISIBLE = "\ufeff\u200b \t\r\n\f\v\xa0"


class NoteText(NamedTuple):
    """The text of a note and, where its encoding had to be guessed, a remark that says so."""

    text: str
    remarks: tuple[str, ...] = ()


@without_suppressed_causes
def read_note(path: Path | str) -> NoteText:
    """Return the text of a note with remarks; `-` reads standard input.

    Raises InputError for what is no readable note, MissingExtra for a PDF without the extra `pdf`.
    """
    if str(path) == STANDARD_INPUT:
        return _checked("standard input", sys.stdin.buffer.read(MAX_FILE_BYTES + 1), "")
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except IsADirectoryError:
        raise InputError(
            path, [" is a folder."], "Name one file; a note is one file."
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "cannot be read"
        raise InputError(path, [f": {reason}."], _FIX) from None
    return _checked(path, content, Path(path).suffix)


@without_suppressed_causes
def note_text(content: bytes, kind: str = "", charset: str = "") -> str:
    """Return the text of a note's bytes.

    `kind` is a suffix (`.html`) or a media type (`text/html`), `charset` that of the media type.
    Raises InputError and MissingExtra.
    """
    return _checked("The note", content, kind, charset).text


def _checked(
    name: Path | str, content: bytes, kind: str, charset: str = ""
) -> NoteText:
    if len(content) > MAX_FILE_BYTES:
        fix = f"A note has at most {MAX_FILE_BYTES // 1_000_000} MB."
        raise InputError(name, [" is too large."], fix)
    try:
        note = _converted(content, kind, charset)
    except NotReadable as error:
        raise InputError(name, [f" {error}"], error.fix or _FIX) from None
    if not note.text.strip(_INVISIBLE):
        raise InputError(name, [" is empty."], "A note has at least one word.")
    if len(note.text) > MAX_NOTE_CHARACTERS:
        fix = f"A note has at most {MAX_NOTE_CHARACTERS:,} characters."
        raise InputError(name, [f" has {len(note.text):,} characters."], fix)
    return note


def _converted(content: bytes, kind: str, charset: str) -> NoteText:
    """Return the text of a note; its first bytes, else its suffix or media type, tell the format.

    The libraries of a format are imported only where it is read.
    """
    for magic, description in _FOREIGN_KINDS.items():
        if content.startswith(magic):
            raise NotReadable(f"is {description}, which is not read.")
    opening = content[:1024].removeprefix(_BYTE_ORDER_MARK).lstrip()
    note_format = _KINDS.get(kind.partition(";")[0].strip().lower(), _PLAIN)
    if opening.startswith(b"%PDF-"):
        note_format = _PDF
    elif opening.startswith(b"{\\rtf"):
        note_format = _RTF
    elif opening.lower().startswith(_HTML_OPENINGS):
        note_format = _HTML
    if note_format == _PDF:
        from archqa.notes.formats import pdf_to_text

        return NoteText(pdf_to_text(content))
    if note_format == _RTF:
        from archqa.notes.formats import rtf_to_text

        return NoteText(rtf_to_text(content))
    if note_format == _HTML:
        from archqa.notes.html import declared_charset, html_to_text

        text, remarks = decode_text(content, charset or declared_charset(content))
        return NoteText(html_to_text(text), remarks)
    return NoteText(*decode_text(content, charset))
