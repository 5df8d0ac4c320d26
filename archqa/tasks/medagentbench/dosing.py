"""Dosing instructions in a text: a table of ranges, or a dose for every step below a goal."""

import re
from typing import NamedTuple

_NUMBER = r"(?<!\d)\d++(?:\.\d++)?"
_BAND = re.compile(
    rf"(?:(?P<low>{_NUMBER})\s*(?:to|-|–)\s*+(?P<open><)?\s*+(?P<high>{_NUMBER})"
    rf"|<\s*(?P<below>{_NUMBER}))"
    rf"\s*(?P<measure>[A-Za-z]+/[A-Za-z]+)\s*\)?\s*:\s*(?P<route>[A-Za-z]+)\s*:\s*"
    rf"(?P<dose>{_NUMBER})\s*(?P<unit>[A-Za-z]+)\s+over\s+"
    rf"(?P<time>{_NUMBER})\s*(?P<span>hour|minute)",
    re.IGNORECASE,
)
_STEP = re.compile(
    rf"for (?:every|each) (?P<step>{_NUMBER})\s*(?P<measure>[A-Za-z]++/[A-Za-z]++).{{0,500}}?\bbelow\b.{{0,200}}?"
    rf"(?P<dose>{_NUMBER})\s*(?P<unit>[A-Za-z]+)\b(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_RULE_START = re.compile(r"\(\d+\)|\n|(?<=[.;])\s")
_GOAL = re.compile(
    rf"\b(?:goal|target|threshold)\s+of\s+(?P<goal>{_NUMBER})", re.IGNORECASE
)
_ROUTE = re.compile(r"\b(?:oral|IV|intravenous|PO)\b", re.IGNORECASE)


class Dose(NamedTuple):
    """An amount of a medication by one route; `hours` is the duration of an infusion, if stated."""

    amount: int | float
    unit: str
    route: str
    hours: int | float | None = None


class Band(NamedTuple):
    """A dose for measurements below `high`, and for `high` itself if `inclusive`.

    `rule` is the text that says so.
    """

    high: float
    inclusive: bool
    dose: Dose
    rule: str = ""

    def contains(self, value: float) -> bool:
        """Whether a measurement is low enough for this dose; lower bands come first."""
        return value < self.high or (self.inclusive and value == self.high)


class DosingInstructions(NamedTuple):
    """Instructions for one medication: `bands`, or `step_dose` for every `step` below `goal`.

    `measure` is the unit in which they state measurements, `step_rule` the text of the steps.
    """

    measure: str
    bands: tuple[Band, ...] = ()
    step: float = 0.0
    goal: float = 0.0
    step_dose: Dose | None = None
    step_rule: str = ""

    def dose_for(self, value: float) -> Dose | None:
        """The dose for a measurement; None if it is not low."""
        if self.step_dose is not None:
            if value >= self.goal:
                return None
            steps = (self.goal - value) / self.step
            return self.step_dose._replace(
                amount=normalize_number(steps * self.step_dose.amount)
            )
        band = self._band_for(value)
        return band.dose if band else None

    def rule_for(self, value: float) -> str:
        """The words of the rule that decides about a measurement; of all, if it is not low."""
        if self.step_dose is not None:
            return self.step_rule
        band = self._band_for(value)
        return band.rule if band else "; ".join(each.rule for each in self.bands)

    def _band_for(self, value: float) -> Band | None:
        return next((band for band in self.bands if band.contains(value)), None)


def normalize_number(number: float) -> int | float:
    """10.0 as 10, without the rounding errors of arithmetic beyond the tenth decimal."""
    rounded = round(number, 10)
    return int(rounded) if float(rounded).is_integer() else rounded


def parse_dosing(text: str) -> DosingInstructions | None:
    """The dosing instructions in a text; None if it has none of a known form."""
    bands = []
    measure = ""
    end = 0
    for match in _BAND.finditer(text):
        hours = float(match["time"])
        if match["span"].lower() == "minute":
            hours /= 60
        amount = normalize_number(float(match["dose"]))
        dose = Dose(amount, match["unit"], match["route"], normalize_number(hours))
        # A rule begins with the last number in brackets, line or sentence before its range.
        starts = [
            start.start() for start in _RULE_START.finditer(text, end, match.start())
        ]
        rule = _rule(text, max(starts, default=end), match.end())
        high = float(match["below"] or match["high"])
        inclusive = not match["below"] and not match["open"]
        bands.append(Band(high, inclusive, dose, rule))
        measure = measure or match["measure"]
        end = match.end()
    if bands:
        by_limit = sorted(bands, key=lambda band: band.high)
        return DosingInstructions(measure, tuple(by_limit))
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
        step_rule=_rule(text, step.start(), max(step.end("unit"), goal.end())),
    )


def _rule(text: str, start: int, end: int) -> str:
    """A rule in the words of the text, up to the end of its last word, on one line."""
    word_end = re.compile(r"\w*\)?").match(text, end)
    assert word_end is not None  # The pattern matches the empty text, too.
    return " ".join(text[start : word_end.end()].split()).lstrip(".;, ")
