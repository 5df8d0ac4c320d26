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
_RULE_START = re.compile(r"\(\d+\)|\n|(?<=[.;])\s")
_GOAL = re.compile(rf"\b(?:goal|target|threshold)\s+of\s+(?P<goal>{_NUMBER})", re.IGNORECASE)
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
            return self._stepwise_dose(value, self.step_dose)
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
    starts = [0, *(match.end() for match in matches)]
    parsed = [_band(match, start) for match, start in zip(matches, starts, strict=False)]
    bands = sorted(parsed, key=lambda band: band.high)
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
        step_rule=_rule(text, step.start(), max(step.end("unit"), goal.end())),
    )


def _band(match: re.Match[str], earliest: int) -> Band:
    """The dose of a match, whose rule begins where nothing before `earliest` does."""
    hours = float(match["time"])
    if match["span"].lower() == "minute":
        hours /= 60
    amount = normalize_number(float(match["dose"]))
    dose = Dose(amount, match["unit"], match["route"], normalize_number(hours))
    rule = _rule(match.string, _rule_start(match, earliest), match.end())
    if match["below"]:
        return Band(float(match["below"]), inclusive=False, dose=dose, rule=rule)
    return Band(float(match["high"]), inclusive=not match["open"], dose=dose, rule=rule)


def _rule_start(match: re.Match[str], earliest: int) -> int:
    """The last number in brackets, line or sentence that begins before the range."""
    starts = _RULE_START.finditer(match.string, earliest, match.start())
    return max((start.start() for start in starts), default=earliest)


def _rule(text: str, start: int, end: int) -> str:
    """A rule in the words of the text, up to the end of its last word, on one line."""
    word_end = re.compile(r"\w*\)?").match(text, end)
    assert word_end is not None  # The pattern matches the empty text, too.
    return " ".join(text[start : word_end.end()].split()).lstrip(".;, ")
