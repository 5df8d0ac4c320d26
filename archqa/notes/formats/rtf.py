"""RTF as text, by striprtf; rows of tables are lines with bars."""

import re

from striprtf.striprtf import rtf_to_text as strip_rtf

from archqa.notes.formats.not_readable import NotReadable

_PICTURE_DATA = re.compile(r"[0-9a-fA-F\s]{1000,}")
_CELL_END = re.compile(r"(?<=\S) ?\| ?(?=\S)")
_ROW_END = re.compile(r"\|[ \t]*$", re.MULTILINE)


def rtf_to_text(content: bytes) -> str:
    """Return the text of an RTF document, without headers and footnotes. Raises NotReadable."""
    source = _PICTURE_DATA.sub("", content.decode("latin-1"))
    try:
        text: str = strip_rtf(source, encoding="cp1252", errors="replace")  # type: ignore[no-untyped-call]
    except Exception:  # striprtf raises whatever its parsing meets; the content is not shown.
        raise NotReadable("is damaged RTF.", "Save it again, or as plain text.") from None
    return _CELL_END.sub(" | ", _ROW_END.sub("", text))
