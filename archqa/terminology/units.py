"""Units as people and laboratories write them, and conversions of values between them.

Source: UCUM (ucum.org).
"""

from functools import cache
from typing import NamedTuple

from archqa.core.tables import EMPTY, TableRow, read_rows, split_cell
from archqa.terminology.concept import Concept

_ANY_CONCEPT = "*"
_MASS, _AMOUNT, _EQUIVALENT = (
    "mass concentration",
    "amount concentration",
    "equivalent concentration",
)


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


def ucum_unit(text: str) -> str | None:
    """Return the UCUM code of a unit as laboratories write it; of an unknown one, None."""
    unit = find_unit(text)
    return unit.ucum if unit else None


def convert(
    value: float, unit: str, to_unit: str, concept: Concept | None = None
) -> float | None:
    """Return `value` in `to_unit`, or None where that is not known for certain.

    Mass and amount concentrations convert only for a concept whose molar mass is in
    `conversions.tsv`; hemoglobin A1c between NGSP and IFCC by the master equation.

    Args:
        value: The number of the record.
        unit: Its unit, in UCUM or as laboratories write it.
        to_unit: The unit that is wanted.
        concept: The measurement that the value belongs to.
    """
    source, wanted = find_unit(unit), find_unit(to_unit)
    if source is None or wanted is None:
        return None
    if source.quantity == wanted.quantity:
        return value if source == wanted else value * source.size / wanted.size
    name = concept.name if concept else _ANY_CONCEPT
    lines = _lines()
    for line_name in (name, _ANY_CONCEPT):
        if line := lines.get((line_name, source.ucum, wanted.ucum)):
            factor, offset = line
            return factor * value + offset
        if line := lines.get((line_name, wanted.ucum, source.ucum)):
            factor, offset = line
            return (value - offset) / factor
    molar_mass = _molar_masses().get(name)
    if molar_mass is None:
        return None
    grams, charge = molar_mass
    per_mole = {_MASS: grams, _AMOUNT: 1.0, _EQUIVALENT: charge}
    source_per_mole = per_mole.get(source.quantity)
    wanted_per_mole = per_mole.get(wanted.quantity)
    if not source_per_mole or not wanted_per_mole:
        return None
    return value * source.size / source_per_mole * wanted_per_mole / wanted.size


@cache
def _units() -> dict[str, Unit]:
    """Return the units by UCUM code, by every form, and by both in lower case."""
    units: dict[str, Unit] = {}
    for ucum, forms, quantity, size in read_rows("terminology/data/units.tsv", 4):
        unit = Unit(ucum, quantity, float(size))
        units[ucum] = unit
        for form in split_cell(forms):
            units.setdefault(form.lower(), unit)
    for ucum, unit in list(units.items()):
        units.setdefault(ucum.lower(), unit)
    return units


@cache
def _molar_masses() -> dict[str, tuple[float | None, int | None]]:
    """Return grams per mole, where masses are counted, and the charge of the ion, where it has one."""
    masses = {}
    for _, name, grams, charge, *_ in _conversions("molar mass"):
        masses[name] = (None if grams == EMPTY else float(grams), int(charge) or None)
    return masses


@cache
def _lines() -> dict[tuple[str, str, str], tuple[float, float]]:
    """Return factor and offset of `factor * value + offset` by concept, unit and other unit."""
    lines = {}
    for _, concept, from_unit, to_unit, factor, offset in _conversions("line"):
        lines[concept, from_unit, to_unit] = (float(factor), float(offset))
    return lines


def _conversions(kind: str) -> list[TableRow]:
    rows = read_rows("terminology/data/conversions.tsv", 6, optional=2)
    return [row for row in rows if row[0] == kind]
