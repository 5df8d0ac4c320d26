"""How a drug is to be taken, in words: how often, when, as needed; and the strength in its name.

Codes: http://terminology.hl7.org/CodeSystem/v3-GTSAbbreviation and v3-TimingEvent, and what
hospitals write in their place (Q8H, PRN).
"""

import re
from collections.abc import Iterator
from typing import Any

from archqa.query.execution.elements import number_at, objects_at, text_at, value_at
from archqa.query.execution.names import concept_name

_ABBREVIATIONS = {
    "QD": "once a day",
    "DAILY": "once a day",
    "BID": "twice a day",
    "TID": "3 times a day",
    "QID": "4 times a day",
    "QOD": "every 2 days",
    "WK": "once a week",
    "WEEKLY": "once a week",
    "QWEEK": "once a week",
    "MO": "once a month",
    "AM": "every morning",
    "QAM": "every morning",
    "PM": "every afternoon",
    "QPM": "every evening",
    "BED": "at bedtime",
    "HS": "at bedtime",
    "QHS": "at bedtime",
    "ONCE": "once",
    "STAT": "once, at once",
    "PRN": "as needed",
}
_EVERY_HOURS = re.compile(r"^Q\s?(\d+)\s?H(?:RS?|OURS?)?$", re.IGNORECASE)
_EVENTS = {
    "MORN": "in the morning",
    "AFT": "in the afternoon",
    "EVE": "in the evening",
    "NIGHT": "at night",
    "HS": "at bedtime",
    "WAKE": "after waking",
    "C": "with meals",
    "CM": "with breakfast",
    "CD": "with lunch",
    "CV": "with dinner",
    "AC": "before meals",
    "ACM": "before breakfast",
    "ACD": "before lunch",
    "ACV": "before dinner",
    "PC": "after meals",
    "PCM": "after breakfast",
    "PCD": "after lunch",
    "PCV": "after dinner",
}
_UNITS = {
    "s": "second",
    "min": "minute",
    "h": "hour",
    "d": "day",
    "wk": "week",
    "mo": "month",
    "a": "year",
}
_STRENGTH = re.compile(
    r"(?<![\w.])\d[\d,]*(?:\.\d+)?\s?(?:mg|mcg|ug|g|ml|meq|mmol|unt|units?|iu|%)"
    r"(?:\s?/\s?(?:\d+(?:\.\d+)?\s?)?(?:mg|g|ml|hr|h|actuat|unt))?(?!\w)",
    re.IGNORECASE,
)

_VOLUME = re.compile(r"[\d.,]+\s?ml", re.IGNORECASE)


def dosage_facts(dosages: list[Any]) -> dict[str, tuple[str, ...]]:
    """The facts `frequency` and `dosage` (the instruction as written) of dosage instructions."""
    facts = {}
    frequencies = dict.fromkeys(filter(None, map(_frequency, dosages)))
    texts: dict[str, None] = {}
    for dosage in dosages:
        text = text_at(dosage, "text", "patientInstruction")
        texts.update(dict.fromkeys(filter(None, [text, *_additional(dosage)])))
    if frequencies:
        facts["frequency"] = tuple(frequencies)
    if texts:
        facts["dosage"] = tuple(texts)
    return facts


def strength(name: str) -> str:
    """The strength that a drug's name states, such as `10 MG` or `0.05 MG/ML`; empty if none.

    A product of several drugs has one strength each; a mere volume is none.
    """
    amounts = [match.group().strip() for match in _STRENGTH.finditer(name)]
    strengths = [amount for amount in amounts if not _VOLUME.fullmatch(amount)]
    return " / ".join(dict.fromkeys(strengths))


def _additional(dosage: Any) -> list[str]:
    """Further instructions, such as `Take with meals`."""
    return [concept_name(concept) for concept in objects_at(dosage, "additionalInstruction")]


def _frequency(dosage: Any) -> str:
    """How often, in words: by the timing, else by its code; with what is as needed."""
    words = _repeat_in_words(value_at(dosage, "timing.repeat"))
    if not words:
        words = _code_in_words(concept_name(value_at(dosage, "timing.code")))
    parts = list(filter(None, [words, *_as_needed(dosage)]))
    return ", ".join(dict.fromkeys(parts))


def _repeat_in_words(repeat: Any) -> str:
    count = number_at(repeat, "frequency") or 1
    period = number_at(repeat, "period")
    unit = _UNITS.get(text_at(repeat, "periodUnit"), "")
    events = [_EVENTS[code] for code in _codes(repeat, "when") if code in _EVENTS]
    days = [f"on {day}" for day in _codes(repeat, "dayOfWeek")]
    often = ""
    if period is not None and unit:
        often = _often(count, period, unit)
    return ", ".join(filter(None, [often, *events, *days]))


def _often(count: float, period: float, unit: str) -> str:
    """`twice a day`, `every 8 hours`, `3 times every 2 weeks`."""
    if period == 1:
        return f"{_times(count)} {'an' if unit == 'hour' else 'a'} {unit}"
    every = f"every {period:g} {unit}s"
    return every if count == 1 else f"{_times(count)} {every}"


def _times(count: float) -> str:
    return {1: "once", 2: "twice"}.get(int(count), f"{count:g} times")


def _code_in_words(code: str) -> str:
    hours = _EVERY_HOURS.match(code)
    if hours:
        return f"every {hours.group(1)} hours"
    return _ABBREVIATIONS.get(code.strip().upper(), code.strip())


def _as_needed(dosage: Any) -> Iterator[str]:
    if value_at(dosage, "asNeededBoolean") is True:
        yield "as needed"
    reason = concept_name(value_at(dosage, "asNeededCodeableConcept"))
    if reason:
        yield f"as needed for {reason}"


def _codes(repeat: Any, path: str) -> list[str]:
    if not isinstance(repeat, dict):
        return []
    codes = repeat.get(path)
    return [code for code in codes if isinstance(code, str)] if isinstance(codes, list) else []
