"""The value of a result: a number with comparator and unit, a range, or a text that may contain one.

A comparison with a number is true, false or unknown: `< 70` may lie below 60 or not, and a range of
11 to 13 above 12 or not.
"""

import math
import re
from functools import lru_cache
from typing import Literal, NamedTuple

from archqa.core.recorded_numbers import RecordedNumber
from archqa.terminology.units import ucum_unit

DAYS_PER_UNIT = {
    "minute": 1 / 1440,
    "hour": 1 / 24,
    "day": 1.0,
    "week": 7.0,
    "month": 365.25 / 12,
    "year": 365.25,
}

Comparison = Literal["greater", "less", "at_least", "at_most", "equal"]

_COMPARATORS = {
    "≤": "<=",
    "=<": "<=",
    "≥": ">=",
    "=>": ">=",
    "less than": "<",
    "below": "<",
    "under": "<",
    "up to": "<=",
    "greater than": ">",
    "more than": ">",
    "above": ">",
    "over": ">",
}
"""How laboratories write the comparators of FHIR."""

_SIGN = "|".join(
    map(re.escape, sorted((*_COMPARATORS, "<", ">", "<=", ">=", "~"), key=len)[::-1])
)
_NUMBER = r"-?(?:\d+(?:[.,]\d+)?|\.\d+)"
_AFTER = r"(?P<unit>[^\s\d()+:*!,-][^()]{0,200}?|10\S+)?"
_TEXT = re.compile(
    rf"\W{{0,20}}?(?P<comparator>{_SIGN})?\s*(?P<number>{_NUMBER})\s*{_AFTER}"
    r"\s*+(?:[(\[](?P<remark>[^()\[\]]*)[)\]])?[\s*!.]*",
    re.IGNORECASE,
)
_RANGE = re.compile(
    rf"(?P<low>{_NUMBER})\s*(?:-|–|to)\s*(?P<high>{_NUMBER})\s*{_AFTER}", re.IGNORECASE
)
_PRESSURE = re.compile(
    r"\s*(?P<systolic>\d{2,3})\s*/\s*(?P<diastolic>\d{2,3})\s*+(?P<unit>mm\s?\[?Hg\]?)?\s*+(?:[(,;].*)?",
    re.IGNORECASE,
)
_PER = re.compile(r"[^\s\d/,;]*/[^\s\d,;][^\s,;]*")
"""A unit per another one: /HPF, copies/mL."""

_THOUSANDS = re.compile(r"-?\d+,\d{3}")
"""1,234 may be a thousand or one with three decimals: it is no number that can be compared."""

_MARKS = frozenset({"HH", "H", "LL", "L", "HIGH", "LOW", "CRITICAL", "ABNORMAL"})


RANGE = "range"
"""The comparator of a text that is a range: `11 to 13 K/uL`."""


class Value(NamedTuple):
    """A value as the record has it. `text` is what was written where it was no plain number.

    `mark` is the flag that a laboratory wrote behind the number: HH in `6.3 mmol/L (HH)`.
    """

    number: float | None = None
    text: str = ""
    unit: str = ""
    comparator: str = ""
    mark: str = ""


class Interval(NamedTuple):
    """The numbers that a value may be."""

    low: float
    high: float
    includes_low: bool = True
    includes_high: bool = True

    @property
    def negative(self) -> "Interval":
        """The same numbers with the other sign."""
        return Interval(-self.high, -self.low, self.includes_high, self.includes_low)

    def minus(self, other: "Interval") -> "Interval":
        """The differences that are possible."""
        return Interval(
            self.low - other.high,
            self.high - other.low,
            self.includes_low and other.includes_high,
            self.includes_high and other.includes_low,
        )

    @property
    def is_exact(self) -> bool:
        """Whether it is one number."""
        return self.low == self.high

    def satisfies(self, comparison: Comparison, number: float) -> bool | None:
        """Whether the value stands so to a number; None where the record does not decide it."""
        exceeds = self.low > number or (self.low == number and not self.includes_low)
        stays_below = self.high < number or (
            self.high == number and not self.includes_high
        )
        if comparison == "equal":
            if exceeds or stays_below:
                return False
            return True if self.is_exact else None
        certain, impossible = {
            "greater": (exceeds, self.high <= number),
            "at_least": (self.low >= number, stays_below),
            "less": (stays_below, self.low >= number),
            "at_most": (self.high <= number, exceeds),
        }[comparison]
        if certain:
            return True
        return False if impossible else None


@lru_cache(maxsize=4096)
def interval_of(number: float | None, comparator: str, text: str) -> Interval | None:
    """Return the numbers that a value may be; None for a text without a number or range."""
    if number is None:
        if comparator != RANGE:
            return None
        match = _RANGE.fullmatch(text.strip())
        if match is None:
            return None
        return Interval(_float(match["low"]), _float(match["high"]))
    if not comparator:
        return Interval(number, number)
    if comparator in {"<", "<="}:
        return Interval(-math.inf, number, includes_high=comparator == "<=")
    if comparator in {">", ">="}:
        return Interval(number, math.inf, includes_low=comparator == ">=")
    return Interval(-math.inf, math.inf)


def usual_comparator(written: str) -> str:
    """Return a comparator of FHIR for one that is written otherwise; an unknown one as it is."""
    written = written.strip().lower()
    return _COMPARATORS.get(written, written)


def read_text(text: str) -> Value:
    """Return a text with the number that it consists of, if any: `>60`, `5.9 mmol/L (HH)`."""
    if _is_range(text):
        return Value(text=text, comparator=RANGE)
    match = _TEXT.fullmatch(text.strip())
    if match is None or _THOUSANDS.fullmatch(match["number"]):
        return Value(text=text)
    unit, mark = match["unit"] or "", match["remark"] or ""
    if unit.upper() in _MARKS:
        unit, mark = "", unit
    elif not mark and not _is_unit(unit):
        # Behind the unit: a mark, or a remark such as "hemolyzed".
        unit, _, mark = unit.partition(" ")
        unit = unit.rstrip(",;")
    if not _is_unit(unit):
        return Value(text=text)
    number = RecordedNumber(match["number"].replace(",", "."))
    return Value(
        number, text, unit, usual_comparator(match["comparator"] or ""), mark.upper()
    )


def read_pressure(text: str) -> tuple[Value, Value] | None:
    """Return the systolic and the diastolic pressure of `146/92 mmHg`; None for another text."""
    match = _PRESSURE.fullmatch(text)
    if match is None:
        return None
    systolic, diastolic = int(match["systolic"]), int(match["diastolic"])
    if systolic <= diastolic:
        return None
    return Value(systolic, unit="mmHg"), Value(diastolic, unit="mmHg")


def _is_range(text: str) -> bool:
    match = _RANGE.fullmatch(text.strip())
    if match is None or not _is_unit(match["unit"]):
        return False
    return _float(match["low"]) <= _float(match["high"])


def _is_unit(text: str | None) -> bool:
    if not text:
        return True
    return ucum_unit(text) is not None or _PER.fullmatch(text) is not None


def _float(text: str) -> float:
    return float(text.replace(",", "."))
