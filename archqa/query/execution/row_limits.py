"""Which rows count: facts, within the visit and the window, with the attributes that are asked for."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from archqa.query.execution.context import ExecutionContext, Scope
from archqa.query.execution.declared_rows import with_reasons
from archqa.query.execution.histories import allergy_statement
from archqa.query.execution.named_rows import (
    REASON_KINDS,
    ConceptMatcher,
    NameMatcher,
    concepts_named,
)
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import (
    is_error,
    is_fact,
    matches_flag,
    row_state,
    tentative_status,
)
from archqa.query.kinds import KINDS
from archqa.query.model import CannotExecute, Flag, State, ValueTest
from archqa.query.scope import When
from archqa.terminology.codes import measurements_coded
from archqa.terminology.concept import Concept
from archqa.terminology.labels import specimens_named

_ENCOUNTER_KINDS = frozenset({"lab", "microbiology_test", "organism", "susceptibility"})
"""Kinds that may lack an encounter, which conventions can require."""


def filter_by_attributes(context: ExecutionContext, rows: Sequence[Row]) -> list[Row]:
    """The rows that pass the limits that depend on nothing but the row as it was read."""
    query = context.query
    passing = []
    for row in rows:
        result_names = (
            *row.fact("result"),
            *row.fact("discharge_destination"),
            row.text,
        )
        if query.what == "not_done":
            result_names = row.fact("status_reason")
        limits = (
            (query.specimens, _specimens(row)),
            (query.organisms, row.fact("organism")),
            (query.routes, row.fact("route")),
            (query.admission_sources, row.fact("admission_source")),
            (query.results, row.facts.get("relative", result_names)),
        )
        passes = True
        for names, row_names in limits:
            if names and not NameMatcher(names, row_names, context.conventions)(
                *row_names
            ):
                passes = False
        if query.grew is not None and bool(row.fact("organism")) != query.grew:
            passes = False
        if passes:
            passing.append(row)
    return passing


def _specimens(row: Row) -> tuple[str, ...]:
    """What was tested: by its Specimen; of other results than tests of microbiology, by their names."""
    if row.facts.get("kind") is None:
        return row.fact("specimen")
    coded = (concept.name for concept in measurements_coded(row.codings))
    labels = map(specimens_named, (*row.names, *coded))
    return (*row.fact("specimen"), *chain.from_iterable(labels))


def filter_by_value(
    context: ExecutionContext, rows: Sequence[Row], test: ValueTest
) -> list[Row]:
    """The rows whose value certainly passes a test; of which it is unknown is noted."""
    passing = []
    for row in rows:
        interval = row.interval
        answer = None
        if interval is not None:
            answer = interval.satisfies(test.comparison, test.number)
        if answer:
            passing.append(row)
        elif answer is None and (interval is not None or row.text):
            context.undecided.append(row)
    return passing


def filter_by_state(
    context: ExecutionContext, rows: Sequence[Row], state: State
) -> list[Row]:
    """The rows that are current, or have ended, at the time of the question."""
    what = context.query.what
    states = [row_state(what, row, context.now) for row in rows]
    unknown = states.count("unknown")
    if unknown:
        context.warn(
            f"{unknown} of {len(rows)} {KINDS[what].plural} do not say whether they are "
            "current or have ended, and are left out."
        )
    return [
        row for row, its_state in zip(rows, states, strict=True) if its_state == state
    ]


def filter_by_flag(
    context: ExecutionContext, rows: Sequence[Row], flag: Flag
) -> list[Row]:
    """The results that are marked so, or lie so to their reference range."""
    measured = [row for row in rows if row.value is not None]
    unmarked = sum(not row.fact("flag") for row in measured)
    if unmarked:
        context.warn(
            f"{unmarked} of {len(measured)} {KINDS[context.query.what].plural} with a number "
            "have neither an interpretation nor a reference range, and are left out."
        )
    return [row for row in rows if matches_flag(flag, row.fact("flag"))]


def filter_by_class(context: ExecutionContext, rows: Sequence[Row]) -> list[Row]:
    """The encounters of one of the classes."""
    classes = context.query.classes
    if not classes:
        return list(rows)
    return [row for row in rows if not set(classes).isdisjoint(row.fact("class"))]


def filter_by_reason(context: ExecutionContext, rows: Sequence[Row]) -> list[Row]:
    """The rows with one of the reasons, by name or by concept. Their resources are cited."""
    reasons = context.query.reasons
    matches_name = NameMatcher(reasons, (), context.conventions)
    concepts: list[Concept] = []
    for reason in reasons:
        # A reason that is no concept is a name.
        with suppress(CannotExecute):
            concepts += concepts_named((reason,), REASON_KINDS)
    matcher = ConceptMatcher(tuple(concepts), past=True)
    matching = []
    for row in with_reasons(context, rows, context.query.what):
        is_named = matches_name(*row.fact("reason"))
        if is_named or matcher.concept_of(row.reason_codings) is not None:
            matching.append(row)
    return matching


def keep_facts(
    context: ExecutionContext, rows: Sequence[Row], what: str = ""
) -> tuple[list[Row], list[Row]]:
    """The facts, and the other rows that are no errors; by the conventions, all rows are facts."""
    what = what or context.query.what
    if context.conventions.statuses == "ignored":
        return list(rows), []
    facts = [row for row in rows if is_fact(what, row)]
    if what == "allergy":
        facts = [row for row in facts if allergy_statement(row).kind == "allergy"]
    others: list[Row] = []
    if len(facts) < len(rows):
        errors = sum(map(is_error, rows))
        fact_ids = set(map(id, facts))
        others = [row for row in rows if id(row) not in fact_ids and not is_error(row)]
        if errors:
            context.warn(
                f"{errors} {KINDS[what].plural} were entered in error and do not count."
            )
        context.note_step(
            "that are facts, not cancelled, planned, denied or errors", facts
        )
    tentative = list(filter(None, [tentative_status(what, row) for row in facts]))
    if tentative:
        named = " or ".join(sorted(set(tentative)))
        context.warn(
            f"{len(tentative)} of {len(facts)} {KINDS[what].plural} are only {named}."
        )
    return facts, others


def filter_by_scope(
    context: ExecutionContext,
    rows: list[Row],
    what: str,
    when: When,
    scope: Scope,
    *,
    by_end: bool = False,
) -> list[Row]:
    """Rows within the visit and the window; `by_end` compares their end with the window."""
    if context.conventions.requires_encounter and what in _ENCOUNTER_KINDS:
        rows = _with_encounter(context, rows, what)
    if what == "medication":
        rows = _resolve_missing_starts(context, rows, when)
    if scope.requested_visit is not None:
        rows = [row for row in rows if scope.contains(row)]
    if not when.spans:
        return rows
    undated = 0
    rows_in_window = []
    for row in rows:
        time = row.local_end if by_end else row.local_time
        if time is None:
            undated += 1
        elif scope.window.contains(time):
            rows_in_window.append(row)
    if undated:
        context.warn(
            f"{undated} of {len(rows)} {KINDS[what].plural} have no time and are left out."
        )
    return rows_in_window


def _with_encounter(context: ExecutionContext, rows: list[Row], what: str) -> list[Row]:
    rows_with_encounter = [row for row in rows if row.hospital_visit_id]
    omitted = len(rows) - len(rows_with_encounter)
    if omitted:
        percent = 100 * omitted / len(rows)
        context.warn(
            f"{omitted} of {len(rows)} {KINDS[what].plural} ({percent:.0f} %) have no encounter "
            "and are left out."
        )
    return rows_with_encounter


def _resolve_missing_starts(
    context: ExecutionContext, rows: list[Row], when: When
) -> list[Row]:
    """Orders without a start, by the conventions."""
    rows_with_start = [row for row in rows if row.time is not None]
    without_start = len(rows) - len(rows_with_start)
    if without_start == 0:
        return rows
    fact = f"{without_start} of {len(rows)} prescriptions have no start"
    policy = context.conventions.missing_start_policy
    if policy == "authored_unless_ordered" and when.position:
        context.warn(f"{fact} and are left out of the order.")
        return rows_with_start
    if when.spans or when.position:
        context.warn(f"{fact}: the time of writing stands in.")
    started = []
    for row in rows:
        started.append(
            row if row.time is not None else replace(row, time=row.authored_on)
        )
    return started
