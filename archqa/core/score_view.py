"""Scores as rows and as HTML of a notebook, from the object that `archqa score --json` prints."""

from collections.abc import Iterable, Mapping
from typing import Any

from archqa.core import html

SCORE_COLUMNS = ("score", "value", "low", "high", "signature")
"""A score, its 95 % interval, and how it was computed."""

_MAX_CELLS = 40


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
    decimals = 3 if _are_fractions(content) else 1
    rows = []
    for name, value, low, high, signature in score_rows(content)[:_MAX_CELLS]:
        interval = "" if low is None else f"{low:.{decimals}f} to {high:.{decimals}f}"
        number = html.text(f"{value:.{decimals}f}")
        rows.append((html.hint(name, signature), number, html.text(interval)))
    title = f"{content['task']}, {content['cases']:,} cases"
    table = html.table((title, "", "95 % interval"), rows)
    statement = (content.get("key") or {}).get("statement", "")
    missing = [f"{name} is missing: {reason}" for name, reason in content["missing"].items()]
    notes = [note for note in (statement, *warnings, *missing) if note]
    return table + "".join(f"<p>{html.text(note)}</p>" for note in notes)


def _are_fractions(content: Mapping[str, Any]) -> bool:
    """Whether scores run from 0 to 1, as FHIR-AgentBench's do."""
    return all(value <= 1 for _, value, *_ in score_rows(content))
