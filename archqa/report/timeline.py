"""The timeline: a patient's values over time, with those that the answer rests on marked."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from archqa.report.figures import Axis, Tick

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


def timeline_panels(rows: Iterable[Mapping[str, Any]]) -> tuple[TimelinePanel, ...]:
    """Return a panel for each name and unit with at least two dated numbers.

    At most four: first those with chosen values, then those with the most values.
    """
    all_series: dict[tuple[str, str], list[_Measurement]] = {}
    for row in rows:
        measurement = _parse_row(row)
        if measurement is not None:
            name = str(row.get("name") or "")
            unit = str(row.get("unit") or "")
            all_series.setdefault((name, unit), []).append(measurement)
    priorities = {}
    for name_and_unit, measurements in all_series.items():
        if len(measurements) > 1:
            has_chosen = any(measurement.chosen for measurement in measurements)
            priorities[name_and_unit] = (has_chosen, len(measurements))
    by_priority = sorted(priorities, key=priorities.__getitem__, reverse=True)
    panels = []
    for name, unit in by_priority[:_MAX_PANELS]:
        measurements = sorted(all_series[name, unit])
        panels.append(_panel(name, unit, measurements))
    return tuple(panels)


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


def _panel(
    name: str,
    unit: str,
    measurements: Sequence[_Measurement],
) -> TimelinePanel:
    """Draw a series in the order of time."""
    drawn = []
    # As many measurements as can be told apart, all chosen ones and both ends.
    step = len(measurements) // _MAX_POINTS + 1
    for index, measurement in enumerate(measurements):
        is_last = index == len(measurements) - 1
        if index % step == 0 or measurement.chosen or is_last:
            drawn.append(measurement)
    values = [measurement.value for measurement in drawn]
    low, high = min(values), max(values)
    # The vertical axis has a margin even if all values are equal.
    margin = (high - low) * 0.08 or abs(low) * 0.1 or 1.0
    y_axis = Axis(low - margin, high + margin, HEIGHT - 24, 8)
    y_ticks = y_axis.ticks(4)
    # The labels of the vertical axis need room, so that none is cropped.
    longest = max((len(tick.label) for tick in y_ticks), default=0)
    left = max(_MIN_LABEL_WIDTH, longest * _CHARACTER_WIDTH + _LABEL_GAP)
    start = drawn[0].time.timestamp()
    end = drawn[-1].time.timestamp()
    x_axis = Axis(start, end, left, WIDTH - 12)
    points = []
    for measurement in drawn:
        tooltip = f"{measurement.time:%Y-%m-%d %H:%M}  {measurement.value:g} {unit}"
        x = x_axis(measurement.time.timestamp())
        y = y_axis(measurement.value)
        points.append(TimelinePoint(x, y, measurement.chosen, tooltip.strip()))
    return TimelinePanel(
        title=name,
        unit=unit,
        points=tuple(points),
        path="M" + " L".join(f"{point.x} {point.y}" for point in points),
        x_ticks=_date_ticks(x_axis, drawn),
        y_ticks=y_ticks,
        left=left,
        clock=_clock(drawn),
        omitted=len(measurements) - len(drawn),
    )


def _clock(measurements: Sequence[_Measurement]) -> str:
    """Say whose time it is: the record's own, with its offset from UTC if that is always one."""
    offsets: dict[timedelta | None, str | None] = {}
    for measurement in measurements:
        time = measurement.time
        if measurement.has_zone:
            offsets.setdefault(time.utcoffset(), time.tzname())
    if not offsets:
        return ""
    if len(offsets) > 1:
        return "Times as in the record, whose offset from UTC changes."
    [zone_name] = offsets.values()
    return f"Times as in the record ({zone_name}).".replace("-", "−")


def _date_ticks(axis: Axis, measurements: Sequence[_Measurement]) -> tuple[Tick, ...]:
    """Return four dates along the axis, with the time if all lies within three days.

    They are on the record's own clock, as are the times of its rows: each has the time zone of the
    last measurement until then, since summer time may begin within the panel.
    """
    span = axis.high - axis.low
    date_format = "%d %b %H:%M" if span < _THREE_DAYS else "%Y-%m-%d"
    ticks: dict[str, Tick] = {}
    for index in range(_DATE_TICKS):
        timestamp = axis.low + span * (index + 0.5) / _DATE_TICKS
        zone = measurements[0].time.tzinfo
        for measurement in measurements:
            if measurement.time.timestamp() > timestamp:
                break
            zone = measurement.time.tzinfo
        label = datetime.fromtimestamp(timestamp, zone).strftime(date_format)
        ticks.setdefault(label, Tick(axis(timestamp), label))
    return tuple(ticks.values())
