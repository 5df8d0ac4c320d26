"""HTML of cases and answers for notebooks: the notebook's own style, every text escaped."""

from collections.abc import Iterable, Sequence
from html import escape

_TEXT = '<span dir="auto" style="white-space:pre-wrap">{}</span>'


def text(content: str) -> str:
    """Text of a record or a model, escaped."""
    return _TEXT.format(escape(content))


def hint(content: str, explanation: str) -> str:
    """A text with an explanation that shows under the pointer."""
    return (
        f'<span title="{escape(explanation)}">{text(content)}</span>'
        if explanation
        else text(content)
    )


def folded(summary: str, content: str) -> str:
    """HTML below a line that opens it."""
    return f"<details><summary>{text(summary)}</summary>{content}</details>"


def shortened(content: str, length: int = 160) -> str:
    """The beginning of a text, escaped, on one line."""
    line = " ".join(content.split())
    return text(line if len(line) <= length else f"{line[: length - 1]}…")


def paragraph(name: str, content: str) -> str:
    """A named paragraph; empty if it has no content."""
    if not content.strip():
        return ""
    return f"<p><b>{escape(name)}</b><br>{text(content)}</p>"


def heading(name: str) -> str:
    """A line in bold."""
    return f"<p><b>{text(name)}</b></p>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; the head is escaped here."""
    head_row = ""
    for name in head:
        head_row += f'<th style="text-align:left">{escape(name)}</th>'
    body = "".join(map(_row, rows))
    return f"<table><thead><tr>{head_row}</tr></thead><tbody>{body}</tbody></table>"


def ordered_list(lines: Iterable[str]) -> str:
    """A numbered list of lines that are HTML already."""
    items = "".join(f"<li>{line}</li>" for line in lines)
    return f"<ol>{items}</ol>"


def citations(ids: Iterable[str]) -> str:
    """Ids in brackets."""
    return " ".join(f"<code>[{escape(citation)}]</code>" for citation in ids)


def _row(cells: Sequence[str]) -> str:
    row = ""
    for cell in cells:
        row += f'<td style="text-align:left">{cell}</td>'
    return f"<tr>{row}</tr>"
