"""Vaccines that were given, under whichever type of resource; each shot once."""

from collections.abc import Iterator
from dataclasses import replace

from archqa.query.execution.chart import Chart
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.declared_rows import (
    declared_row,
    declared_rows,
    source_resources,
)
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import is_fact
from archqa.query.kinds import (
    MEDICATION_ADMINISTRATION,
    MEDICATION_DISPENSE,
    PROCEDURE,
    RowKind,
    Source,
)
from archqa.terminology.codes import matches_code
from archqa.terminology.concepts import load_concepts

_ELSEWHERE: tuple[tuple[RowKind, Source], ...] = (
    ("administration", MEDICATION_ADMINISTRATION),
    ("medication", MEDICATION_DISPENSE),
    ("procedure", PROCEDURE),
)
"""Kinds and sources of rows that may be a vaccine."""


def immunizations(context: ExecutionContext) -> list[Row]:
    """Rows of vaccines. What was given or done and names a vaccine is one, too."""
    rows = declared_rows(context, "immunization")
    if context.conventions.statuses == "ignored":
        return rows
    chart = context.chart
    return chart.get_or_compute(
        "immunizations", lambda: _without_repeated_shots([*rows, *_elsewhere(chart)])
    )


def _elsewhere(chart: Chart) -> Iterator[Row]:
    for kind, source in _ELSEWHERE:
        codes = chart.codes(source.type)
        if not any(_vaccines(c.system, c.code, c.display) for c in codes):
            continue  # Drugs that were given are many.
        for resource in source_resources(chart, source):
            row = declared_row(chart, source, resource)
            if is_fact(kind, row) and _vaccines_of(row):
                yield row


def _vaccines_of(row: Row) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    for coding in row.codings:
        names |= _vaccines(*coding)
    return names


def _vaccines(system: str, code: str, display: str | None) -> frozenset[str]:
    """The names of the vaccines that a coding names."""
    names = []
    for concept in load_concepts():
        if concept.kind == "vaccine" and matches_code(concept, system, code, display):
            names.append(concept.name)
    return frozenset(names)


def _without_repeated_shots(rows: list[Row]) -> list[Row]:
    """The rows; a vaccine that two resources record on one day is one row with both."""
    shots: list[Row] = []
    for row in rows:
        same = None
        for place, shot in enumerate(shots):
            if _is_same_shot(row, shot):
                same = place
        if same is None:
            shots.append(row)
        else:
            refs = (*shots[same].refs, *row.refs)
            shots[same] = replace(shots[same], refs=refs)
    return shots


def _is_same_shot(row: Row, shot: Row) -> bool:
    if row.local_time is None or shot.local_time is None:
        return False
    if row.local_time.date() != shot.local_time.date():
        return False
    if not is_fact("immunization", row) or not is_fact("immunization", shot):
        return False
    if row.names == shot.names:
        return True
    # Two entries of one type are two vaccines: DTaP and Td share what they protect from.
    types = {ref.partition("/")[0] for ref in (row.refs[0], shot.refs[0])}
    return len(types) > 1 and bool(_vaccines_of(row) & _vaccines_of(shot))
