"""The search parameters of each type with elements and kinds, from `search_parameters.tsv`.

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
    """One search parameter of one type.

    `extra` elements are searched in the archqa profile only; `targets` are the types of a
    reference.
    """

    name: str
    kind: Kind
    elements: tuple[str, ...]
    extra: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


@cache
def parameters(resource_type: str) -> dict[str, Parameter]:
    """Return the parameters of a type by name; a type without rows has the general ones."""
    table = _table()
    return table.get(resource_type) or table["*"]


@cache
def elements(resource_type: str) -> tuple[tuple[Kind, str], ...]:
    """Return every indexed element of a type once, with the kind of index it needs."""
    indexed: dict[tuple[Kind, str], None] = {}
    for parameter in parameters(resource_type).values():
        for element in (*parameter.elements, *parameter.extra):
            indexed[parameter.kind, element] = None
    return tuple(indexed)


def is_concept_element(resource_type: str, path: str) -> bool:
    """Whether the values of a token element name concepts, which `codes` lists.

    Identifiers and telephone numbers do not, but a Medication's identifiers do: they are its name.
    """
    if path.endswith(("identifier", "Identifier")):
        return resource_type == "Medication"
    return "telecom" not in path


@cache
def _table() -> dict[str, dict[str, Parameter]]:
    table: dict[str, dict[str, Parameter]] = {}
    path = Path(__file__).parent / "search_parameters.tsv"
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            cells = line.split("\t")
            parameter = _read_parameter(cells)
            table.setdefault(cells[0], {})[parameter.name] = parameter
    return table


def _read_parameter(cells: list[str]) -> Parameter:
    """Read type, name, kind, elements (`~` marks extra ones) and perhaps targets."""
    paths = cells[3].split("|")
    targets = cells[4].split() if len(cells) > 4 else []
    return Parameter(
        name=cells[1],
        kind=Kind(cells[2]),
        elements=tuple(path for path in paths if not path.startswith("~")),
        extra=tuple(path[1:] for path in paths if path.startswith("~")),
        targets=tuple(targets),
    )
