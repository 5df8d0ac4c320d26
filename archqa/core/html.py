"""HTML of cases, answers and scores for notebooks: the notebook's own style, every text escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

SCORE_COLUMNS = ("score", "value", "low", "high", "signature")
"""A score, its 95 % interval, and how it was computed."""

_TEXT = '<span dir="auto" style="white-space:pre-wrap">{}</span>'

_MAX_SCORES = 40


def text(content: str) -> str:
    """Text of a record or a model, escaped."""
    return _TEXT.format(escape(content))


def hint(content: str, explanation: str) -> str:
    """A text with an explanation that shows under the pointer."""
    if not explanation:
        return text(content)
    return f'<span title="{escape(explanation)}">{text(content)}</span>'


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
    body = ""
    for row in rows:
        cells = "".join(f'<td style="text-align:left">{cell}</td>' for cell in row)
        body += f"<tr>{cells}</tr>"
    return f"<table><thead><tr>{head_row}</tr></thead><tbody>{body}</tbody></table>"


def ordered_list(lines: Iterable[str]) -> str:
    """A numbered list of lines that are HTML already."""
    items = "".join(f"<li>{line}</li>" for line in lines)
    return f"<ol>{items}</ol>"


def citations(ids: Iterable[str]) -> str:
    """Ids in brackets."""
    return " ".join(f"<code>[{escape(citation)}]</code>" for citation in ids)


def score_rows(
    content: Mapping[str, Any],
) -> list[tuple[str, float, float | None, float | None, str]]:
    """Return one row a score; break-downs are left out."""
    rows = []
    for name, value in content["scores"].items():
        if isinstance(value, Mapping):
            continue
        low, high = content["intervals"].get(name, (None, None))
        rows.append((name, value, low, high, content["signatures"].get(name, "")))
    return rows


def scores_html(content: Mapping[str, Any], warnings: Iterable[str] = ()) -> str:
    """Return the scores as a table, what they were scored against and what to know of them."""
    scores = score_rows(content)
    # FHIR-AgentBench's run from 0 to 1, the others from 0 to 100.
    are_fractions = all(value <= 1 for _, value, *_ in scores)
    decimals = 3 if are_fractions else 1
    rows = []
    for name, value, low, high, signature in scores[:_MAX_SCORES]:
        interval = "" if low is None else f"{low:.{decimals}f} to {high:.{decimals}f}"
        number = text(f"{value:.{decimals}f}")
        rows.append((hint(name, signature), number, text(interval)))
    title = f"{content['task']}, {content['cases']:,} cases"
    statement = (content.get("key") or {}).get("statement", "")
    missing = [
        f"{name} is missing: {reason}" for name, reason in content["missing"].items()
    ]
    notes = [note for note in (statement, *warnings, *missing) if note]
    paragraphs = "".join(f"<p>{text(note)}</p>" for note in notes)
    return table((title, "", "95 % interval"), rows) + paragraphs
