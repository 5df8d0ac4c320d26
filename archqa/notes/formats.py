"""From the bytes of a file to the text of a note: plain text, PDF (by pypdf, the extra `pdf`) and RTF (by striprtf)."""

import codecs
import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from striprtf.striprtf import rtf_to_text as strip_rtf

from archqa.errors import MissingExtra


class NotReadable(Exception):
    """The content is no text of its format. The message continues the file's name."""

    def __init__(self, message: str, fix: str = "") -> None:
        self.fix = fix
        super().__init__(message)


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

_NAMES = """
ascii utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 utf-32-le utf-32-be
iso8859-1 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-9
iso8859-10 iso8859-11 iso8859-13 iso8859-14 iso8859-15 iso8859-16
cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp437 cp850 cp852 cp855 cp858
cp866 cp874 cp932 cp949 koi8-r koi8-u mac-roman tis-620 gb2312 gbk gb18030 big5 big5hkscs
euc_jp euc_kr shift_jis iso2022_jp johab
"""

_CHARSETS = frozenset(_NAMES.split())
"""Python's names of the charsets of notes: its other codecs are slow, fail, or are no charsets."""

_MAX_CHARSET_LENGTH = 40
UNKNOWN_CHARSET = "is in an unknown character set."

_NOT_TEXT = "is not a text file."
_FIX = "Save the note as UTF-8 text."
_CONTROL_CHARACTERS = frozenset(map(chr, range(32))) - frozenset(
    "\t\n\v\f\r\x1b\x1c\x1d\x1e\x1f"
)

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
        # The byte order in which Latin text would have these null bytes.
        is_little_endian = content[1::2].count(0) >= content[::2].count(0)
        return DecodedText(
            _decode(content, "utf-16-le" if is_little_endian else "utf-16-be")
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return DecodedText(_decode(content, "cp1252"), (ENCODING_REMARK,))
    # What is UTF-8 is hardly binary, whatever terminal or printer codes were pasted with it.
    codes = sum(map(text.count, _CONTROL_CHARACTERS))
    if codes > MAX_CONTROL_SHARE * len(text):
        raise NotReadable(_NOT_TEXT, _FIX)
    return DecodedText(text)


def codec_of(charset: str) -> str:
    """Return Python's name of a charset. Raises NotReadable for what is none of a note."""
    try:
        name = codecs.lookup(charset[:_MAX_CHARSET_LENGTH]).name
    except (LookupError, ValueError):
        name = ""
    if name not in _CHARSETS:
        raise NotReadable(UNKNOWN_CHARSET, _FIX)
    return name


def _decode(content: bytes, charset: str) -> str:
    try:
        text = content.decode(codec_of(charset))
    except UnicodeDecodeError:
        raise NotReadable(_NOT_TEXT, _FIX) from None
    if not _CONTROL_CHARACTERS.isdisjoint(text):
        raise NotReadable(_NOT_TEXT, _FIX)
    return text


MAX_PAGES = 500


def pdf_to_text(content: bytes) -> str:
    """Return the text of the pages, one after the other. Raises NotReadable and MissingExtra.

    Text is laid out in columns as they stand, so that tables keep theirs.
    """
    try:
        from pypdf import PdfReader
    except ImportError:
        raise MissingExtra("The reader of PDF files", extra="pdf") from None
    pages = []
    with _without_log("pypdf"):
        try:
            reader = PdfReader(io.BytesIO(content))
            if reader.is_encrypted and not reader.decrypt(""):
                raise NotReadable("is an encrypted PDF.", "Save it without a password.")
            if len(reader.pages) > MAX_PAGES:
                fix = "Name one note, not a whole chart."
                raise NotReadable(f"has more than {MAX_PAGES} pages.", fix)
            for page in reader.pages:
                text = str(page.extract_text(extraction_mode="layout"))
                pages.append(text if text.strip() else str(page.extract_text()))
        except NotReadable:
            raise
        except (
            Exception
        ):  # pypdf raises whatever a damaged file meets; its content is not shown.
            raise NotReadable(
                "is a damaged PDF.", "Save it again, or as plain text."
            ) from None
    text = "\n".join(pages)
    if not text.strip():
        fix = "It may be a scan: have its text recognised (OCR) first."
        raise NotReadable("is a PDF without text.", fix)
    return text


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


_PICTURE_DATA = re.compile(r"[0-9a-fA-F\s]{1000,}")
_CELL_END = re.compile(r"(?<=\S) ?\| ?(?=\S)")
_ROW_END = re.compile(r"\|[ \t]*$", re.MULTILINE)


def rtf_to_text(content: bytes) -> str:
    """Return the text of an RTF document, without headers and footnotes. Raises NotReadable."""
    source = _PICTURE_DATA.sub("", content.decode("latin-1"))
    try:
        text: str = strip_rtf(source, encoding="cp1252", errors="replace")  # type: ignore[no-untyped-call]
    except (
        Exception
    ):  # striprtf raises whatever its parsing meets; the content is not shown.
        raise NotReadable(
            "is damaged RTF.", "Save it again, or as plain text."
        ) from None
    # RTF writes a character beyond U+FFFF as two halves.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _CELL_END.sub(" | ", _ROW_END.sub("", text))
