"""Resources made small for a model: no narrative, codes as words, references with names, and no more than fits.

The blunt form (text, meta and extension dropped, newest first) gained 14 points in a published re-evaluation of
FHIR-AgentBench (coralehr/fhir-mcp-eval); a cap that is not announced loses answers, so that "N more" is always said.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from archqa.fhir.record import Resource
from archqa.fhir.views.resolver import Resolver, concept_name, display_name

DROPPED = frozenset(
    {"text", "meta", "extension", "modifierExtension", "contained", "implicitRules", "language"}
)

_FOLLOWED = ("medicationReference", "location.location", "specimen", "ingredient.itemReference")
"""References whose name is told beside them."""


class Projection(NamedTuple):
    """What is shown, and how many more there are."""

    rows: list[dict[str, Any]]
    omitted: int

    @property
    def text(self) -> str:
        """One JSON object a line, and a last line that says how many more there are."""
        lines = [json.dumps(row, ensure_ascii=False) for row in self.rows]
        return "\n".join([*lines, f"({self.omitted} more)"] if self.omitted else lines)


def project(resource: Resource, resolver: Resolver | None = None) -> dict[str, Any]:
    """One resource made small; the names of references are told if there is a resolver."""
    return {
        name: _small(value, resolver) for name, value in resource.items() if name not in DROPPED
    }


def project_all(
    resources: Iterable[Resource],
    resolver: Resolver | None = None,
    *,
    rows: int = 50,
    most_bytes: int = 32_000,
) -> Projection:
    """Resources made small: at most so many rows, and so many bytes of JSON. The first row is always there."""
    found = list(resources)
    if resolver is not None:
        first = found[:rows]
        for path in _FOLLOWED:
            for each in first:
                resolver.at(each, path)
    shown: list[dict[str, Any]] = []
    size = 0
    for each in found[:rows]:
        row = project(each, resolver)
        size += len(json.dumps(row, ensure_ascii=False).encode()) + 1
        if shown and size > most_bytes:
            break
        shown.append(row)
    return Projection(shown, len(found) - len(shown))


def _small(value: Any, resolver: Resolver | None) -> Any:
    if isinstance(value, list):
        items = [_small(each, resolver) for each in value]
        return items[0] if len(items) == 1 else items
    if not isinstance(value, dict):
        return value
    if "coding" in value or {"code", "display"} <= value.keys():
        return _concept(value)
    if "reference" in value:
        return _reference(value, resolver)
    if "value" in value and "system" in value and not {"unit", "code"} & value.keys():
        return {str(value["system"]).rsplit("/", 1)[-1]: value["value"]}
    if "value" in value and "unit" in value:
        return {
            name: each for name, each in value.items() if name in {"value", "unit", "comparator"}
        }
    return {name: _small(each, resolver) for name, each in value.items() if name not in DROPPED}


def _concept(value: dict[str, Any]) -> str:
    """`words [code]`, several codings parted by semicolons."""
    codings = [each for each in value.get("coding") or [value] if isinstance(each, dict)]
    parts = []
    for coding in codings:
        words, code = coding.get("display") or value.get("text"), coding.get("code")
        parts.append(
            f"{words} [{code}]" if words and code and words != code else str(words or code or "")
        )
    return "; ".join(dict.fromkeys(part for part in parts if part)) or concept_name(value)


def _reference(value: dict[str, Any], resolver: Resolver | None) -> Any:
    text = value["reference"]
    found = (
        resolver.resolve(value)
        if resolver is not None and not str(text).startswith("Patient/")
        else None
    )
    words = (
        _name(found, resolver)
        if found is not None and resolver is not None
        else value.get("display")
    )
    return f"{text} ({words})" if words else text


def _name(resource: Resource, resolver: Resolver) -> str:
    """A mix has no name of its own: its ingredients are it."""
    parts = resolver.at(resource, "ingredient.itemReference")
    return display_name(resource) or " + ".join(display_name(part) for part in parts)
