"""The values of a patient over time, as rows of a record hold them; those an answer rests on stand out."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from archqa.report.axis import Axis, Tick

WIDTH, HEIGHT = 640, 180
_MOST_PANELS = 4
_MOST_DOTS = 600


class TimelinePoint(NamedTuple):
    """One value at one time."""

    x: float
    y: float
    chosen: bool
    words: str


class TimelinePanel(NamedTuple):
    """One kind of value in one unit, with its own axes. `path` joins the values in time."""

    title: str
    unit: str
    dots: tuple[TimelinePoint, ...]
    path: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    left_out: int


class _Row(NamedTuple):
    at: datetime
    value: float
    chosen: bool


def timeline_panels(rows: Iterable[Mapping[str, Any]]) -> tuple[TimelinePanel, ...]:
    """A panel for each name and unit with at least two dated numbers, those with chosen values first, at most four."""
    kinds: dict[tuple[str, str], list[_Row]] = {}
    for row in rows:
        if read := _read(row):
            kinds.setdefault((str(row.get("name") or ""), str(row.get("unit") or "")), []).append(
                read
            )
    drawable = [(kind, sorted(found)) for kind, found in kinds.items() if len(found) > 1]
    drawable.sort(key=lambda each: (-any(row.chosen for row in each[1]), -len(each[1])))
    return tuple(_panel(name, unit, found) for (name, unit), found in drawable[:_MOST_PANELS])


def _read(row: Mapping[str, Any]) -> _Row | None:
    try:
        at = datetime.fromisoformat(str(row.get("time")))
        value = float(str(row.get("value")))
    except ValueError:
        return None
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    return (
        _Row(aware, value, bool(row.get("chosen")))
        if value == value and abs(value) != float("inf")
        else None
    )


def _panel(name: str, unit: str, rows: list[_Row]) -> TimelinePanel:
    shown = _thinned(rows)
    values = [row.value for row in shown]
    margin = (max(values) - min(values)) * 0.08 or abs(values[0]) * 0.1 or 1.0
    x = Axis(shown[0].at.timestamp(), shown[-1].at.timestamp(), 48, WIDTH - 12)
    y = Axis(min(values) - margin, max(values) + margin, HEIGHT - 24, 8)
    dots = tuple(
        TimelinePoint(
            x(row.at.timestamp()),
            y(row.value),
            row.chosen,
            f"{row.at:%Y-%m-%d %H:%M}  {row.value:g} {unit}".strip(),
        )
        for row in shown
    )
    path = " ".join(f"{'L' if at else 'M'}{dot.x} {dot.y}" for at, dot in enumerate(dots))
    return TimelinePanel(name, unit, dots, path, _dates(x), y.ticks(4), len(rows) - len(shown))


def _thinned(rows: list[_Row]) -> list[_Row]:
    """So many rows as can be told apart; every chosen one stays, and the ends do."""
    step = len(rows) // _MOST_DOTS + 1
    return [
        row for at, row in enumerate(rows) if at % step == 0 or row.chosen or at == len(rows) - 1
    ]


def _dates(x: Axis) -> tuple[Tick, ...]:
    """Four dates along the axis; with the hour where all lies within three days."""
    form = "%d %b %H:%M" if x.high - x.low < 3 * 86400 else "%Y-%m-%d"
    found: dict[str, Tick] = {}
    for each in range(4):
        at = x.low + (x.high - x.low) * (each + 0.5) / 4
        label = datetime.fromtimestamp(at, UTC).strftime(form)
        found.setdefault(label, Tick(x(at), label))
    return tuple(found.values())
