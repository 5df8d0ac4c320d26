"""The last result of each test and vital sign, with an arrow against the one before."""

import re
from collections.abc import Hashable, Iterable, Sequence
from functools import cache

from archqa.asking.record_displays import clean_name, sentence_case
from archqa.asking.record_measured import flag_text, unit_text, value_text
from archqa.asking.record_numbers import counted, number_text
from archqa.briefing.drafts import LineDraft, SectionDraft, draft_of_rows
from archqa.briefing.patient_rows import PatientRows, code_key, groups_of, last_day
from archqa.query.concepts import Concept, concept_named, matches_code
from archqa.query.execution.rows import Row

MAX_TESTS = 20
UP, DOWN, SAME = "↑", "↓", "→"

_VITAL_SIGNS = "vital signs"
_FURTHER_VITAL_SIGNS = ("pain severity",)
_ABNORMAL = {"high", "low", "abnormal", "positive"}
_PRESSURE = re.compile(r"\b(systolic|diastolic)\b\W*", re.IGNORECASE)


def labs(patient: PatientRows) -> SectionDraft:
    """Return the last result of each laboratory test, the latest first, of a day abnormal ones.

    Answers to questionnaires, which some records file as laboratory results, are left out.
    """
    rows = [row for row in patient.rows("observation", "value") if _is_lab(row)]
    groups = groups_of(rows, _test_key)
    groups.sort(key=lambda group: (not _is_flagged(group[-1]), clean_name(group[-1].name)))
    groups.sort(key=last_day, reverse=True)
    lines = [_line(patient, group) for group in groups[:MAX_TESTS]]
    rest = len(groups) - len(lines)
    last = counted(rest, "other test was", "other tests were")
    message = f"{last} last done on these dates or earlier." if rest else ""
    return SectionDraft(tuple(lines), message)


def vital_signs(patient: PatientRows) -> SectionDraft:
    """Return the last value of each vital sign; a blood pressure with both its parts."""
    by_sign: dict[str, list[Row]] = {}
    for row in patient.rows("observation", "value"):
        concept = _vital_sign(row) if row.value is not None else None
        if concept is not None:
            by_sign.setdefault(concept.name, []).append(row)
    lines = [_pressure_line(patient, by_sign)]
    for name, rows in by_sign.items():
        if not _PRESSURE.search(name):
            same_test = [row for row in rows if _test_key(row) == _test_key(rows[-1])]
            lines.append(_line(patient, same_test))
    shown = [line for line in lines if line is not None]
    shown.sort(key=lambda line: line.date[:10], reverse=True)
    return SectionDraft(tuple(shown))


def _is_lab(row: Row) -> bool:
    """Whether a row is a result of the laboratory: a number, or words that are flagged."""
    if row.facts.get("kind") != ("lab",) or _vital_sign(row) is not None:
        return False
    if row.name.rstrip().endswith("?"):
        return False
    return row.value is not None or bool(row.text and row.facts.get("flag"))


def _is_flagged(row: Row) -> bool:
    return not _ABNORMAL.isdisjoint(row.facts.get("flag", ()))


def _test_key(row: Row) -> Hashable:
    return code_key(row), row.facts.get("specimen", ())


def _line(patient: PatientRows, rows: Sequence[Row]) -> LineDraft:
    """The last value with date, arrow and flag; `rows` of one test come oldest first."""
    latest = rows[-1]
    before = _before(latest, rows)
    specimen = "; ".join(latest.facts.get("specimen", ()))
    name = _name(latest)
    name = f"{name} ({specimen})" if specimen else name
    joint = " " if latest.value is not None else ": "
    text = f"{name}{joint}{value_text(latest)}{_on(patient, latest, before)}"
    cited = [latest]
    if before is not None:
        text = f"{text}, {_trend(latest, before)}{_on(patient, before, latest)}"
        cited.append(before)
    flag = flag_text(latest)
    if flag.casefold() == value_text(latest).casefold():
        flag = ""  # The result says it in words.
    return _draft(f"{text}; {flag}" if flag else text, cited)


def _name(row: Row) -> str:
    """The name; of a score or count with the questionnaire that LOINC has in brackets."""
    name = sentence_case(row.name.strip()) if row.unit.startswith("{") else clean_name(row.name)
    return name or "Result without a name"


def _before(latest: Row, rows: Iterable[Row]) -> Row | None:
    """The last value of an earlier time in the same unit."""
    earlier = [row for row in rows if row.time and latest.time and row.time < latest.time]
    comparable = [row for row in earlier if row.value is not None and row.unit == latest.unit]
    return comparable[-1] if comparable and latest.value is not None else None


def _trend(latest: Row, before: Row) -> str:
    """The arrow, by the numbers as they are shown, and the value before."""
    if latest.comparator or before.comparator:
        return f"before: {value_text(before)}"
    new, old = (float(number_text(row.value or 0)) for row in (latest, before))
    if new == old:
        return f"{SAME} unchanged from {value_text(before)}"
    return f"{UP if new > old else DOWN} from {value_text(before)}"


def _on(patient: PatientRows, row: Row, other: Row | None) -> str:
    """The date of a value, with the time of day where the other one is of the same day."""
    is_same_day = (
        other is not None and row.time and other.time and row.time.date() == other.time.date()
    )
    date = patient.support.date(row, row.time, with_clock=bool(is_same_day))
    return f" on {date}" if date else ", date not recorded"


def _draft(text: str, rows: Sequence[Row]) -> LineDraft:
    """A line that cites the resource of each value, not the panel that holds it as well."""
    draft = draft_of_rows(text, rows)
    return draft._replace(citations=tuple(dict.fromkeys(row.refs[0] for row in rows)))


def _pressure_line(patient: PatientRows, by_sign: dict[str, list[Row]]) -> LineDraft | None:
    """The last blood pressure of which both parts are recorded, and the one before."""
    systolic = by_sign.get("systolic blood pressure", [])
    pairs = [
        (row, other)
        for row in systolic
        for other in _diastolic_of(row, by_sign.get("diastolic blood pressure", []))
    ]
    if not pairs:
        return None
    top, bottom = pairs[-1]
    site = _PRESSURE.sub("", clean_name(top.name)).strip()
    text = f"{site[:1].upper()}{site[1:]} {_pressure(top, bottom)}"
    earlier = [pair for pair in pairs if _is_before(pair[0], top)]
    cited = [top, bottom]
    previous = earlier[-1] if earlier else None
    text = f"{text}{_on(patient, top, previous[0] if previous else None)}"
    if previous:
        text = f"{text}, before: {_pressure(*previous)}{_on(patient, previous[0], top)}"
        cited += previous
    return _draft(text, cited)


def _diastolic_of(systolic: Row, rows: Iterable[Row]) -> list[Row]:
    """The diastolic pressure of the same time and site."""
    site = _site(systolic)
    found = [row for row in rows if row.time == systolic.time and _site(row) == site]
    return found[:1]


def _site(row: Row) -> str:
    return _PRESSURE.sub("", clean_name(row.name)).strip().casefold()


def _is_before(row: Row, latest: Row) -> bool:
    is_earlier = bool(row.time and latest.time and row.time < latest.time)
    return is_earlier and _site(row) == _site(latest) and row.unit == latest.unit


def _pressure(top: Row, bottom: Row) -> str:
    values = f"{number_text(top.value or 0)}/{number_text(bottom.value or 0)}"
    return f"{values} {unit_text(top.unit)}".strip()


def _vital_sign(row: Row) -> Concept | None:
    """The vital sign that a row is a value of."""
    for concept in _vital_sign_concepts():
        if any(matches_code(concept, *coding) for coding in row.codings):
            return concept
    return None


@cache
def _vital_sign_concepts() -> tuple[Concept, ...]:
    """The single vital signs; of the blood pressure, its parts."""
    names = [*concept_named("measurement", _VITAL_SIGNS).parts, *_FURTHER_VITAL_SIGNS]
    concepts = []
    for name in names:
        concept = concept_named("measurement", name)
        parts = [concept_named("measurement", part) for part in concept.parts]
        concepts += parts or [concept]
    return tuple(concepts)
