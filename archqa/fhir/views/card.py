"""A schema card: the types, counts, code systems, dates, references and paths of a record.

A model that has read the card need not guess the structure of the record.
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

_SAMPLE_SIZE = 40
"""Resources of each type that are searched for paths, dates and references."""

_MAX_PATHS = 40
_MAX_EXAMPLES = 3


class CodeSystem(FrozenModel):
    """A code system that an element uses: the number of codes, and the most frequent texts."""

    element: str
    system: str
    codes: int
    examples: tuple[str, ...]


class TypeCard(FrozenModel):
    """One type: the number of resources, their code systems, and the paths in a sample."""

    type: str
    count: int
    systems: tuple[CodeSystem, ...]
    dates: tuple[str, ...]
    references: tuple[str, ...]
    paths: tuple[str, ...]

    @property
    def text(self) -> str:
        """The lines of a prompt about this type."""
        lines = [f"{self.type}: {self.count}"]
        for system in self.systems:
            label = (
                f"{system.element} ({system.system})"
                if system.system
                else system.element
            )
            examples = ", ".join(system.examples)
            lines.append(f"  {label}: {system.codes} codes, such as {examples}")
        if self.dates:
            lines.append(f"  dates: {', '.join(self.dates)}")
        if self.references:
            lines.append(f"  references: {', '.join(self.references)}")
        if self.paths:
            lines.append(f"  paths: {', '.join(self.paths)}")
        return "\n".join(lines)


class SchemaCard(FrozenModel):
    """The schema of a record, or of one patient's part of it."""

    patient: str | None
    types: tuple[TypeCard, ...]

    @property
    def text(self) -> str:
        """The card as text for a prompt."""
        return "\n".join(type_card.text for type_card in self.types)


def build_schema_card(record: Record, patient: str | None = None) -> SchemaCard:
    """Return the card of a record, or of one patient and what their record refers to."""
    types = []
    for resource_type, count in record.counts(patient).items():
        types.append(
            _type_card(
                record,
                resource_type,
                count,
                patient,
            )
        )
    return SchemaCard(patient=patient, types=tuple(types))


def _type_card(
    record: Record,
    resource_type: str,
    count: int,
    patient: str | None,
) -> TypeCard:
    params = {"_count": str(_SAMPLE_SIZE)}
    if patient is not None:
        params["_id" if resource_type == "Patient" else "patient"] = patient
    sample = islice(record.search(resource_type, params).resources, _SAMPLE_SIZE)
    dates: dict[str, None] = {}
    references: dict[str, None] = {}
    paths: Counter[str] = Counter()
    for resource in sample:
        for path, value in _leaves(resource):
            paths[path] += 1
            if not isinstance(value, str):
                continue
            # A year alone might be any number.
            if "-" in value and parse_time_range(value) is not None:
                dates[path] = None
            if path.endswith(".reference"):
                target = parse_reference(value)
                if target is not None:
                    element = path.removesuffix(".reference")
                    references[f"{element} -> {target.type or '?'}"] = None
    return TypeCard(
        type=resource_type,
        count=count,
        systems=_systems(record, resource_type, patient),
        dates=tuple(dates),
        references=tuple(references),
        paths=tuple(path for path, _ in paths.most_common(_MAX_PATHS)),
    )


def _systems(
    record: Record, resource_type: str, patient: str | None
) -> tuple[CodeSystem, ...]:
    texts_by_system: dict[tuple[str, str], list[str]] = {}
    for code in record.codes(resource_type, patient):
        texts = texts_by_system.setdefault((code.element, code.system), [])
        texts.append(code.display or code.code)
    return tuple(
        CodeSystem(
            element=element,
            system=system,
            codes=len(texts),
            examples=tuple(texts[:_MAX_EXAMPLES]),
        )
        for (element, system), texts in texts_by_system.items()
    )


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf with its path, lists marked `[]`, without what a projection drops."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name not in DROPPED and name not in {"resourceType", "id"}:
                yield from _leaves(value, f"{path}.{name}" if path else name)
    elif isinstance(node, list):
        for value in node:
            yield from _leaves(value, f"{path}[]")
    else:
        yield path, node
