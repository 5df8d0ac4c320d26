"""The search parameters: by which elements of a type one may search, and how. The table is `parameters.tsv`.

Source: hl7.org/fhir/R4/searchparameter-registry.html.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path


class Kind(StrEnum):
    """How the values of a parameter compare (hl7.org/fhir/R4/search.html#ptypes)."""

    TOKEN = "token"
    DATE = "date"
    STRING = "string"
    REFERENCE = "reference"
    QUANTITY = "quantity"
    NUMBER = "number"
    URI = "uri"


@dataclass(frozen=True)
class Parameter:
    """One search parameter of one type. `extra` elements are looked at in the archqa profile only."""

    name: str
    kind: Kind
    elements: tuple[str, ...]
    extra: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


@cache
def parameters(resource_type: str) -> dict[str, Parameter]:
    """The parameters of a type, by name; types without rows of their own have the general ones."""
    table = _table()
    return table.get(resource_type) or table["*"]


@cache
def elements(resource_type: str) -> tuple[tuple[Kind, str], ...]:
    """Every element of a type that is indexed, each once, with the kind of index it needs."""
    found = {
        (parameter.kind, element): None
        for parameter in parameters(resource_type).values()
        for element in (*parameter.elements, *parameter.extra)
    }
    return tuple(found)


@cache
def _table() -> dict[str, dict[str, Parameter]]:
    found: dict[str, dict[str, Parameter]] = {}
    for line in (
        (Path(__file__).parent / "search_parameters.tsv").read_text(encoding="utf-8").splitlines()
    ):
        if not line.startswith("#"):
            resource_type, parameter = _read(line.split("\t"))
            found.setdefault(resource_type, {})[parameter.name] = parameter
    return found


def _read(cells: list[str]) -> tuple[str, Parameter]:
    resource_type, name, kind, where = cells[:4]
    paths = where.split("|")
    return resource_type, Parameter(
        name=name,
        kind=Kind(kind),
        elements=tuple(path for path in paths if not path.startswith("~")),
        extra=tuple(path[1:] for path in paths if path.startswith("~")),
        targets=tuple(cells[4].split()) if len(cells) > 4 else (),
    )
