"""Dosing instructions in a text: a table of ranges, or a dose for every step below a goal."""

import re
from typing import NamedTuple

from archqa.tasks.medagentbench.write_intents import normalize_number

_NUMBER = r"\d+(?:\.\d+)?"
_BAND = re.compile(
    rf"(?:(?P<low>{_NUMBER})\s*(?:to|-|–)\s*(?P<open><)?\s*(?P<high>{_NUMBER})"
    rf"|<\s*(?P<below>{_NUMBER}))"
    rf"\s*(?P<measure>[A-Za-z]+/[A-Za-z]+)\s*\)?\s*:\s*(?P<route>[A-Za-z]+)\s*:\s*"
    rf"(?P<dose>{_NUMBER})\s*(?P<unit>[A-Za-z]+)\s+over\s+"
    rf"(?P<time>{_NUMBER})\s*(?P<span>hour|minute)",
    re.IGNORECASE,
)
_STEP = re.compile(
    rf"for (?:every|each) (?P<step>{_NUMBER})\s*(?P<measure>[A-Za-z]+/[A-Za-z]+).*?\bbelow\b.*?"
    rf"(?P<dose>{_NUMBER})\s*(?P<unit>[A-Za-z]+)\b(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_GOAL = re.compile(rf"\b(?:goal|target|threshold)\s+of\s+(?P<goal>{_NUMBER})", re.IGNORECASE)
_ROUTE = re.compile(r"\b(?:oral|IV|intravenous|PO)\b", re.IGNORECASE)


class Dose(NamedTuple):
    """An amount of a medication by one route; `hours` is the duration of an infusion, if stated."""

    amount: int | float
    unit: str
    route: str
    hours: int | float | None = None


class Band(NamedTuple):
    """A dose for measurements below `high`, and for `high` itself if `inclusive`."""

    high: float
    inclusive: bool
    dose: Dose

    def contains(self, value: float) -> bool:
        """Whether a measurement is low enough for this dose; lower bands come first."""
        return value < self.high or (self.inclusive and value == self.high)


class DosingInstructions(NamedTuple):
    """Instructions for one medication: `bands`, or `step_dose` for every `step` below `goal`.

    `measure` is the unit in which they state measurements.
    """

    measure: str
    bands: tuple[Band, ...] = ()
    step: float = 0.0
    goal: float = 0.0
    step_dose: Dose | None = None

    def dose_for(self, value: float) -> Dose | None:
        """The dose for a measurement; None if it is not low."""
        if self.step_dose is not None:
            return self._stepwise_dose(value, self.step_dose)
        for band in self.bands:
            if band.contains(value):
                return band.dose
        return None

    def _stepwise_dose(self, value: float, step_dose: Dose) -> Dose | None:
        if value >= self.goal:
            return None
        steps = (self.goal - value) / self.step
        return step_dose._replace(amount=normalize_number(steps * step_dose.amount))


def parse_dosing(text: str) -> DosingInstructions | None:
    """The dosing instructions in a text; None if it has none of a known form."""
    return _parse_bands(text) or _parse_steps(text)


def _parse_bands(text: str) -> DosingInstructions | None:
    matches = list(_BAND.finditer(text))
    if not matches:
        return None
    bands = sorted((_band(match) for match in matches), key=lambda band: band.high)
    return DosingInstructions(matches[0]["measure"], tuple(bands))


def _parse_steps(text: str) -> DosingInstructions | None:
    step, goal = _STEP.search(text), _GOAL.search(text)
    if step is None or goal is None:
        return None
    route = _ROUTE.search(step["rest"])
    amount = normalize_number(float(step["dose"]))
    return DosingInstructions(
        measure=step["measure"],
        step=float(step["step"]),
        goal=float(goal["goal"]),
        step_dose=Dose(amount, step["unit"], route[0] if route else ""),
    )


def _band(match: re.Match[str]) -> Band:
    hours = float(match["time"])
    if match["span"].lower() == "minute":
        hours /= 60
    amount = normalize_number(float(match["dose"]))
    dose = Dose(amount, match["unit"], match["route"], normalize_number(hours))
    if match["below"]:
        return Band(float(match["below"]), inclusive=False, dose=dose)
    return Band(float(match["high"]), inclusive=not match["open"], dose=dose)
