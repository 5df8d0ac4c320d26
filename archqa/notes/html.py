"""HTML as text: blocks are lines, rows of tables are lines with bars, items have bullets."""

import re
from collections.abc import Iterator

from lxml import etree
from lxml.html import HtmlElement, HTMLParser, document_fromstring

from archqa.notes.formats import NotReadable
from archqa.terminology.words import word_list

_DROPPED = word_list("dropped element")
_PARAGRAPHS = word_list("element of a paragraph")
_LINES = word_list("element of a line")
_FIX = "Save it again, or as plain text."
_CELLS = frozenset(("td", "th"))
_HIDDEN = re.compile(r"(?:display:none|visibility:hidden)")
_MAX_DEPTH = 200
"""Of elements in elements; what is deeper comes as bare text."""

_MAX_CELL_LENGTH = 300
"""A longer cell belongs to a table that only places text on the page."""

_CHARSET = re.compile(
    rb"<meta[^>]{0,200}charset\s*+=\s*+[\"']?\s*+([\w-]{1,40})", re.IGNORECASE
)
_XML_ENCODING = re.compile(rb"^\s*<\?xml[^>]{0,200}encoding\s*=\s*[\"']([\w-]{1,40})")
_SPACES = re.compile(r"[ \t\r\n\f]+")
_LINE_BREAK, _PARAGRAPH_BREAK = "\x1f", "\x1e"
"""Asked for by elements; several in a row are one. A `\\n` comes from `br` and `pre`."""
_BREAKS = re.compile(r"(?<![ \t\n\x1e\x1f])[ \t]*[\n\x1e\x1f][ \t\n\x1e\x1f]*")


def declared_charset(content: bytes) -> str:
    """Return the charset that the document names in its first kilobytes, else ""."""
    match = _CHARSET.search(content[:4096]) or _XML_ENCODING.match(content[:4096])
    return match[1].decode("ascii") if match else ""


def html_to_text(source: str) -> str:
    """Return what a reader sees of an HTML document, as text. Raises NotReadable."""
    text = "".join(_pieces(_parse(source), 0))

    def line_breaks(match: re.Match[str]) -> str:
        is_paragraph = _PARAGRAPH_BREAK in match[0] or match[0].count("\n") > 1
        return "\n\n" if is_paragraph else "\n"

    return _BREAKS.sub(line_breaks, text).strip("\n")


def _parse(source: str) -> HtmlElement:
    parser = HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True
    )
    try:
        root = document_fromstring(source.encode("utf-8", "replace"), parser=parser)
    except (etree.LxmlError, ValueError):
        raise NotReadable("is no readable HTML.", _FIX) from None
    # What is deeper than libxml2 goes, it leaves out.
    if any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log):
        raise NotReadable("is HTML with elements nested too deeply.", _FIX)
    return root


def _pieces(element: HtmlElement, depth: int, marker: str = "") -> Iterator[str]:
    """Yield the text of an element in pieces, `marker` at its front, without what follows it."""
    style = element.get("style", "").replace(" ", "").lower()
    is_hidden = "hidden" in element.attrib or _HIDDEN.search(style) is not None
    if element.tag in _DROPPED or is_hidden:
        return
    if depth > _MAX_DEPTH:
        yield _SPACES.sub(" ", element.text_content())
        return
    line_break = ""
    if element.tag in _PARAGRAPHS:
        line_break = _PARAGRAPH_BREAK
    elif element.tag in _LINES:
        line_break = _LINE_BREAK
    yield ("\n" if element.tag == "br" else line_break) + marker
    if _is_table_row(element):
        cells = []
        for cell in element:
            if cell.tag in _CELLS:
                text = "".join(_pieces(cell, depth + 1))
                cells.append(" ".join(text.split()))
        yield " | ".join(cells)
        if element.find("td") is None:
            yield "\n" + " | ".join(["---"] * len(cells))
    else:
        yield from _content(element, depth)
    yield line_break


def _content(element: HtmlElement, depth: int) -> Iterator[str]:
    yield _written(element, element.text)
    item_number = 0
    for child in element:
        marker = ""
        if child.tag == "li":
            item_number += 1
            marker = f"{item_number}. " if element.tag == "ol" else "- "
        yield from _pieces(child, depth + 1, marker)
        yield _written(element, child.tail)


def _written(element: HtmlElement, text: str | None) -> str:
    """Return text inside `element`: white space counts in preformatted text only."""
    return (text or "") if element.tag == "pre" else _SPACES.sub(" ", text or "")


def _is_table_row(element: HtmlElement) -> bool:
    """Whether the element is a row of data, not one that only places text on the page."""
    if element.tag != "tr" or element.find(".//table") is not None:
        return False
    lengths = [len(cell.text_content()) for cell in element if cell.tag in _CELLS]
    return len(lengths) > 1 and max(lengths) <= _MAX_CELL_LENGTH
