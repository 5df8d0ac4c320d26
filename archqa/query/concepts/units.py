"""Conversion of a value between units, for the measurement that it belongs to."""

from functools import cache
from typing import NamedTuple

from archqa.core.tables import read_rows
from archqa.core.units import Unit, find_unit
from archqa.query.concepts.concept import Concept

_ANY_CONCEPT = "*"
_MASS, _AMOUNT, _EQUIVALENT = (
    "mass concentration",
    "amount concentration",
    "equivalent concentration",
)


class _MolarMass(NamedTuple):
    """Grams per mole, where masses are counted, and the charge of the ion, where it has one."""

    grams: float | None
    charge: int | None


class _Line(NamedTuple):
    """A conversion `factor * value + offset`."""

    factor: float
    offset: float

    def forwards(self, value: float) -> float:
        return self.factor * value + self.offset

    def backwards(self, value: float) -> float:
        return (value - self.offset) / self.factor


def convert(value: float, unit: str, to_unit: str, concept: Concept | None = None) -> float | None:
    """Return `value` in `to_unit`, or None where that is not known for certain.

    Mass and amount concentrations convert only for a concept whose molar mass is in
    `molar_masses.tsv`; hemoglobin A1c between NGSP and IFCC by the master equation.

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
    linear = _linear(value, source, wanted, name)
    return linear if linear is not None else _by_molar_mass(value, source, wanted, name)


def ucum_unit(text: str) -> str | None:
    """Return the UCUM code of a unit as laboratories write it; of an unknown one, None."""
    unit = find_unit(text)
    return unit.ucum if unit else None


def _linear(value: float, source: Unit, wanted: Unit, name: str) -> float | None:
    """Convert by a line between two units, or between units of the same quantities."""
    lines = _lines()
    for concept in (name, _ANY_CONCEPT):
        if line := lines.get((concept, source.ucum, wanted.ucum)):
            return line.forwards(value)
        if line := lines.get((concept, wanted.ucum, source.ucum)):
            return line.backwards(value)
    return None


def _by_molar_mass(value: float, source: Unit, wanted: Unit, name: str) -> float | None:
    molar_mass = _molar_masses().get(name)
    if molar_mass is None:
        return None
    per_mole = {_MASS: molar_mass.grams, _AMOUNT: 1.0, _EQUIVALENT: molar_mass.charge}
    source_per_mole, wanted_per_mole = per_mole.get(source.quantity), per_mole.get(wanted.quantity)
    if not source_per_mole or not wanted_per_mole:
        return None
    return value * source.size / source_per_mole * wanted_per_mole / wanted.size


@cache
def _molar_masses() -> dict[str, _MolarMass]:
    return {
        name: _MolarMass(None if grams == "-" else float(grams), int(charge) or None)
        for name, grams, charge in read_rows("query/concepts/data/molar_masses.tsv", 3)
    }


@cache
def _lines() -> dict[tuple[str, str, str], _Line]:
    return {
        (concept, from_unit, to_unit): _Line(float(factor), float(offset))
        for concept, from_unit, to_unit, factor, offset in read_rows(
            "query/concepts/data/linear_conversions.tsv", 5
        )
    }
