"""Plain text in UTF-8 or UTF-16, else in Windows-1252."""

import codecs
from typing import NamedTuple

from archqa.notes.formats.not_readable import NotReadable

ENCODING_REMARK = (
    "The note is not UTF-8 and was read as Windows-1252: compare letters with accents."
)
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""UTF-32 comes first: its little-endian mark begins with that of UTF-16."""

_NOT_TEXT = "is not a text file."
_FIX = "Save the note as UTF-8 text."
_CONTROL_CHARACTERS = frozenset(map(chr, range(32))) - frozenset("\t\n\v\f\r\x1b\x1c\x1d\x1e\x1f")

MAX_CONTROL_SHARE = 0.1


class DecodedText(NamedTuple):
    """A text, with a remark where its encoding was guessed."""

    text: str
    remarks: tuple[str, ...] = ()


def decode_text(content: bytes, charset: str = "") -> DecodedText:
    """Decode by the byte order mark, `charset`, UTF-8 or Windows-1252. Raises NotReadable."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return DecodedText(_decode(content, encoding))
    if charset:
        return DecodedText(_decode(content, charset))
    if b"\0" in content:
        return DecodedText(_decode(content, _utf_16_without_mark(content)))
    try:
        return DecodedText(_mostly_text(content.decode("utf-8")))
    except UnicodeDecodeError:
        return DecodedText(_decode(content, "cp1252"), (ENCODING_REMARK,))


def _decode(content: bytes, encoding: str) -> str:
    try:
        return _text_only(content.decode(encoding))
    except (UnicodeDecodeError, LookupError):
        raise NotReadable(_NOT_TEXT, _FIX) from None


def _text_only(text: str) -> str:
    if not _CONTROL_CHARACTERS.isdisjoint(text):
        raise NotReadable(_NOT_TEXT, _FIX)
    return text


def _mostly_text(text: str) -> str:
    """What is UTF-8 is hardly binary, whatever terminal or printer codes were pasted with it."""
    codes = sum(character in _CONTROL_CHARACTERS for character in text)
    if codes > MAX_CONTROL_SHARE * len(text):
        raise NotReadable(_NOT_TEXT, _FIX)
    return text


def _utf_16_without_mark(content: bytes) -> str:
    """Return the byte order in which Latin text would have these null bytes."""
    is_little_endian = content[1::2].count(0) >= content[::2].count(0)
    return "utf-16-le" if is_little_endian else "utf-16-be"
