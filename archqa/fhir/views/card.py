"""What a record holds, on one card: types and counts, code systems, dates, references, example paths.

A model that has read the card need not guess what a record looks like.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from archqa.core.value import FrozenModel
from archqa.fhir.record import Record
from archqa.fhir.values.dates import parse_time_range
from archqa.fhir.values.references import parse_reference
from archqa.fhir.views.projection import DROPPED

_SAMPLE = 40
"""Resources of each type that are looked at for paths, dates and references."""


class CodeSystem(FrozenModel):
    """A code system that an element uses: how many codes, and the most frequent of them in words."""

    element: str
    system: str
    codes: int
    examples: tuple[str, ...]


class TypeCard(FrozenModel):
    """One type: how many, which code systems, and the paths found in a sample."""

    type: str
    count: int
    systems: tuple[CodeSystem, ...]
    dates: tuple[str, ...]
    references: tuple[str, ...]
    paths: tuple[str, ...]


class SchemaCard(FrozenModel):
    """A record, or one patient's part of it."""

    patient: str | None
    types: tuple[TypeCard, ...]

    @property
    def text(self) -> str:
        """The card in words, for a prompt."""
        return "\n".join(line for each in self.types for line in _lines(each))


def build_schema_card(record: Record, patient: str | None = None) -> SchemaCard:
    """The card of a record, or of one patient and what their record refers to."""
    counts = record.counts(patient)
    types = [_type_card(record, name, number, patient) for name, number in counts.items()]
    return SchemaCard(patient=patient, types=tuple(types))


def _type_card(record: Record, name: str, count: int, patient: str | None) -> TypeCard:
    params = {"_count": str(_SAMPLE)}
    if patient is not None:
        params["_id" if name == "Patient" else "patient"] = patient
    sample = record.search(name, params).resources
    dates: dict[str, None] = {}
    references: dict[str, None] = {}
    paths: Counter[str] = Counter()
    for resource in islice(sample, _SAMPLE):
        for path, value in _leaves(resource):
            paths[path] += 1
            if isinstance(value, str) and parse_time_range(value) is not None and "-" in value:
                dates[path] = None
            found = (
                parse_reference(value)
                if path.endswith(".reference") and isinstance(value, str)
                else None
            )
            if found is not None:
                references[f"{path.removesuffix('.reference')} -> {found.type or '?'}"] = None
    return TypeCard(
        type=name,
        count=count,
        systems=_systems(record, name, patient),
        dates=tuple(dates),
        references=tuple(references),
        paths=tuple(path for path, _ in paths.most_common(40)),
    )


def _systems(record: Record, name: str, patient: str | None) -> tuple[CodeSystem, ...]:
    groups: dict[tuple[str, str], list[str]] = {}
    for each in record.codes(name, patient):
        groups.setdefault((each.element, each.system), []).append(each.display or each.code)
    return tuple(
        CodeSystem(element=element, system=system, codes=len(words), examples=tuple(words[:3]))
        for (element, system), words in groups.items()
    )


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its path, lists marked `[]`; what a projection drops is left out."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name not in DROPPED and name not in {"resourceType", "id"}:
                yield from _leaves(value, f"{path}.{name}" if path else name)
    elif isinstance(node, list):
        for value in node:
            yield from _leaves(value, f"{path}[]")
    else:
        yield path, node


def _lines(each: TypeCard) -> Iterator[str]:
    yield f"{each.type}: {each.count}"
    for system in each.systems:
        where = f"{system.element} ({system.system})" if system.system else system.element
        yield f"  {where}: {system.codes} codes, such as {', '.join(system.examples)}"
    for label, values in (
        ("dates", each.dates),
        ("references", each.references),
        ("paths", each.paths),
    ):
        if values:
            yield f"  {label}: {', '.join(values)}"
