"""Words and numbers become HTML here and nowhere else: one jinja environment that escapes whatever it is given."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

TEMPLATES = Path(__file__).resolve().parent / "templates"

_BIDI = str.maketrans(
    dict.fromkeys("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f", "")
)
"""Characters that turn the writing round are dropped: with them a note could show another text than it holds."""


def render(template: str, **values: Any) -> str:
    """A template of this room, filled in; every value is escaped."""
    return jinja_environment().get_template(template).render(**values)


@cache
def jinja_environment(*more: Path) -> Environment:
    """The environment; `more` are folders of templates beside this room's, as the live pages have them."""
    found = Environment(
        loader=FileSystemLoader([TEMPLATES, *more]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(_FILTERS)
    found.globals["style"] = Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))
    return found


def format_score(value: float | None, digits: int = 1) -> str:
    """A score with so many digits; a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def signed(value: float, digits: int = 1) -> str:
    """A difference, with its sign; a true minus."""
    return f"{value:+.{digits}f}".replace("-", "−")


def p_value(value: float) -> str:
    """A p-value to three places; no resampling shows that it is nothing."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def count(value: int | None) -> str:
    """A count with thin spaces between thousands; a dash for None."""
    return "–" if value is None else f"{value:,}".replace(",", "\u202f")


def format_cost(value: float | None) -> str:
    """US dollars; "unknown" for None, which is never nothing."""
    if value is None:
        return "unknown"
    return f"${value:.2f}" if value >= 0.1 or value == 0 else f"${value:.4f}"


def duration(seconds: float | None) -> str:
    """Seconds as people say them: 340 ms, 4.2 s, 3 min 20 s, 2 h 5 min; a dash for None."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_time(value: datetime | None) -> str:
    """A time in UTC to the minute; a dash for None."""
    return "–" if value is None else f"{value:%Y-%m-%d %H:%M} UTC"


def shorten(text: str, most: int) -> str:
    """A text cut to so many characters, with an ellipsis where something was cut."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def strip_bidi(text: str) -> str:
    """A text of the record without characters that turn its direction round."""
    return text.translate(_BIDI)


def as_json(value: Any) -> str:
    """A value as indented JSON."""
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
}
