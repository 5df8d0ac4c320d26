"""Cases and answers as a notebook shows them: plain HTML in the notebook's own style, every text escaped."""

from collections.abc import Iterable, Sequence
from html import escape

_TEXT = '<span dir="auto" style="white-space:pre-wrap">{}</span>'


def text(words: str) -> str:
    """Words of a record or a model: nothing in them is markup."""
    return _TEXT.format(escape(words))


def paragraph(name: str, words: str) -> str:
    """A named paragraph; nothing where there are no words."""
    return f"<p><b>{escape(name)}</b><br>{text(words)}</p>" if words.strip() else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are HTML already and whose head is not."""
    names = "".join(f'<th style="text-align:left">{escape(each)}</th>' for each in head)
    lines = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>"


def ordered_list(lines: Iterable[str]) -> str:
    """Lines that are HTML already, numbered."""
    return f"<ol>{''.join(f'<li>{line}</li>' for line in lines)}</ol>"


def citations(ids: Iterable[str]) -> str:
    """Ids in brackets."""
    return " ".join(f"<code>[{escape(each)}]</code>" for each in ids)
