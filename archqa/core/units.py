"""Units as people and laboratories write them, from `data/units.tsv`: what they measure, and size.

Source: UCUM (ucum.org).
"""

from functools import cache
from typing import NamedTuple

from archqa.core.tables import read_rows

_NO_FORMS = "-"


class Unit(NamedTuple):
    """A unit: its UCUM code, what it measures, and its size in the base unit of that quantity."""

    ucum: str
    quantity: str
    size: float


def find_unit(text: str) -> Unit | None:
    """Return the unit that a text names, in UCUM or as laboratories write it; None if unknown."""
    written = text.strip().replace("μ", "µ")
    units = _units()
    return units.get(written) or units.get(written.lower())


@cache
def _units() -> dict[str, Unit]:
    """Return the units by UCUM code, by every form, and by both in lower case."""
    units: dict[str, Unit] = {}
    for ucum, forms, quantity, size in read_rows("core/data/units.tsv", 4):
        unit = Unit(ucum, quantity, float(size))
        units[ucum] = unit
        for form in forms.split("|") if forms != _NO_FORMS else ():
            units.setdefault(form.lower(), unit)
    for ucum, unit in list(units.items()):
        units.setdefault(ucum.lower(), unit)
    return units
