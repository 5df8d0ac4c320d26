"""Rendering of HTML: one jinja environment that escapes every value, its filters and signs."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from archqa.asking.answer import citation_ranges
from archqa.briefing.brief import Brief
from archqa.core.tables import read_mapping

TEMPLATES = Path(__file__).resolve().parent / "templates"

MARK_LABELS = {
    "right": "cited, essential",
    "aside": "cited, supplementary",
    "wrong": "cited, not relevant",
    "missed": "missed",
    "cited": "cited",
    "plain": "",
}
"""The text of each mark of a sentence; a mark is never shown by color alone."""

MARK_SYMBOLS = {
    "right": "✓",
    "aside": "≈",
    "wrong": "✕",
    "missed": "○",
    "cited": "▸",
    "plain": "",
}

_MAX_SHORT_ID_LENGTH = 12

_BIDI_CONTROLS = str.maketrans(
    dict.fromkeys(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f", ""
    )
)
"""Characters that change the direction of writing, with which a note could disguise its text."""


class ResourceName(NamedTuple):
    """A resource as on a chip; an id that is `long` is cut by the style sheet, not in the text.

    So the page has the whole id to be searched, copied and read aloud.
    """

    kind: str
    id: str
    long: bool


def render(
    template_name: str,
    folders: tuple[Path, ...] = (),
    **values: Any,
) -> str:
    """Fill in a template of this folder, or of further ones; every value is escaped."""
    page = _environment(folders).get_template(template_name).render(values)
    # A damaged run may hold half surrogate pairs, which no file or reply can.
    return page.encode("utf-8", "replace").decode()


@cache
def _environment(folders: tuple[Path, ...]) -> Environment:
    environment = Environment(
        loader=FileSystemLoader([TEMPLATES, *folders]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    environment.globals["style"] = Markup(style)
    environment.globals["mark_labels"] = MARK_LABELS
    environment.globals["mark_symbols"] = MARK_SYMBOLS
    environment.globals["part_level"] = (
        4  # Headings within a case, below its own in a report.
    )
    return environment


def format_score(value: float | None, decimals: int = 1) -> str:
    """Format a score; a dash for None."""
    return "–" if value is None else f"{value:.{decimals}f}"


def signed(value: float, decimals: int = 1) -> str:
    """Format a difference with its sign and a true minus."""
    return f"{value:+.{decimals}f}".replace("-", "−")


def p_value(value: float) -> str:
    """Format a p-value with three decimals; resampling never shows that it is zero."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def count(value: int | None) -> str:
    """Format a count with thin spaces between thousands; a dash for None."""
    return "–" if value is None else f"{value:,}".replace(",", "\u202f")


def count_cases(value: int) -> str:
    """Format a number of cases, as in "1 case" and "6 cases"."""
    return "1 case" if value == 1 else f"{count(value)} cases"


def format_cost(value: float | None) -> str:
    """Format US dollars; None is "unknown", not zero."""
    if value is None:
        return "unknown"
    if value >= 0.1 or value == 0:
        return f"${value:.2f}"
    return f"${value:.4f}"


def duration(seconds: float | None) -> str:
    """Format seconds, as in 340 ms, 4.2 s, 3 min 20 s and 2 h 5 min; a dash for None."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, remainder = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {remainder} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_time(value: datetime | None) -> str:
    """Format a time in UTC to the minute; a dash for None."""
    return "–" if value is None else f"{value:%Y-%m-%d %H:%M} UTC"


def time_of_day() -> str:
    """Return the present time on the clock of this machine."""
    return f"{datetime.now().astimezone():%H:%M:%S}"


def shorten(text: str, max_length: int) -> str:
    """Cut a text to at most `max_length` characters, with an ellipsis where it was cut."""
    if len(text) <= max_length:
        return text
    return f"{text[: max_length - 1].rstrip()}…"


def strip_bidi(text: str) -> str:
    """Remove the characters that change the direction of writing."""
    return text.translate(_BIDI_CONTROLS)


def as_json(value: Any) -> str:
    """Format a value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def metric_label(name: str) -> str:
    """Return what people call a score; an unknown name with spaces for its underscores."""
    labels = read_mapping("report/data/metric_names.tsv")
    return labels.get(name, name.replace("_", " "))


def resource_name(reference: str) -> ResourceName:
    """Return the parts of `Type/id`; the type is empty if there is none."""
    kind, _, resource_id = reference.rpartition("/")
    return ResourceName(kind, resource_id, len(resource_id) > _MAX_SHORT_ID_LENGTH)


_FILTERS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        format_score,
        signed,
        p_value,
        count,
        format_cost,
        duration,
        format_time,
        shorten,
        strip_bidi,
        as_json,
        metric_label,
        resource_name,
    )
}


def brief_html(brief: Brief) -> str:
    """Return the page: the numbers of a line open the evidence below. All text is escaped."""
    return render("brief.html.jinja", brief=brief, ranges=citation_ranges, live=False)
