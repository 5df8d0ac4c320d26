"""The text layer of a PDF, by pypdf (the extra `pdf`)."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from archqa.errors import MissingExtra
from archqa.notes.formats.not_readable import NotReadable

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

MAX_PAGES = 500


def pdf_to_text(content: bytes) -> str:
    """Return the text of the pages, one after the other. Raises NotReadable and MissingExtra."""
    try:
        from pypdf import PdfReader
    except ImportError:
        raise MissingExtra("The reader of PDF files", extra="pdf") from None
    with _without_log("pypdf"):
        try:
            text = _text_of_pages(PdfReader(io.BytesIO(content)))
        except NotReadable:
            raise
        except Exception:  # pypdf raises whatever a damaged file meets; its content is not shown.
            raise NotReadable("is a damaged PDF.", "Save it again, or as plain text.") from None
    if not text.strip():
        fix = "It may be a scan: have its text recognised (OCR) first."
        raise NotReadable("is a PDF without text.", fix)
    return text


def _text_of_pages(reader: "PdfReader") -> str:
    if reader.is_encrypted and not reader.decrypt(""):
        raise NotReadable("is an encrypted PDF.", "Save it without a password.")
    if len(reader.pages) > MAX_PAGES:
        raise NotReadable(f"has more than {MAX_PAGES} pages.", "Name one note, not a whole chart.")
    return "\n".join(_page_text(page) for page in reader.pages)


def _page_text(page: "PageObject") -> str:
    """Return the text in columns as they stand, so that tables keep theirs."""
    text = str(page.extract_text(extraction_mode="layout"))
    return text if text.strip() else str(page.extract_text())


@contextmanager
def _without_log(name: str) -> Iterator[None]:
    """Keep a library quiet that logs what it stumbles on, its modules included."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
