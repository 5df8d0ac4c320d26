"""Selection of the requested rows: names, visit, time, the other limits, the position in time."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import NamedTuple

from archqa.query.execution.context import (
    POSITIONS,
    ExecutionContext,
    Scope,
    uses_end_time,
)
from archqa.query.execution.declared_rows import (
    declared_rows,
    diagnoses,
    procedures,
    with_notes,
    with_people_or_places,
    with_reasons,
)
from archqa.query.execution.findings import SearchStep
from archqa.query.execution.histories import allergies, family_history, immunizations
from archqa.query.execution.medications import (
    administrations,
    dispenses,
    medications,
)
from archqa.query.execution.named_rows import (
    EVERYTHING,
    ConceptMatcher,
    NameMatcher,
    Wanted,
    concept_matcher,
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
    filter_by_value,
    keep_facts,
)
from archqa.query.execution.rows import Row, extreme_rows, longest_rows
from archqa.query.execution.time_windows import left_out_text, split_later
from archqa.query.kinds import KINDS, Reader
from archqa.query.model import Companion
from archqa.query.scope import When
from archqa.terminology.concept import Concept
from archqa.terminology.units import convert, ucum_unit

_SHARED_TIME_FIELDS = {"same_time": 6, "same_day": 3, "same_month": 2}
"""How many of year, month, day, hour, minute and second two rows must share."""

_READERS: dict[Reader, Callable[[ExecutionContext], list[Row]]] = {
    "allergies": allergies,
    "family_history": family_history,
    "immunizations": immunizations,
    "medications": medications,
    "administrations": administrations,
    "dispenses": dispenses,
    "procedures": procedures,
    "diagnoses": diagnoses,
    "hospital_visits": hospital_visits,
    "icu_stays": icu_stays,
    "care_units": care_units,
    "encounters": encounters,
    "patient_rows": patient_rows,
}


def fetch_rows(
    context: ExecutionContext, what: str, wanted: Wanted, scope: Scope
) -> list[Row]:
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
    matcher = concept_matcher(context, query.what, wanted)
    rows = _rows_within_limits(context, wanted, when, matcher, by_end=by_end)
    rows, later = split_later(rows, context.cutoff, by_end=by_end)
    if later:
        kind = KINDS[query.what]
        noun = kind.plural if len(later) > 1 else kind.singular
        context.warn(left_out_text(len(later), noun), "dated_later")
        context.note_step("up to the time of the question", rows)
    context.undecided, _ = split_later(context.undecided, context.cutoff, by_end=by_end)
    rows = _sorted_by_time(context, rows, by_end=by_end)
    context.searched[f"{len(rows)} of them pass every limit"] = None
    rows = _with_returned_details(context, rows)
    chosen = _filter_by_extreme(context, rows, matcher) if query.extreme else rows
    chosen = _at_position(context, chosen, when, matcher, by_end=by_end)
    if query.newest:
        times = sorted({row.time for row in chosen if row.time is not None})
        latest_times = times[-query.newest :]
        chosen = [row for row in chosen if row.time in latest_times]
    if query.summary == "change":
        chosen = first_and_last(chosen, matcher)
    return RowSelection(rows, chosen)


def _select_patient(context: ExecutionContext, when: When) -> RowSelection:
    """The patient, whatever the time: a Patient resource describes the person as of now."""
    has_time = when.spans or when.visit or when.position
    if has_time and context.query.returns != "age":
        context.warn(
            "The record says this of the patient as of now, not of the time that is asked for."
        )
    rows = patient_rows(context)
    context.searched[f"patients: {len(rows)} in the record"] = None
    context.note_step("patients in the record", rows)
    rows = _with_returned_details(context, rows)
    return RowSelection(rows, rows)


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
    rows = _with_common_units(context, rows, matcher)
    rows, others = keep_facts(context, rows)
    if others:
        context.left_out += _pass_quietly(context, others, when, by_end=by_end)
    rows = filter_by_scope(context, rows, query.what, when, scope, by_end=by_end)
    if str(when):
        context.note_step(str(when), rows)
    if context.conventions.censored_values == "left_out":
        rows = _without_censored_values(context, rows)
    fetched = len(rows)
    rows = filter_by_attributes(context, rows)
    if len(rows) < fetched:
        context.note_step("with the other limits", rows)
    if query.state:
        rows = filter_by_state(context, rows, query.state)
        context.note_step(query.state, rows)
    if query.flag:
        rows = filter_by_flag(context, rows, query.flag)
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
    if query.value is not None:
        rows = filter_by_value(context, rows, query.value)
        context.note_step(str(query.value), rows)
    return rows


def _note_fetched(
    context: ExecutionContext, wanted: Wanted, scope: Scope, rows: Sequence[Row]
) -> None:
    """What was searched: how many rows the record has, and how many of them have the name."""
    what = context.query.what
    plural = KINDS[what].plural
    names = "" if wanted == EVERYTHING else f" named {wanted}"
    context.searched[f"{plural}{names}: {len(rows)} in the record"] = None
    if context.conventions.name_matching == "words":
        total = len(rows)
        if wanted != EVERYTHING and not scope.visit_not_found:
            if KINDS[what].reader == "measurements":
                total = count_measurements(context, what)
            elif KINDS[what].reader == "observations" and not reads_all(context):
                total = context.chart.observation_count
            else:
                total = len(fetch_rows(context, what, EVERYTHING, scope))
        step = SearchStep(f"{plural} in the record", max(total, len(rows)))
        context.steps.append(step)
    if wanted != EVERYTHING:
        context.note_step(f"of {wanted}", rows)


def _with_common_units(
    context: ExecutionContext, rows: Sequence[Row], matcher: ConceptMatcher
) -> list[Row]:
    """The rows, converted where those of one measurement differ in unit, with a warning.

    A measurement is shown in the unit of most rows where units only differ in spelling, else in
    that of its concept. A value that cannot be converted stays as it is; `recorded_value` is what
    the record has.
    """
    if not matcher.concepts:
        return list(rows)
    concepts = [matcher.concept_of(row.codings) for row in rows]
    counts: dict[Concept, Counter[str]] = defaultdict(Counter)
    for row, concept in zip(rows, concepts, strict=True):
        if concept is not None and row.value is not None and row.unit:
            counts[concept][row.unit] += 1
    units = {}
    for concept, spellings in counts.items():
        if len(spellings) > 1:
            units[concept] = _common_unit(spellings, concept.unit)
    converted = []
    for row, row_concept in zip(rows, concepts, strict=True):
        if row_concept in units:
            row = _converted(context, row, row_concept, units[row_concept])
        converted.append(row)
    return converted


def _common_unit(spellings: Counter[str], concept_unit: str | None) -> str:
    most_frequent = spellings.most_common(1)[0][0]
    if len(set(map(_normal, spellings))) == 1:
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
    facts = {**row.facts, "recorded_value": (f"{row.value:g} {row.unit}",)}
    # A conversion is no more precise than a result: four significant digits.
    return replace(row, value=float(f"{number:.4g}"), unit=unit, facts=facts)


def _without_censored_values(context: ExecutionContext, rows: list[Row]) -> list[Row]:
    """The rows, with values such as `< 0.01` as texts."""
    censored = sum(bool(row.comparator) for row in rows)
    if not censored:
        return rows
    context.warn(
        f"{censored} of {len(rows)} values are only bounds (such as < 5) and are no numbers here."
    )
    resolved = []
    for row in rows:
        if row.comparator and row.value is not None:
            row = replace(row, value=None, text=f"{row.comparator} {row.value}")
        resolved.append(row)
    return resolved


def _pass_quietly(
    context: ExecutionContext, rows: list[Row], when: When, *, by_end: bool
) -> list[Row]:
    """The rows that are no facts but pass the other limits, without steps and caveats of theirs."""
    quiet = replace(
        context, caveats={}, searched={}, steps=[], left_out=[], undecided=[]
    )
    scope = quiet.resolve_scope(when)
    rows = filter_by_scope(quiet, rows, context.query.what, when, scope, by_end=by_end)
    rows = filter_by_attributes(quiet, rows)
    rows = filter_by_class(quiet, rows)
    rows, _ = split_later(rows, context.cutoff, by_end=by_end)
    return _sorted_by_time(quiet, rows, by_end=by_end)


def _with_returned_details(context: ExecutionContext, rows: list[Row]) -> list[Row]:
    """The rows with what they refer to, if the query returns it; reasons are evidence then."""
    query = context.query
    if query.returns in {"practitioner", "place"}:
        return with_people_or_places(context, rows, query.what, query.returns)
    if query.returns == "status_reason":
        return with_notes(context, rows, query.what)
    if query.returns != "reason":
        return rows
    detailed = []
    for row in with_reasons(context, rows, query.what):
        refs = dict.fromkeys((*row.refs, *row.reason_refs))
        detailed.append(replace(row, refs=tuple(refs)))
    return detailed


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
        rows = [row for row in rows if matches(*row.fact("route"))]
    rows, _ = split_later(rows, context.cutoff)
    rows = _sorted_by_time(context, rows)
    return _at_position(context, rows, companion.when, ConceptMatcher(()))


def _is_near(row: Row, companion_row: Row, companion: Companion) -> bool:
    if row.refs == companion_row.refs:
        return False
    if companion.within == "same_visit":
        visit_id = row.hospital_visit_id
        if not visit_id or visit_id != companion_row.hospital_visit_id:
            return False
    if companion.within == "stay":
        if (
            row.time is None
            or companion_row.time is None
            or row.time < companion_row.time
        ):
            return False
        return companion_row.end is None or row.time <= companion_row.end
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


def _filter_by_extreme(
    context: ExecutionContext, rows: list[Row], matcher: ConceptMatcher
) -> list[Row]:
    """Only the rows with the smallest or largest value, or length of stay where that is returned.

    Of a measurement of several parts, such as a blood pressure, all parts of the time at which the
    first part has it.
    """
    extreme = context.query.extreme or "maximum"
    if context.query.returns == "length_of_stay":
        return longest_rows(rows, extreme)
    first, *others = series_by_part(rows, matcher)
    chosen, undecided = extreme_rows(first.rows, extreme)
    context.undecided += undecided
    if not others:
        return chosen
    times = {row.time for row in chosen}
    chosen = [row for row in first.rows if row.time in times]
    for series in others:
        chosen += [row for row in series.rows if row.time in times]
    return chosen


def _at_position(
    context: ExecutionContext,
    rows: Sequence[Row],
    when: When,
    matcher: ConceptMatcher,
    *,
    by_end: bool = False,
) -> list[Row]:
    """The rows of the n-th distinct time, among those with a time; all rows without a position.

    `rows` are in the order of time. Of a measurement of several parts, those of each part.
    """
    if when.position is None:
        return list(rows)
    number = POSITIONS[when.position]
    index = number - 1 if number > 0 else number
    chosen: list[Row] = []
    for series in series_by_part(rows, matcher):
        rows_by_time: dict[datetime, list[Row]] = defaultdict(list)
        for row in series.rows:
            time = _sort_time(context, row, by_end=by_end)
            if time is not None:
                rows_by_time[time].append(row)
        groups = list(rows_by_time.values())
        if -len(groups) <= index < len(groups):
            chosen += groups[index]
    return _sorted_by_time(context, chosen, by_end=by_end)


def _sorted_by_time(
    context: ExecutionContext, rows: Iterable[Row], *, by_end: bool = False
) -> list[Row]:
    """Oldest first; rows without a time last."""
    dated: list[tuple[datetime, Row]] = []
    undated: list[Row] = []
    for row in rows:
        time = _sort_time(context, row, by_end=by_end)
        if time is None:
            undated.append(row)
        else:
            dated.append((time, row))
    dated.sort(key=itemgetter(0))
    return [row for _, row in dated] + undated


def _sort_time(context: ExecutionContext, row: Row, *, by_end: bool) -> datetime | None:
    time = row.end if by_end else row.time
    if time is None:
        return None
    offset = time.utcoffset()
    local_time = time.replace(tzinfo=None)
    if offset is None or context.conventions.time_comparison == "wall_clock":
        return local_time
    return local_time - offset
