"""Selection of the requested rows: names, visit, time, the other limits, the position in time."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from archqa.query.execution.context import (
    ExecutionContext,
    Scope,
    position_index,
    uses_end_time,
)
from archqa.query.execution.declared_rows import (
    declared_rows,
    diagnoses,
    procedures,
    with_people_or_places,
    with_reasons,
)
from archqa.query.execution.findings import SearchStep
from archqa.query.execution.medications import administrations, medications
from archqa.query.execution.named_rows import (
    ConceptMatcher,
    NameMatcher,
    Wanted,
    concepts_of_rows,
    first_and_last,
    select_named,
    series_by_part,
)
from archqa.query.execution.observations import (
    count_measurements,
    measurements,
    microbiology,
    observations,
    reads_all,
    reads_all_locally,
    results_of_kind,
)
from archqa.query.execution.patient import (
    care_units,
    encounters,
    hospital_visits,
    icu_stays,
    patient_rows,
)
from archqa.query.execution.row_limits import (
    filter_by_attributes,
    filter_by_class,
    filter_by_flag,
    filter_by_reason,
    filter_by_scope,
    filter_by_state,
    keep_facts,
)
from archqa.query.execution.rows import Row
from archqa.query.execution.time_windows import LEFT_OUT, split_later
from archqa.query.kinds import KINDS, Reader
from archqa.query.model import Companion, Query
from archqa.query.scope import When
from archqa.terminology.concept import Concept
from archqa.terminology.units import convert, ucum_unit

_READERS: dict[Reader, Callable[[ExecutionContext], list[Row]]] = {
    "medications": medications,
    "administrations": administrations,
    "procedures": procedures,
    "diagnoses": diagnoses,
    "hospital_visits": hospital_visits,
    "icu_stays": icu_stays,
    "care_units": care_units,
    "encounters": encounters,
    "patient_rows": patient_rows,
}


def fetch_rows(context: ExecutionContext, what: str, wanted: Wanted, scope: Scope) -> list[Row]:
    """Rows of one kind with one of the names; none for a visit that does not exist."""
    if scope.visit_not_found:
        return []
    kind = KINDS[what]
    if kind.reader == "measurements":
        by_category = context.conventions.name_matching == "words" and what != "output"
        if by_category and reads_all_locally(context):
            return results_of_kind(context, what, wanted)
        return measurements(context, what, wanted, scope)
    if kind.reader == "observations":
        return observations(context, wanted, scope)
    if kind.reader == "microbiology":
        rows = microbiology(context, what)
    elif kind.reader == "declared":
        rows = declared_rows(context, what)
    else:
        rows = _READERS[kind.reader](context)
    return select_named(context, what, rows, wanted)


def count_in_record(context: ExecutionContext, what: str, scope: Scope) -> int:
    """The number of rows of a kind, whatever their name, in the whole record of the patient."""
    if scope.visit_not_found:
        return 0
    if KINDS[what].reader == "measurements":
        return count_measurements(context, what)
    if KINDS[what].reader == "observations" and not reads_all(context):
        return context.chart.observation_count
    return len(fetch_rows(context, what, Wanted(), scope))


def with_common_units(
    context: ExecutionContext, rows: Sequence[Row], matcher: ConceptMatcher
) -> list[Row]:
    """The rows, converted where those of one measurement differ in unit, with a warning.

    A value that cannot be converted stays as it is; `recorded_value` tells what the record has.
    """
    if not matcher:
        return list(rows)
    concepts = [matcher.concept_of(row.codings) for row in rows]
    units = _unit_of_each(rows, concepts)
    return [
        _converted(context, row, concept, units.get(concept.name, "")) if concept else row
        for row, concept in zip(rows, concepts, strict=True)
    ]


def _unit_of_each(rows: Sequence[Row], concepts: Sequence[Concept | None]) -> dict[str, str]:
    """The unit to show each measurement in, by its concept: that of the most rows, if they differ.

    Units that only differ in spelling are one unit, in the spelling that most rows have.
    """
    counts: dict[str, Counter[str]] = {}
    wanted: dict[str, str | None] = {}
    for row, concept in zip(rows, concepts, strict=True):
        if concept is not None and row.value is not None and row.unit:
            counts.setdefault(concept.name, Counter())[row.unit] += 1
            wanted[concept.name] = concept.unit
    units = {}
    for name, spellings in counts.items():
        units[name] = _common_unit(spellings, wanted[name])
    return units


def _common_unit(spellings: Counter[str], concept_unit: str | None) -> str:
    most_frequent = spellings.most_common(1)[0][0]
    if len({_normal(unit) for unit in spellings}) == 1:
        return most_frequent
    for unit, _ in spellings.most_common():
        if concept_unit is not None and _normal(unit) == _normal(concept_unit):
            return unit
    return concept_unit or most_frequent


def _normal(unit: str) -> str:
    return ucum_unit(unit) or unit.strip().lower()


def _converted(context: ExecutionContext, row: Row, concept: Concept, unit: str) -> Row:
    if row.value is None or not unit or row.unit in {unit, ""}:
        return row
    if _normal(row.unit) == _normal(unit):
        return replace(row, unit=unit)
    number = convert(row.value, row.unit, unit, concept)
    if number is None:
        return row
    context.warn(f"Values of {concept.name} in {row.unit} are converted to {unit}.")
    recorded = f"{row.value:g} {row.unit}"
    facts = {**row.facts, "recorded_value": (recorded,)}
    return replace(row, value=_rounded(number), unit=unit, facts=facts)


def _rounded(number: float) -> float:
    """Four significant digits: a conversion is no more precise than a result."""
    return float(f"{number:.4g}")


_SHARED_TIME_FIELDS = {"same_time": 6, "same_day": 3, "same_month": 2}
"""How many of year, month, day, hour, minute and second two rows must share."""


class RowSelection(NamedTuple):
    """All rows that pass the limits, oldest first, and the requested ones of them."""

    rows: list[Row]
    chosen: list[Row]


def select_rows(context: ExecutionContext, wanted: Wanted, when: When) -> RowSelection:
    """The rows of one side of a query."""
    query = context.query
    if query.what == "patient":
        return _select_patient(context, when)
    by_end = uses_end_time(query)
    matcher = row_matcher(context, wanted)
    rows = _rows_within_limits(context, wanted, when, matcher, by_end=by_end)
    rows = _without_later_rows(context, rows, by_end=by_end)
    rows = _sorted_by_time(context, rows, by_end=by_end)
    context.note_search(f"{len(rows)} of them pass every limit")
    rows = _with_returned_details(context, rows)
    extreme_rows = _filter_by_extreme(query, rows, matcher)
    chosen = _at_position(context, extreme_rows, when, matcher, by_end=by_end)
    if query.newest:
        chosen = _of_latest_times(chosen, query.newest)
    if query.summary == "change":
        chosen = first_and_last(chosen, matcher)
    return RowSelection(rows, chosen)


def _without_later_rows(context: ExecutionContext, rows: list[Row], *, by_end: bool) -> list[Row]:
    """The rows without those after the time of the question, by the conventions; they are counted."""
    earlier, later = split_later(rows, context.cutoff, by_end=by_end)
    if later:
        kind = KINDS[context.query.what]
        noun = kind.plural if len(later) > 1 else kind.singular
        context.warn(f"{LEFT_OUT}: {len(later)} {noun}.")
        context.note_step("up to the time of the question", earlier)
    return earlier


def _of_latest_times(rows: list[Row], count: int) -> list[Row]:
    """The rows of the latest times; those without a time are left out."""
    times = sorted({row.time for row in rows if row.time is not None})[-count:]
    return [row for row in rows if row.time in times]


def _rows_within_limits(
    context: ExecutionContext,
    wanted: Wanted,
    when: When,
    matcher: ConceptMatcher,
    *,
    by_end: bool,
) -> list[Row]:
    """The rows that pass every limit but the extreme and the position; each limit is noted."""
    query = context.query
    scope = context.resolve_scope(when)
    rows = fetch_rows(context, query.what, wanted, scope)
    _note_fetched(context, wanted, scope, rows)
    rows = with_common_units(context, rows, matcher)
    facts, others = keep_facts(context, rows)
    context.left_out += _pass_quietly(context, others, when, by_end=by_end)
    rows = filter_by_scope(context, facts, query.what, when, scope, by_end=by_end)
    if str(when):
        context.note_step(str(when), rows)
    rows = _resolve_censored_values(context, rows)
    return _filter_by_row_limits(context, rows)


def _filter_by_row_limits(context: ExecutionContext, rows: list[Row]) -> list[Row]:
    """The rows that pass the limits on what they are, not on when: each that is set is noted."""
    query = context.query
    rows = _noted(context, filter_by_attributes(context, rows), rows, "with the other limits")
    if query.state:
        rows = filter_by_state(context, rows)
        context.note_step(query.state, rows)
    if query.flag:
        rows = filter_by_flag(context, rows)
        context.note_step(query.flag, rows)
    if query.classes:
        rows = filter_by_class(context, rows)
        context.note_step(" or ".join(query.classes), rows)
    if query.reasons:
        rows = filter_by_reason(context, rows)
        context.note_step(f"for {' or '.join(query.reasons)}", rows)
    if query.companion is not None:
        rows = _filter_by_companion(context, rows, query.companion)
        context.note_step(f"near {KINDS[query.companion.what].plural}", rows)
    return rows


def _noted(
    context: ExecutionContext, remaining: list[Row], rows: Sequence[Row], limit: str
) -> list[Row]:
    """The remaining rows; noted only if the limit took any away."""
    if len(remaining) < len(rows):
        context.note_step(limit, remaining)
    return remaining


def _pass_quietly(
    context: ExecutionContext, rows: list[Row], when: When, *, by_end: bool
) -> list[Row]:
    """The rows that are no facts but pass the other limits, without steps and warnings of theirs."""
    if not rows:
        return []
    quiet = replace(context, warnings={}, searched={}, steps=[], left_out=[])
    scope = quiet.resolve_scope(when)
    rows = filter_by_scope(quiet, rows, context.query.what, when, scope, by_end=by_end)
    rows = filter_by_attributes(quiet, rows)
    rows = filter_by_class(quiet, rows)
    rows, _ = split_later(rows, context.cutoff, by_end=by_end)
    return _sorted_by_time(quiet, rows, by_end=by_end)


def _note_fetched(
    context: ExecutionContext, wanted: Wanted, scope: Scope, rows: Sequence[Row]
) -> None:
    """What was searched: how many rows the record has, and how many of them have the name."""
    what = context.query.what
    names = f" named {wanted}" if not wanted.is_everything else ""
    context.note_search(f"{KINDS[what].plural}{names}: {len(rows)} in the record")
    if context.conventions.name_matching == "words":
        total = len(rows) if wanted.is_everything else count_in_record(context, what, scope)
        context.steps.append(
            SearchStep(f"{KINDS[what].plural} in the record", max(total, len(rows)))
        )
    if not wanted.is_everything:
        context.note_step(f"of {wanted}", rows)


def row_matcher(context: ExecutionContext, wanted: Wanted) -> ConceptMatcher:
    """Which codes the concepts of one side of a query mean."""
    concepts = concepts_of_rows(wanted.concepts, context.query.what)
    return ConceptMatcher(
        concepts,
        past=context.query.state != "current",
        in_text=context.query.what == "goal",
    )


def _with_returned_details(context: ExecutionContext, rows: list[Row]) -> list[Row]:
    """The rows with what they refer to, if the query returns it; reasons are evidence then."""
    query = context.query
    if query.returns in {"practitioner", "place"}:
        return with_people_or_places(context, rows, query.what, query.returns)
    if query.returns != "reason":
        return rows
    rows = with_reasons(context, rows, query.what)
    return [_with_reason_refs(row) for row in rows]


def _with_reason_refs(row: Row) -> Row:
    return replace(row, refs=tuple(dict.fromkeys((*row.refs, *row.reason_refs))))


def _select_patient(context: ExecutionContext, when: When) -> RowSelection:
    """The patient, whatever the time: a Patient resource describes the person as of now."""
    has_time = when.spans or when.visit or when.position
    if has_time and context.query.returns != "age":
        context.warn(
            "The record says this of the patient as of now, not of the time that is asked for."
        )
    rows = patient_rows(context)
    context.note_search(f"patients: {len(rows)} in the record")
    context.note_step("patients in the record", rows)
    rows = _with_returned_details(context, rows)
    return RowSelection(rows, rows)


def _resolve_censored_values(context: ExecutionContext, rows: list[Row]) -> list[Row]:
    """Values such as `< 0.01`, by the conventions."""
    censored = [row for row in rows if row.comparator]
    if not censored:
        return rows
    fact = f"{len(censored)} of {len(rows)} values are only bounds (such as < 5)"
    if context.conventions.censored_values == "as_bound":
        context.warn(f"{fact}: the bound stands in.")
        return rows
    context.warn(f"{fact} and are no numbers here.")
    return list(map(_without_number, rows))


def _without_number(row: Row) -> Row:
    if not row.comparator:
        return row
    return replace(row, value=None, text=f"{row.comparator} {row.value}")


def _filter_by_companion(
    context: ExecutionContext, rows: list[Row], companion: Companion
) -> list[Row]:
    """Rows near a companion row, which is added as context, not as evidence."""
    companion_rows = _companion_rows(context, companion)
    matching_rows = []
    for row in rows:
        refs: dict[str, None] = {}
        for companion_row in companion_rows:
            if _is_near(row, companion_row, companion):
                refs[companion_row.refs[0]] = None
        if refs:
            context_refs = (*row.context_refs, *refs)
            matching_rows.append(replace(row, context_refs=context_refs))
    return matching_rows


def _companion_rows(context: ExecutionContext, companion: Companion) -> list[Row]:
    scope = context.resolve_scope(companion.when)
    wanted = Wanted(companion.names, companion.concepts)
    rows = fetch_rows(context, companion.what, wanted, scope)
    rows, _ = keep_facts(replace(context, steps=[]), rows, companion.what)
    rows = filter_by_scope(context, rows, companion.what, companion.when, scope)
    if companion.routes:
        matches = NameMatcher(companion.routes, (), context.conventions)
        rows = [row for row in rows if matches(*row.facts.get("route", ()))]
    rows, _ = split_later(rows, context.cutoff)
    rows = _sorted_by_time(context, rows)
    return _at_position(context, rows, companion.when, ConceptMatcher(()))


def _is_near(row: Row, companion_row: Row, companion: Companion) -> bool:
    if row.refs == companion_row.refs:
        return False
    if companion.within == "same_visit" and not _share_visit(row, companion_row):
        return False
    if companion.within == "stay":
        return _is_within(row, companion_row)
    return _is_near_in_time(row, companion_row, companion)


def _is_near_in_time(row: Row, companion_row: Row, companion: Companion) -> bool:
    row_time = row.local_time
    companion_time = companion_row.local_time
    fields = _SHARED_TIME_FIELDS.get(companion.within, 0)
    if fields == 0 and companion.order == "any":
        return True
    if row_time is None or companion_time is None:
        return False
    if row_time.timetuple()[:fields] != companion_time.timetuple()[:fields]:
        return False
    if companion.order == "after":
        return row_time > companion_time
    if companion.order == "before":
        return row_time < companion_time
    return True


def _is_within(row: Row, stay: Row) -> bool:
    """Whether a row lies between the start and the end of a stay, which may still last."""
    if row.time is None or stay.time is None or row.time < stay.time:
        return False
    return stay.end is None or row.time <= stay.end


def _share_visit(row: Row, companion_row: Row) -> bool:
    visit_id = row.hospital_visit_id
    return bool(visit_id) and visit_id == companion_row.hospital_visit_id


def _filter_by_extreme(query: Query, rows: list[Row], matcher: ConceptMatcher) -> list[Row]:
    """Only the rows with the smallest or largest value, if requested.

    Of a measurement of several parts, such as a blood pressure, all parts of the time at which the
    first part has it.
    """
    if query.extreme is None:
        return rows
    series = series_by_part(rows, matcher)
    extreme_rows = _with_extreme_value(query.extreme, series[0].rows)
    if len(series) == 1:
        return extreme_rows
    times = {row.time for row in extreme_rows}
    return [row for each in series for row in each.rows if row.time in times]


def _with_extreme_value(extreme: str, rows: Sequence[Row]) -> list[Row]:
    values = [row.value for row in rows if row.value is not None]
    if not values:
        return []
    value = max(values)
    if extreme == "minimum":
        value = min(values)
    return [row for row in rows if row.value == value]


def _at_position(
    context: ExecutionContext,
    rows: Sequence[Row],
    when: When,
    matcher: ConceptMatcher,
    *,
    by_end: bool = False,
) -> list[Row]:
    """The rows of the n-th distinct time, among those with a time; all rows without a position.

    Of a measurement of several parts, those of each part.
    """
    if when.position is None:
        return list(rows)
    chosen: list[Row] = []
    for series in series_by_part(rows, matcher):
        chosen += _nth_of_series(context, series.rows, when.position, by_end=by_end)
    return _sorted_by_time(context, chosen, by_end=by_end)


def _nth_of_series(
    context: ExecutionContext, rows: Sequence[Row], position: str, *, by_end: bool
) -> list[Row]:
    def time_of(row: Row) -> datetime | None:
        return _sort_time(context, row, by_end=by_end)

    timed_rows = [row for row in rows if time_of(row) is not None]
    groups = []
    for _, rows_of_one_time in itertools.groupby(timed_rows, time_of):
        groups.append(list(rows_of_one_time))
    index = position_index(position)
    if -len(groups) <= index < len(groups):
        return groups[index]
    return []


def _sorted_by_time(
    context: ExecutionContext, rows: Iterable[Row], *, by_end: bool = False
) -> list[Row]:
    """Oldest first; rows without a time last."""

    def sort_key(row: Row) -> tuple[bool, datetime]:
        time = _sort_time(context, row, by_end=by_end)
        return time is None, time or datetime.max

    return sorted(rows, key=sort_key)


def _sort_time(context: ExecutionContext, row: Row, *, by_end: bool) -> datetime | None:
    time = row.time
    if by_end:
        time = row.end
    if time is None:
        return None
    offset = time.utcoffset()
    local_time = time.replace(tzinfo=None)
    if offset is None or context.conventions.time_comparison == "wall_clock":
        return local_time
    return local_time - offset
