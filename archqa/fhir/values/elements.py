"""The elements of each type of resource, from `elements.tsv`. Source: hl7.org/fhir/R4, the types."""

from functools import cache
from pathlib import Path

_OF_ALL = (
    *("id", "meta", "implicitRules", "language"),
    *("text", "contained", "extension", "modifierExtension"),
    "resourceType",
)
_CHOICE = "[x]"


@cache
def element_names(resource_type: str) -> frozenset[str]:
    """Return the elements of a type; one with a choice of types is `value`, without `[x]`."""
    names = _table().get(resource_type, ())
    return frozenset((*_OF_ALL, *(name.removesuffix(_CHOICE) for name in names)))


def has_element(resource_type: str, name: str) -> bool:
    """Whether a type has an element: `value`, `value[x]` and `valueQuantity` are names of one."""
    plain = name.removesuffix(_CHOICE)
    if plain in element_names(resource_type):
        return True
    for element in _table().get(resource_type, ()):
        choice = element.removesuffix(_CHOICE)
        rest = name.removeprefix(choice)
        if choice != element and rest != name and rest[:1].isupper():
            return True
    return False


@cache
def _table() -> dict[str, tuple[str, ...]]:
    table = {}
    text = (Path(__file__).parent / "elements.tsv").read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            resource_type, names = line.split("\t")
            table[resource_type] = tuple(names.split())
    return table
