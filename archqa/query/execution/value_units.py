"""Values of one measurement in one unit: that of its concept, where the record has several."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from archqa.query.execution.concept_limit import ConceptMatcher
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.rows import Row
from archqa.terminology.concept import Concept
from archqa.terminology.units import convert, ucum_unit


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
