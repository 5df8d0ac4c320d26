"""Rows of results of any category: one for each Observation with a value, and for each component.

A reading that the record holds twice, as an Observation and as a component of a panel, is one row
with both as its resources.
"""

from dataclasses import replace
from datetime import datetime, time

from archqa.fhir import Resource
from archqa.fhir.store import LocalRecord
from archqa.query.execution.context import ExecutionContext, Scope
from archqa.query.execution.elements import objects_at
from archqa.query.execution.measurements import (
    measured_value,
    observation_kind,
    observation_row,
    result_facts,
    server_limits,
)
from archqa.query.execution.named_rows import CodeTest, Wanted, select_named
from archqa.query.execution.names import concept_codings, concept_names
from archqa.query.execution.rows import Row

_MAX_ROWS_AT_ONCE = 500
"""Of a patient with more results, those with some codes are read: 25 ms instead of 150 of 1,400."""

_CODE_ELEMENTS = frozenset({"code", "component.code"})


def results_of_kind(context: ExecutionContext, what: str, wanted: Wanted) -> list[Row]:
    """Rows of laboratory results or of vital signs, components included."""
    rows = [row for row in _rows_of_patient(context) if row.facts["kind"] == (what,)]
    return select_named(context, what, rows, wanted)


def observations(context: ExecutionContext, wanted: Wanted, scope: Scope) -> list[Row]:
    """Rows of results with one of the names. Of very many, only those are read."""
    if wanted.is_everything or reads_all(context):
        return select_named(context, "observation", _rows_of_patient(context), wanted)
    codes = [code for code in context.chart.codes("Observation") if code.element in _CODE_ELEMENTS]
    code_test = CodeTest(context, "observation", wanted, codes)
    limits = server_limits(context, "observation", scope)
    found = context.chart.observations(
        lambda code: code.element in _CODE_ELEMENTS and code_test(code),
        (),
        limits,
        parameter="combo-code",
    )
    return select_named(context, "observation", _rows_of(context, found), wanted, code_test)


def reads_all_locally(context: ExecutionContext) -> bool:
    """Whether all results of the patient are read, once, without asking a server."""
    return isinstance(context.chart.record, LocalRecord) and reads_all(context)


def reads_all(context: ExecutionContext) -> bool:
    """Whether all results of the patient are read, once, instead of those with some codes."""
    return context.chart.observation_count <= _MAX_ROWS_AT_ONCE or not isinstance(
        context.chart.record, LocalRecord
    )


def _rows_of_patient(context: ExecutionContext) -> list[Row]:
    """The rows of all results, read once."""
    key = f"rows of observation, {context.conventions.convert_to_celsius}"
    return context.chart.get_or_compute(
        key, lambda: _rows_of(context, context.chart.search("Observation"))
    )


def _rows_of(context: ExecutionContext, found: list[Resource]) -> list[Row]:
    rows = []
    for observation in found:
        components = objects_at(observation, "component")
        row = observation_row(context, observation)
        row.facts["kind"] = (observation_kind(observation),)
        if row.value is not None or row.text or not components:
            rows.append(row)
        for component in components:
            rows.append(_component_row(context, row, component))
    return _without_duplicates(rows)


def _component_row(context: ExecutionContext, panel: Row, component: Resource) -> Row:
    """A component as a row with the time, the visit and the status of its panel."""
    names = concept_names(component.get("code"))
    value = measured_value(context, component)
    facts = {**_shared_facts(panel), **result_facts(component), "panel": panel.names}
    if "data_absent" in facts:
        facts["status_detail"] = ("data-absent",)
    return replace(
        panel,
        name=next(iter(names), ""),
        names=names,
        codings=concept_codings(component.get("code")),
        value=value.number,
        text=value.text,
        unit=value.unit,
        comparator=value.comparator,
        facts=facts,
    )


def _shared_facts(panel: Row) -> dict[str, tuple[str, ...]]:
    return {name: panel.facts[name] for name in ("status", "kind") if name in panel.facts}


def _without_duplicates(rows: list[Row]) -> list[Row]:
    """The rows, of which those of one code, time and value are one with the resources of all."""
    unique: dict[object, Row] = {}
    for row in rows:
        key = _identity(row)
        known = unique.get(key)
        if known is None:
            unique[key] = row
        else:
            unique[key] = _merged(known, row)
    return list(unique.values())


def _identity(row: Row) -> object:
    """Equal for two rows that are one reading: only where the time of day is known."""
    codes = frozenset((coding.system, coding.code) for coding in row.codings if coding.code)
    has_value = row.value is not None or bool(row.text)
    if not codes or not has_value or not _has_time_of_day(row.time):
        return id(row)
    statuses = (row.facts.get("status"), row.comparator)
    return codes, row.time, row.value, row.unit, row.text, statuses


def _has_time_of_day(moment: datetime | None) -> bool:
    return moment is not None and moment.time() != time.min


def _merged(known: Row, row: Row) -> Row:
    """One reading: its own Observation first, then the panel; with the facts of both."""
    if "panel" in known.facts and "panel" not in row.facts:
        known, row = row, known
    refs = tuple(dict.fromkeys((*known.refs, *row.refs)))
    return replace(known, refs=refs, facts={**row.facts, **known.facts})
