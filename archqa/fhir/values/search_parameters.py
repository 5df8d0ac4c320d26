"""The search parameters of each type with elements and kinds, from `search_parameters.tsv`.

Source: hl7.org/fhir/R4/searchparameter-registry.html.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from archqa.core.tables import TableRow, read_rows


class Kind(StrEnum):
    """How the values of a parameter compare (hl7.org/fhir/R4/search.html#ptypes)."""

    TOKEN = "token"
    DATE = "date"
    STRING = "string"
    REFERENCE = "reference"
    QUANTITY = "quantity"
    NUMBER = "number"
    URI = "uri"
    COMPOSITE = "composite"


THE_RESOURCE = "."
"""The group of a composite whose halves are elements of the resource itself."""


@dataclass(frozen=True)
class Parameter:
    """One search parameter of one type.

    `extra` elements are searched in the archqa profile only; `targets` are the types of a
    reference. A composite has no elements of its own, but `halves`, which must hold in the same
    item of one of its `groups`: `component`, or the resource itself.
    """

    name: str
    kind: Kind
    elements: tuple[str, ...]
    extra: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    halves: "tuple[Parameter, ...]" = ()
    groups: tuple[str, ...] = ()

    @property
    def is_identifier(self) -> bool:
        """Whether the values of a token parameter are Identifiers."""
        is_token = self.kind is Kind.TOKEN
        return is_token and all(map(is_identifier_element, self.elements))

    def half_in(self, group: str, number: int) -> "Parameter":
        """Return one half of a composite with its indexed elements in a group."""
        half = self.halves[number]
        paths = tuple(grouped_path(group, path) for path in half.elements)
        return replace(half, elements=paths)


def grouped_path(group: str, path: str) -> str:
    """Return how the index calls an element of a group's items: `component[].code`."""
    return path if group == THE_RESOURCE else f"{group}[].{path}"


@cache
def parameters(resource_type: str) -> dict[str, Parameter]:
    """Return the parameters of a type by name, those that every type has included."""
    rows = _rows()
    read = map(_read_parameter, (*rows["Resource"], *rows.get(resource_type, ())))
    return {parameter.name: parameter for parameter in read}


@cache
def elements(resource_type: str) -> tuple[tuple[Kind, str], ...]:
    """Return every indexed element of a type once, with the kind of index it needs.

    Those of the items of a group are not among them: see `group_elements`.
    """
    indexed: dict[tuple[Kind, str], None] = {}
    for parameter in parameters(resource_type).values():
        halves = parameter.halves if THE_RESOURCE in parameter.groups else ()
        for part in (parameter, *halves):
            for element in (*part.elements, *part.extra):
                indexed[part.kind, element] = None
    return tuple(indexed)


@cache
def group_elements(resource_type: str) -> dict[str, tuple[tuple[Kind, str], ...]]:
    """Return the indexed elements of the items of each group that a composite looks into."""
    indexed: dict[str, dict[tuple[Kind, str], None]] = {}
    for parameter in parameters(resource_type).values():
        for group in parameter.groups:
            for half in parameter.halves:
                for element in half.elements:
                    indexed.setdefault(group, {})[half.kind, element] = None
    indexed.pop(THE_RESOURCE, None)
    return {group: tuple(members) for group, members in indexed.items()}


_IDENTIFIER_ELEMENTS = ("identifier", "Identifier", "requisition")


def is_identifier_element(path: str) -> bool:
    """Whether the values of a token element are Identifiers."""
    return path.endswith(_IDENTIFIER_ELEMENTS)


def has_texts(resource_type: str, path: str) -> bool:
    """Whether the values of a token element have texts, which `:text` looks at.

    Identifiers and telephone numbers do not, but a Medication's identifiers do: they are its name.
    """
    if is_identifier_element(path):
        return resource_type == "Medication"
    return "telecom" not in path


def is_concept_element(resource_type: str, path: str) -> bool:
    """Whether the values of a token element name concepts of the chart, which `codes` lists."""
    return has_texts(resource_type, path) and not path.startswith(("meta.", "extension("))


@cache
def _rows() -> dict[str, list[TableRow]]:
    """Return the cells of the table by resource type."""
    rows: dict[str, list[TableRow]] = {}
    for row in read_rows("fhir/values/search_parameters.tsv", 5, optional=1):
        rows.setdefault(row[0], []).append(row)
    return rows


def _read_parameter(cells: TableRow) -> Parameter:
    """Read type, name, kind, elements (`~` marks extra ones) and perhaps targets."""
    name, kind = cells[1], Kind(cells[2])
    last = tuple(cells[4].split())
    if kind is Kind.COMPOSITE:
        halves = tuple(_read_half(name, cell) for cell in cells[3].split("$"))
        return Parameter(name, kind, (), halves=halves, groups=last)
    paths = cells[3].split("|")
    return Parameter(
        name=name,
        kind=kind,
        elements=tuple(path for path in paths if not path.startswith("~")),
        extra=tuple(path[1:] for path in paths if path.startswith("~")),
        targets=last,
    )


def _read_half(name: str, cell: str) -> Parameter:
    """Read a half of a composite: `valueDateTime,valuePeriod:date`."""
    paths, _, kind = cell.partition(":")
    return Parameter(name, Kind(kind), tuple(paths.split(",")))
