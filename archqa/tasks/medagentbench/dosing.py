"""Dosing instructions as an instruction words them: a table of ranges, or so much for every step below a goal."""

import re
from typing import NamedTuple

from archqa.tasks.medagentbench.write_intents import normalize_number

_NUMBER = r"\d+(?:\.\d+)?"
_BAND = re.compile(
    rf"(?:(?P<low>{_NUMBER})\s*(?:to|-|–)\s*(?P<open><)?\s*(?P<high>{_NUMBER})|<\s*(?P<below>{_NUMBER}))"
    rf"\s*(?P<measure>[A-Za-z]+/[A-Za-z]+)\s*\)?\s*:\s*(?P<route>[A-Za-z]+)\s*:\s*"
    rf"(?P<dose>{_NUMBER})\s*(?P<unit>[A-Za-z]+)\s+over\s+(?P<time>{_NUMBER})\s*(?P<span>hour|minute)",
    re.IGNORECASE,
)
_STEP = re.compile(
    rf"for (?:every|each) (?P<step>{_NUMBER})\s*(?P<measure>[A-Za-z]+/[A-Za-z]+).*?\bbelow\b.*?"
    rf"(?P<dose>{_NUMBER})\s*(?P<unit>[A-Za-z]+)\b(?P<words>.*)",
    re.IGNORECASE | re.DOTALL,
)
_GOAL = re.compile(rf"\b(?:goal|target|threshold)\s+of\s+(?P<goal>{_NUMBER})", re.IGNORECASE)
_ROUTE = re.compile(r"\b(?:oral|IV|intravenous|PO)\b", re.IGNORECASE)


class Dose(NamedTuple):
    """So much of a medication by one route, over so many hours where that is said."""

    amount: int | float
    unit: str
    route: str
    hours: int | float | None = None


class Band(NamedTuple):
    """A dose for measurements up to `high`, which belongs to it or not."""

    high: float
    inclusive: bool
    dose: Dose


class DosingInstructions(NamedTuple):
    """Instructions for one medication; `measure` is the unit in which they state measurements."""

    measure: str
    bands: tuple[Band, ...] = ()
    step: float = 0.0
    goal: float = 0.0
    each: Dose | None = None

    def dose_for(self, value: float) -> Dose | None:
        """The dose for a measurement; None if it is not low."""
        if self.each is not None:
            return self._by_steps(value, self.each)
        for band in self.bands:
            if value < band.high or (band.inclusive and value == band.high):
                return band.dose
        return None

    def _by_steps(self, value: float, each: Dose) -> Dose | None:
        if value >= self.goal:
            return None
        return each._replace(amount=normalize_number((self.goal - value) / self.step * each.amount))


def parse_dosing(text: str) -> DosingInstructions | None:
    """The dosing instructions in a text; None if it holds none of a form we know."""
    bands = sorted((_band(found) for found in _BAND.finditer(text)), key=lambda each: each.high)
    if bands:
        measure = _BAND.search(text)
        return DosingInstructions(measure["measure"] if measure else "", tuple(bands))
    step, goal = _STEP.search(text), _GOAL.search(text)
    if step is None or goal is None:
        return None
    route = _ROUTE.search(step["words"])
    each = Dose(normalize_number(float(step["dose"])), step["unit"], route[0] if route else "")
    return DosingInstructions(step["measure"], (), float(step["step"]), float(goal["goal"]), each)


def _band(found: re.Match[str]) -> Band:
    hours = float(found["time"]) / (60 if found["span"].lower() == "minute" else 1)
    dose = Dose(
        normalize_number(float(found["dose"])),
        found["unit"],
        found["route"],
        normalize_number(hours),
    )
    if found["below"]:
        return Band(float(found["below"]), False, dose)
    return Band(float(found["high"]), not found["open"], dose)
