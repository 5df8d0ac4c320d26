"""The timeline: a patient's values over time, with those that the answer rests on marked."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

from archqa.report.axis import Axis, Tick

WIDTH, HEIGHT = 640, 180
_MAX_PANELS = 4
_MAX_POINTS = 600
_DATE_TICKS = 4
_THREE_DAYS = 3 * 86400
_MIN_LABEL_WIDTH = 48.0
_CHARACTER_WIDTH = 8.5
"""Of a digit at the size of the labels; the widest of the usual faces."""
_LABEL_GAP = 12.0


class TimelinePoint(NamedTuple):
    """One value at one time."""

    x: float
    y: float
    chosen: bool
    tooltip: str


class TimelinePanel(NamedTuple):
    """One kind of value in one unit, with its own axes. `path` joins the points in time.

    `left` is where the drawing begins, after the labels of the vertical axis. `clock` says whose
    time the horizontal axis has, empty if the record does not say. `omitted` values are not drawn.
    """

    title: str
    unit: str
    points: tuple[TimelinePoint, ...]
    path: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    left: float
    clock: str
    omitted: int


class _Measurement(NamedTuple):
    time: datetime
    value: float
    chosen: bool
    has_zone: bool


class _Series(NamedTuple):
    name: str
    unit: str
    measurements: list[_Measurement]


def timeline_panels(rows: Iterable[Mapping[str, Any]]) -> tuple[TimelinePanel, ...]:
    """Return a panel for each name and unit with at least two dated numbers.

    At most four: first those with chosen values, then those with the most values.
    """
    all_series: dict[tuple[str, str], _Series] = {}
    for row in rows:
        measurement = _parse_row(row)
        if measurement is None:
            continue
        name = str(row.get("name") or "")
        unit = str(row.get("unit") or "")
        series = all_series.setdefault((name, unit), _Series(name, unit, []))
        series.measurements.append(measurement)
    drawable = [series for series in all_series.values() if len(series.measurements) > 1]
    drawable.sort(key=_priority, reverse=True)
    return tuple(_panel(series) for series in drawable[:_MAX_PANELS])


def _parse_row(row: Mapping[str, Any]) -> _Measurement | None:
    """Return the measurement of a row; None without a time or a finite number."""
    try:
        time = datetime.fromisoformat(str(row.get("time")))
        value = float(str(row.get("value")))
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    has_zone = time.tzinfo is not None
    if not has_zone:
        time = time.replace(tzinfo=UTC)
    return _Measurement(time, value, bool(row.get("chosen")), has_zone)


def _priority(series: _Series) -> tuple[bool, int]:
    has_chosen = any(measurement.chosen for measurement in series.measurements)
    return has_chosen, len(series.measurements)


def _panel(series: _Series) -> TimelinePanel:
    ordered = sorted(series.measurements)
    shown = _thin_out(ordered)
    start = shown[0].time.timestamp()
    end = shown[-1].time.timestamp()
    y_axis = _value_axis([measurement.value for measurement in shown])
    y_ticks = y_axis.ticks(4)
    left = _label_width(y_ticks)
    x_axis = Axis(start, end, left, WIDTH - 12)
    points = [_point(measurement, series.unit, x_axis, y_axis) for measurement in shown]
    path = "M" + " L".join(f"{point.x} {point.y}" for point in points)
    return TimelinePanel(
        title=series.name,
        unit=series.unit,
        points=tuple(points),
        path=path,
        x_ticks=_date_ticks(x_axis, shown),
        y_ticks=y_ticks,
        left=left,
        clock=_clock(shown),
        omitted=len(ordered) - len(shown),
    )


def _point(measurement: _Measurement, unit: str, x_axis: Axis, y_axis: Axis) -> TimelinePoint:
    tooltip = f"{measurement.time:%Y-%m-%d %H:%M}  {measurement.value:g} {unit}"
    return TimelinePoint(
        x=x_axis(measurement.time.timestamp()),
        y=y_axis(measurement.value),
        chosen=measurement.chosen,
        tooltip=tooltip.strip(),
    )


def _value_axis(values: list[float]) -> Axis:
    """Return the vertical axis, with a margin even if all values are equal."""
    low = min(values)
    high = max(values)
    margin = (high - low) * 0.08
    if not margin:
        margin = abs(low) * 0.1 or 1.0
    return Axis(low - margin, high + margin, HEIGHT - 24, 8)


def _thin_out(measurements: list[_Measurement]) -> list[_Measurement]:
    """Keep as many measurements as can be told apart, all chosen ones and both ends."""
    step = len(measurements) // _MAX_POINTS + 1
    last_index = len(measurements) - 1
    shown = []
    for index, measurement in enumerate(measurements):
        is_sampled = index % step == 0
        if is_sampled or measurement.chosen or index == last_index:
            shown.append(measurement)
    return shown


def _label_width(ticks: tuple[Tick, ...]) -> float:
    """Return the room that the labels of the vertical axis need, so that none is cropped."""
    longest = max((len(tick.label) for tick in ticks), default=0)
    return max(_MIN_LABEL_WIDTH, longest * _CHARACTER_WIDTH + _LABEL_GAP)


def _clock(measurements: list[_Measurement]) -> str:
    """Say whose time it is: the record's own, with its offset from UTC if that is always one."""
    offsets = {measurement.time.utcoffset() for measurement in measurements if measurement.has_zone}
    if not offsets:
        return ""
    if len(offsets) > 1:
        return "Times as in the record, whose offset from UTC changes."
    first = next(measurement for measurement in measurements if measurement.has_zone)
    return f"Times as in the record ({first.time.tzname()}).".replace("-", "−")


def _zone_at(timestamp: float, measurements: list[_Measurement]) -> tzinfo | None:
    """Return the time zone of the last measurement until then: summer time may begin within."""
    zone = measurements[0].time.tzinfo
    for measurement in measurements:
        if measurement.time.timestamp() > timestamp:
            break
        zone = measurement.time.tzinfo
    return zone


def _date_ticks(axis: Axis, measurements: list[_Measurement]) -> tuple[Tick, ...]:
    """Return four dates along the axis, with the time if all lies within three days.

    They are on the record's own clock, as are the times of its rows.
    """
    span = axis.high - axis.low
    date_format = "%d %b %H:%M" if span < _THREE_DAYS else "%Y-%m-%d"
    ticks: dict[str, Tick] = {}
    for index in range(_DATE_TICKS):
        timestamp = axis.low + span * (index + 0.5) / _DATE_TICKS
        zone = _zone_at(timestamp, measurements)
        label = datetime.fromtimestamp(timestamp, zone).strftime(date_format)
        ticks.setdefault(label, Tick(axis(timestamp), label))
    return tuple(ticks.values())
