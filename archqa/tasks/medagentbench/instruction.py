"""A physician's instruction in its parts, read by general rules: whom, what, since when, under which condition.

Made for a policy without a model, which shows that environment, tools and grader fit together. It knows ways of
putting things, no patients and no values.
"""

import re
from datetime import timedelta

from archqa.core.value import FrozenModel
from archqa.tasks.medagentbench.clock import parse_lookback
from archqa.tasks.medagentbench.write_checks import TaskText

_PATIENT = re.compile(r"(?<![\w-])[A-Z]{0,3}\d{5,}(?![\w-])")
_PERSON = re.compile(
    r"\bname(?:d| of)?\s+(?P<name>\S.*?),?\s+and\s+(?:a\s+)?(?:DOB|date of birth|birth ?date)\s*(?:of|:)?\s*"
    r"(?P<born>\d{4}-\d\d-\d\d)",
    re.IGNORECASE,
)
_CODES = {
    "ndc": re.compile(r"\bNDC\b[^.]*?\bis:?\s*\"?(\d+-\d+-\d+)", re.IGNORECASE),
    "loinc": re.compile(r"\bLOINC\b[^.]*?\bis:?\s*\"?(\d+-\d)\b", re.IGNORECASE),
    "snomed": re.compile(r"\bSNOMED\b[^.]*?\bis:?\s*\"?(\d{6,18})\b", re.IGNORECASE),
    "flowsheet": re.compile(r"\bflowsheet ID\b[^.]*?\bis:?\s*\"?([A-Za-z0-9_-]+)", re.IGNORECASE),
    "lab": re.compile(
        r"(?<!LOINC )(?<!SNOMED )\bcode for [^.\"]*?\bis:?\s*\"?([A-Za-z0-9_-]+)", re.IGNORECASE
    ),
}
_NAMED = {
    "ndc": re.compile(r"\bNDC for (?:replacement )?(.+?) is\b", re.IGNORECASE),
    "loinc": re.compile(r"\bLOINC code for (?:ordering )?(.+?) is\b", re.IGNORECASE),
    "snomed": re.compile(r"\bSNOMED code for (.+?) is\b", re.IGNORECASE),
}
_QUOTED = re.compile(r"[\"“]([^\"“”]+)[\"”]")
_INSTEAD = re.compile(r"answer should be [\"“]([^\"”]+)[\"”]", re.IGNORECASE)
_AGED = re.compile(r"(?:greater|older|more) than (\d+|a|one) years?(?: old)?", re.IGNORECASE)


class ParsedInstruction(FrozenModel):
    """What is wanted. `codes` maps ndc, loinc, snomed, flowsheet and lab to codes, `names` to what they stand for."""

    patient: str = ""
    name: str = ""
    birth_date: str = ""
    fallback_answer: str = ""
    codes: dict[str, str] = {}
    names: dict[str, str] = {}
    quoted_text: str = ""
    window: timedelta | None = None
    mean: bool = False
    asks_for_age: bool = False
    records: bool = False
    asks_to_order: bool = False
    max_age_years: int | None = None


def parse_instruction(ask: TaskText) -> ParsedInstruction:
    """The parts of an instruction and its context."""
    text, person = ask.instruction, _PERSON.search(ask.instruction)
    patient, quote, aged = _PATIENT.search(text), _QUOTED.search(text), _AGED.search(text)
    instead = _INSTEAD.search(text)
    return ParsedInstruction(
        patient=patient[0] if patient else "",
        name=person["name"] if person else "",
        birth_date=person["born"] if person else "",
        fallback_answer=instead[1] if instead else "",
        codes=_found(_CODES, ask.text),
        names=_found(_NAMED, ask.text),
        quoted_text=quote[1] if quote else "",
        window=parse_lookback(text),
        mean=bool(re.search(r"\b(?:average|mean)\b", text, re.IGNORECASE)),
        asks_for_age=bool(re.search(r"\bage of\b|\bhow old\b", text, re.IGNORECASE)),
        records=bool(
            re.search(
                r"\b(?:record|document|chart) it\b|^\s*(?:record|document)\b", text, re.IGNORECASE
            )
        ),
        asks_to_order=bool(re.search(r"\border\b", text, re.IGNORECASE)),
        max_age_years=_years(aged[1]) if aged else None,
    )


def _found(patterns: dict[str, re.Pattern[str]], text: str) -> dict[str, str]:
    matches = ((name, pattern.search(text)) for name, pattern in patterns.items())
    return {name: match[1].strip() for name, match in matches if match}


def _years(text: str) -> int:
    return int(text) if text.isdigit() else 1
