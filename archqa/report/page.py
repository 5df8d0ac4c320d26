"""Rendering of HTML: one jinja environment that escapes every value, and its filters."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from archqa.report.answer_text import answer_text
from archqa.report.metric_names import metric_label
from archqa.report.resource_names import resource_name

TEMPLATES = Path(__file__).resolve().parent / "templates"

_BIDI_CONTROLS = str.maketrans(
    dict.fromkeys("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f", "")
)
"""Characters that change the direction of writing, with which a note could disguise its text."""


def render(template: str, **values: Any) -> str:
    """Fill in a template of this folder; every value is escaped."""
    return encodable(jinja_environment().get_template(template).render(**values))


def encodable(text: str) -> str:
    """Replace half surrogate pairs, which a damaged run may hold and no file or reply can."""
    return text.encode("utf-8", "replace").decode()


@cache
def jinja_environment(*extra_folders: Path) -> Environment:
    """Return the environment, with further folders of templates if the live pages need them."""
    environment = Environment(
        loader=FileSystemLoader([TEMPLATES, *extra_folders]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    environment.globals["style"] = Markup(style)
    environment.globals["part_level"] = 4  # Headings within a case, below its own in a report.
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
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_time(value: datetime | None) -> str:
    """Format a time in UTC to the minute; a dash for None."""
    return "–" if value is None else f"{value:%Y-%m-%d %H:%M} UTC"


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


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "format_score": format_score,
    "signed": signed,
    "p_value": p_value,
    "count": count,
    "format_cost": format_cost,
    "duration": duration,
    "format_time": format_time,
    "shorten": shorten,
    "strip_bidi": strip_bidi,
    "as_json": as_json,
    "answer_text": answer_text,
    "metric_label": metric_label,
    "resource_name": resource_name,
}
