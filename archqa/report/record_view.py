"""The views of what was asked of a FHIR record: a question with its rows and timeline, or a task."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from archqa.core.result import reference_names
from archqa.report.figures import Axis, Tick
from archqa.report.page import MARK_SYMBOLS, shorten
from archqa.runs.record import CaseRecord
from archqa.tasks.fhir_agentbench.task import FhirQuestion, RecordResult
from archqa.tasks.medagentbench.task import ConversationResult
from scoring.fhir_answers import parse_literal

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


_MAX_ROWS = 200
_MAX_TURN_LENGTH = 4000
_MAX_TURNS = 40
_ACTIONS = frozenset({"GET", "POST", "FINISH"})
_BEGINNING = re.compile(r"[`\n ]*([^( ]*)")
"""The beginning of an agent's message, without a code fence, up to a bracket or space."""

_GRADERS = {
    "success_rate": "official grader",
    "clinical_success_rate": "clinical grader",
}


class Reference(NamedTuple):
    """A resource that was cited, or should have been."""

    name: str
    mark: str
    symbol: str


class RowView(NamedTuple):
    """One row of the query's result; the answer rests on those that are `chosen`."""

    time: str
    name: str
    value: str
    unit: str
    references: tuple[str, ...]
    chosen: bool


class FhirQuestionView(NamedTuple):
    """The result of one run for a question. `omitted` rows are in the run folder only."""

    query_text: str
    answer: str
    gold: str
    rows: tuple[RowView, ...]
    omitted: int
    chosen: int
    timelines: tuple[TimelinePanel, ...]
    references: tuple[Reference, ...]
    warnings: tuple[str, ...]
    faults: tuple[str, ...]
    query: Any


class Turn(NamedTuple):
    """One message. `role` is prompt, agent or record; `action` is empty unless the agent's."""

    role: str
    action: str
    text: str


class GraderFinding(NamedTuple):
    """One finding of a grader; `passed` is None for a remark."""

    grader: str
    passed: bool | None
    text: str


class ClinicalTaskView(NamedTuple):
    """The result of one run for a task. `omitted` messages are in the run folder only."""

    turns: tuple[Turn, ...]
    omitted: int
    answer: str
    findings: tuple[GraderFinding, ...]


def fhir_question_view(
    record: CaseRecord | None,
    gold: FhirQuestion | None,
    faults: Mapping[str, Any],
) -> FhirQuestionView:
    """Return the view of a record's `result`; fields that a pipeline does not write are empty.

    `faults` has the scorer's `tags`. Of many rows, the chosen ones are preferred.
    """
    result = RecordResult(answer=None)
    if record and isinstance(record.result, RecordResult):
        result = record.result
    answer = result.answer
    if answer is None:
        answer = record.error if record else ""
    chosen_indices = []
    other_indices = []
    for index, row in enumerate(result.rows):
        if row.get("chosen"):
            chosen_indices.append(index)
        else:
            other_indices.append(index)
    row_views = []
    for index in sorted([*chosen_indices, *other_indices][:_MAX_ROWS]):
        row_views.append(_row_view(result.rows[index]))
    fault_names = []
    for tag in faults.get("tags") or ():
        fault_names.append(str(tag).replace("_", " "))
    return FhirQuestionView(
        query_text=result.sentence,
        answer=answer_text(answer),
        gold=answer_text(gold.true_answer) if gold else "",
        rows=tuple(row_views),
        omitted=len(result.rows) - len(row_views),
        chosen=len(chosen_indices),
        timelines=timeline_panels(result.rows),
        references=_references(result, gold),
        warnings=result.warnings,
        faults=tuple(fault_names),
        query=result.query,
    )


def _row_view(row: Mapping[str, Any]) -> RowView:
    references = row.get("references") or ()
    if isinstance(references, str):
        references = (references,)
    time = str(row.get("time") or "")
    return RowView(
        time=time.replace("T", " ")[:16],
        name=_value_text(row.get("name")),
        value=_value_text(row.get("value")) or _value_text(row.get("text")),
        unit=_value_text(row.get("unit")),
        references=tuple(map(str, references)),
        chosen=bool(row.get("chosen")),
    )


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _references(
    result: RecordResult, gold: FhirQuestion | None
) -> tuple[Reference, ...]:
    cited = set(reference_names(result.cited or result.retrieved))
    expected = set(reference_names(gold.true_fhir_ids)) if gold else set()
    references = []
    for name in sorted(cited | expected):
        mark = "cited"
        if name not in cited:
            mark = "missed"
        elif gold is not None:
            mark = "right" if name in expected else "wrong"
        references.append(Reference(name, mark, MARK_SYMBOLS[mark]))
    return tuple(references)


def answer_text(answer: str) -> str:
    """Return the values of an answer that is a JSON list or a printed array.

    `["a", "b"]` becomes `a, b`, and `[["a", 1], ["b", 2]]` becomes `a, 1; b, 2`. Any other text is
    returned as it is.
    """
    values = parse_literal(answer) if answer.lstrip().startswith("[") else None
    if not isinstance(values, list):
        return answer
    if all(isinstance(value, list) and len(value) == 1 for value in values):
        values = [value[0] for value in values]
    if any(isinstance(value, list) for value in values):
        return "; ".join(map(_list_text, values))
    return _list_text(values)


def _list_text(values: Any) -> str:
    texts = []
    for value in values if isinstance(values, list) else [values]:
        if value is None:
            texts.append("no value")
        elif isinstance(value, str):
            texts.append(value)
        else:
            texts.append(json.dumps(value, ensure_ascii=False, default=str))
    return ", ".join(texts) or "no value"


def clinical_task_view(
    record: CaseRecord | None,
    scores: Mapping[str, float],
    faults: Mapping[str, Any],
) -> ClinicalTaskView:
    """Return the view of a record's `result`.

    `scores` are those of the task, 100 for a pass; `faults` are the mistakes by grader.
    """
    result = ConversationResult(result="")
    if record and isinstance(record.result, ConversationResult):
        result = record.result
    turns = []
    for index, message in enumerate(result.history[:_MAX_TURNS]):
        text = str(message.get("content") or "")
        role = "record" if index else "prompt"
        action = ""
        if message.get("role") in {"agent", "assistant"}:
            role = "agent"
            beginning = _BEGINNING.match(text)
            word = beginning.group(1).upper() if beginning else ""
            action = word if word in _ACTIONS else ""
        turns.append(Turn(role, action, shorten(text, _MAX_TURN_LENGTH)))
    findings = []
    for metric, grader in _GRADERS.items():
        if metric in scores:
            passed = scores[metric] > 0
            findings.append(
                GraderFinding(grader, passed, "passed" if passed else "not passed")
            )
    for grader, grader_faults in faults.items():
        if not isinstance(grader_faults, list | tuple):
            grader_faults = [grader_faults]
        for fault in filter(None, grader_faults):
            fault_text = str(fault)
            if isinstance(fault, Mapping):
                parts = [str(part) for part in fault.values() if part not in (None, "")]
                fault_text = ": ".join(parts)
            findings.append(GraderFinding(f"{grader} grader", None, fault_text))
    return ClinicalTaskView(
        turns=tuple(turns),
        omitted=len(result.history) - len(turns),
        answer=result.result or "",
        findings=tuple(findings),
    )
