"""A physician's instruction parsed by general rules.

The parts are the patient, the request, its time span and its condition.

Made for a policy without a model, which shows that environment, tools and grader fit together. The
rules are about wording; they contain no patients and no values.
"""

import re
from collections.abc import Mapping
from datetime import timedelta

from archqa.core.value import FrozenModel
from archqa.tasks.medagentbench.clock import parse_lookback
from archqa.tasks.medagentbench.write_checks import TaskText

_PATIENT = re.compile(r"(?<![\w-])([A-Z]{0,3}\d{5,})(?![\w-])")
_PERSON = re.compile(
    r"\bname(?:d| of)?\s+(?P<name>\S.*?),?\s+and\s+(?:a\s+)?(?:DOB|date of birth|birth ?date)"
    r"\s*(?:of|:)?\s*(?P<birth_date>\d{4}-\d\d-\d\d)",
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
_CODE_NAMES = {
    "ndc": re.compile(r"\bNDC for (?:replacement )?(.+?) is\b", re.IGNORECASE),
    "loinc": re.compile(r"\bLOINC code for (?:ordering )?(.+?) is\b", re.IGNORECASE),
    "snomed": re.compile(r"\bSNOMED code for (.+?) is\b", re.IGNORECASE),
}
_QUOTED = re.compile(r"[\"“]([^\"“”]+)[\"”]")
_FALLBACK_ANSWER = re.compile(r"answer should be [\"“]([^\"”]+)[\"”]", re.IGNORECASE)
_MAX_AGE = re.compile(r"(?:greater|older|more) than (\d+|a|one) years?(?: old)?", re.IGNORECASE)
_ASKS_FOR_MEAN = re.compile(r"\b(?:average|mean)\b", re.IGNORECASE)
_ASKS_FOR_AGE = re.compile(r"\bage of\b|\bhow old\b", re.IGNORECASE)
_ASKS_TO_ORDER = re.compile(r"\border\b", re.IGNORECASE)
_ASKS_TO_RECORD = re.compile(
    r"\b(?:record|document|chart) it\b|^\s*(?:record|document)\b", re.IGNORECASE
)


class ParsedInstruction(FrozenModel):
    """The parts of an instruction, empty where it does not state them.

    `codes` maps ndc, loinc, snomed, flowsheet and lab to codes, `code_names` to what the codes
    stand for.
    """

    patient: str = ""
    name: str = ""
    birth_date: str = ""
    fallback_answer: str = ""
    codes: dict[str, str] = {}
    code_names: dict[str, str] = {}
    quoted_text: str = ""
    lookback: timedelta | None = None
    asks_for_mean: bool = False
    asks_for_age: bool = False
    asks_to_record: bool = False
    asks_to_order: bool = False
    max_age_years: int | None = None


def parse_instruction(task_text: TaskText) -> ParsedInstruction:
    """The parts of an instruction and its context."""
    instruction = task_text.instruction
    person = _PERSON.search(instruction)
    return ParsedInstruction(
        patient=_first_group(_PATIENT, instruction),
        name=person["name"] if person else "",
        birth_date=person["birth_date"] if person else "",
        fallback_answer=_first_group(_FALLBACK_ANSWER, instruction),
        codes=_search_all(_CODES, task_text.text),
        code_names=_search_all(_CODE_NAMES, task_text.text),
        quoted_text=_first_group(_QUOTED, instruction),
        lookback=parse_lookback(instruction),
        asks_for_mean=bool(_ASKS_FOR_MEAN.search(instruction)),
        asks_for_age=bool(_ASKS_FOR_AGE.search(instruction)),
        asks_to_record=bool(_ASKS_TO_RECORD.search(instruction)),
        asks_to_order=bool(_ASKS_TO_ORDER.search(instruction)),
        max_age_years=_max_age_years(instruction),
    )


def _first_group(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""


def _search_all(patterns: Mapping[str, re.Pattern[str]], text: str) -> dict[str, str]:
    parts = {}
    for name, pattern in patterns.items():
        match = pattern.search(text)
        if match:
            parts[name] = match[1].strip()
    return parts


def _max_age_years(instruction: str) -> int | None:
    years = _first_group(_MAX_AGE, instruction)
    if not years:
        return None
    return int(years) if years.isdigit() else 1
