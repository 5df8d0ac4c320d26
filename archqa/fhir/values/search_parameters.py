"""The search parameters of each type with elements and kinds, and those that make compartments.

Sources: hl7.org/fhir/R4/searchparameter-registry.html in `search_parameters.tsv`,
compartmentdefinition-encounter.html in `names.tsv`.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from archqa.core.tables import TableRow, read_rows
from archqa.fhir.values.names import names_by_key

R4_COMPARTMENTS = ("Device", "Encounter", "Patient", "Practitioner", "RelatedPerson")
"""All compartments of R4. The table has the definitions of those that are supported by it."""

THE_RESOURCE = "."
"""The group of a composite whose halves are elements of the resource itself."""

_IDENTIFIER_ELEMENTS = ("identifier", "Identifier", "requisition")


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
    named = {}
    for cells in (*rows["Resource"], *rows.get(resource_type, ())):
        _, name, kind_name, elements_cell, *last_cell = cells
        kind = Kind(kind_name)
        last = tuple(last_cell[0].split()) if last_cell else ()
        if kind is Kind.COMPOSITE:
            halves = []
            for half in elements_cell.split("$"):
                paths, _, half_kind = half.partition(":")
                halves.append(Parameter(name, Kind(half_kind), tuple(paths.split(","))))
            named[name] = Parameter(
                name,
                kind,
                (),
                halves=tuple(halves),
                groups=last,
            )
            continue
        own: list[str] = []
        extra: list[str] = []
        for path in elements_cell.split("|"):
            (extra if path.startswith("~") else own).append(path.removeprefix("~"))
        named[name] = Parameter(
            name,
            kind,
            tuple(own),
            tuple(extra),
            targets=last,
        )
    return named


@cache
def _rows() -> dict[str, list[TableRow]]:
    """Return the rows of the table by resource type."""
    rows: dict[str, list[TableRow]] = {}
    for cells in read_rows("fhir/values/search_parameters.tsv", 5, optional=1):
        rows.setdefault(cells[0], []).append(cells)
    return rows


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
    return has_texts(resource_type, path) and not path.startswith(
        ("meta.", "extension(")
    )


def member_paths(compartment: str, resource_type: str) -> tuple[str, ...]:
    """Return the elements of a type that put it into a compartment.

    Empty if the type is not in it, or if this server has not the parameters that decide.
    """
    paths: list[str] = []
    for name in names_by_key(compartment).get(resource_type, ()):
        parameter = parameters(resource_type).get(name)
        if parameter is None or parameter.kind is not Kind.REFERENCE:
            return ()
        paths += parameter.elements
    return tuple(paths)
