"""Closed lists of names, most of them R4's, in `names.tsv`."""

from functools import cache

from archqa.core.tables import read_rows


@cache
def names_by_key(name: str) -> dict[str, tuple[str, ...]]:
    """Return the names of each key of a list; empty if there is no such list."""
    names = {}
    for list_name, key, cell in read_rows("fhir/values/names.tsv", 3):
        if list_name == name:
            names[key] = tuple(cell.split())
    return names


def names_in(name: str) -> tuple[str, ...]:
    """Return the names of a list without keys."""
    return names_by_key(name)["-"]
