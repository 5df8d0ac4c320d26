"""The last result of each test and vital sign, with an arrow against the one before."""

import re
from collections.abc import Hashable, Iterable, Sequence
from functools import cache

from archqa.asking.record_lines import unit_text, value_text
from archqa.asking.record_words import clean_name, counted, number_text, sentence_case
from archqa.briefing.drafts import LineDraft, SectionDraft, draft_of_rows
from archqa.briefing.note_lines import (
    citations_of,
    lines_naming,
    quoted,
)
from archqa.briefing.notes import NoteLine
from archqa.briefing.patient_rows import (
    PatientRows,
    code_key,
    groups_of,
    is_older,
    last_day,
)
from archqa.briefing.result_flags import flag_rank, shown_flags
from archqa.briefing.trends import arrow
from archqa.query.execution.rows import Row
from archqa.terminology.codes import matches_code
from archqa.terminology.concept import Concept, ConceptMatch
from archqa.terminology.concepts import concept_named, find_concepts
from archqa.terminology.cues import cue_pattern

MAX_TESTS = 20
OLD_AFTER_YEARS = 10
"""A vital sign that was last measured so long ago says nothing of today."""

_VITAL_SIGNS = "vital signs"
_FURTHER_VITAL_SIGNS = ("pain severity",)
_ADULT = 18
_PRESSURE = re.compile(r"\b(systolic|diastolic)\b\W*", re.IGNORECASE)
_VALUE = re.compile(r"(?:[\s:=,(]|was|is|of|today|now|level)*\d+(?:\.\d+)?(?![\d/])")


def labs(patient: PatientRows) -> SectionDraft:
    """Return the last result of each laboratory test, the latest first, of a day abnormal ones.

    Results of one test under another category count, too. Scores of questionnaires and answers to
    them, which some records file as laboratory results, are left out.
    """
    rows = [row for row in patient.rows("observation", "value") if _has_result(row)]
    tests = {_test_key(row) for row in rows if row.facts.get("kind") == ("lab",)}
    groups = groups_of([row for row in rows if _test_key(row) in tests], _test_key)
    groups.sort(key=lambda group: (flag_rank(patient, group[-1]), clean_name(group[-1].name)))
    groups.sort(key=last_day, reverse=True)
    shown = groups[:MAX_TESTS]
    names = [_short_name(group[-1]) for group in shown]
    lines = [
        _line(patient, group, is_shared=names.count(name) > 1)
        for group, name in zip(shown, names, strict=True)
    ]
    rest = len(groups) - len(lines)
    last = counted(rest, "other test was", "other tests were")
    message = f"{last} last done on these dates or earlier." if rest else ""
    return SectionDraft(tuple(lines), message)


def vital_signs(patient: PatientRows) -> SectionDraft:
    """Return the last value of each vital sign; a blood pressure with both its parts.

    What was last measured more than ten years ago is left out, and the section says so.
    """
    by_sign: dict[str, list[Row]] = {}
    for row in patient.rows("observation", "value"):
        concept = _vital_sign(row) if row.value is not None else None
        if concept is not None:
            by_sign.setdefault(concept.name, []).append(row)
    limit = patient.now.year - OLD_AFTER_YEARS
    recent = {name: rows for name, rows in by_sign.items() if not is_older(rows, limit)}
    lines = [_pressure_line(patient, recent)]
    for name, rows in recent.items():
        if not _PRESSURE.search(name):
            same_test = [row for row in rows if _test_key(row) == _test_key(rows[-1])]
            lines.append(_line(patient, same_test))
    shown = [line for line in lines if line is not None]
    shown.sort(key=lambda line: line.date[:10], reverse=True)
    old = len(by_sign) - len(recent)
    left_out = counted(old, "vital sign", "vital signs")
    return SectionDraft(
        tuple(shown), f"{left_out} last measured before {limit} left out." if old else ""
    )


def _has_result(row: Row) -> bool:
    """Whether a row is a test with a number, or with words that are flagged."""
    if _vital_sign(row) is not None or _is_of_questionnaire(row):
        return False
    if len(clean_name(row.name)) < 2:
        return False  # An index of the specimen: H, I, L.
    return row.value is not None or bool(row.text and row.facts.get("flag"))


def _is_of_questionnaire(row: Row) -> bool:
    is_score = cue_pattern("name", "questionnaire").search(row.name) is not None
    return row.name.rstrip().endswith("?") or row.unit == "{score}" or is_score


def _test_key(row: Row) -> Hashable:
    return code_key(row), row.facts.get("specimen", ())


def _line(patient: PatientRows, rows: Sequence[Row], *, is_shared: bool = False) -> LineDraft:
    """The last value with date, arrow and flag; `rows` of one test come oldest first."""
    latest = rows[-1]
    name = _name(latest, is_shared=is_shared)
    twins = _twins(latest, rows)
    if twins:
        return _twin_line(patient, name, [*twins, latest])
    before = _before(latest, rows)
    joint = " " if latest.value is not None else ": "
    text = f"{name}{joint}{value_text(latest)}{_on(patient, latest, before)}"
    cited = [latest]
    if before is not None:
        text = f"{text}, {_trend(latest, before)}{_on(patient, before, latest)}"
        cited.append(before)
    flag = shown_flags(patient, latest)
    if flag.casefold() == value_text(latest).casefold():
        flag = ""  # The result says it in words.
    return _with_note(patient, _draft(f"{text}; {flag}" if flag else text, cited), latest)


def _twins(latest: Row, rows: Sequence[Row]) -> list[Row]:
    """Other values of the same test at the same time."""
    same = [row for row in rows if row.time is not None and row.time == latest.time]
    by_value = {value_text(row): row for row in same if value_text(row) != value_text(latest)}
    return list(by_value.values())


def _twin_line(patient: PatientRows, name: str, rows: Sequence[Row]) -> LineDraft:
    """Differing results of one test at one time: none of them is told to be the right one."""
    values = " and ".join(value_text(row) for row in rows)
    joint = " " if rows[0].value is not None else ": "
    date = _on(patient, rows[-1], rows[0])
    return _draft(f"{name}{joint}{values}{date} (differing results of the same time)", rows)


def _with_note(patient: PatientRows, line: LineDraft, row: Row) -> LineDraft:
    """The line, with what a note of its day or later says against its value, or a later value."""
    note = _note_on(patient, row)
    if note is None:
        return line
    cited = tuple(dict.fromkeys((*line.citations, *citations_of(note))))
    return line._replace(text=f"{line.text}; a note says: {quoted(note)}", citations=cited)


def _note_on(patient: PatientRows, row: Row) -> NoteLine | None:
    name = next((match.concept.name for match in _measurements(clean_name(row.name))), "")
    if not name or row.time is None:
        return None
    day = row.time.date().isoformat()
    lines = [line for line in lines_naming(patient, name) if line.date[:10] >= day]
    return next((line for line in lines if _is_said_against(name, line, day)), None)


def _is_said_against(name: str, line: NoteLine, day: str) -> bool:
    """Whether a line that names a test has a word of doubt, or, of a later day, its value."""
    if cue_pattern("note", "doubt").search(line.text):
        return True
    return line.date[:10] > day and any(_has_value(name, part.text) for part in line.parts)


def _has_value(name: str, text: str) -> bool:
    """Whether a number follows the name of a test: `Cr 0.81`, `LDL was 132`."""
    ends = [match.end for match in _measurements(text) if match.concept.name == name]
    return any(_VALUE.match(text[end:]) for end in ends)


def _measurements(text: str) -> list[ConceptMatch]:
    return [match for match in find_concepts(text) if match.concept.kind == "measurement"]


def _short_name(row: Row) -> str:
    """The name as people say it; of a score or count with the words that LOINC has in brackets."""
    name = sentence_case(row.name.strip()) if row.unit.startswith("{") else clean_name(row.name)
    specimen = "; ".join(row.facts.get("specimen", ()))
    name = name or "Result without a name"
    return f"{name} ({specimen})" if specimen else name


def _name(row: Row, *, is_shared: bool) -> str:
    """The name; the whole one, with specimen and property, where another line has the same."""
    return sentence_case(row.name.strip()) if is_shared and row.name else _short_name(row)


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
    unchanged = "unchanged " if new == old else ""
    return f"{arrow(new, old)} {unchanged}from {value_text(before)}"


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
        parts = zip(_parts(top, bottom), previous, strict=True)
        trends = [_part_trend(name, new, old) for (name, new), old in parts]
        text = f"{text}; {', '.join(trends)}{_on(patient, previous[0], top)}"
        cited += previous
    flag = _pressure_flag(patient, top, bottom)
    return _draft(f"{text}; {flag}" if flag else text, cited)


def _parts(top: Row, bottom: Row) -> tuple[tuple[str, Row], tuple[str, Row]]:
    return ("systolic", top), ("diastolic", bottom)


def _part_trend(name: str, new: Row, old: Row) -> str:
    values = [number_text(row.value or 0) for row in (new, old)]
    return f"{name} {values[0]} {arrow(*map(float, values))} from {values[1]}"


def _pressure_flag(patient: PatientRows, top: Row, bottom: Row) -> str:
    """What the record says of a pressure, else of an adult's whether it is high or low.

    High from 140 or 90 mmHg, the bound of grade 1 hypertension (ESH 2023), low below 90 systolic.
    """
    recorded = {name: shown_flags(patient, row) for name, row in _parts(top, bottom)}
    flags = [f"{name} {flag}" for name, flag in recorded.items() if flag]
    if flags:
        return "; ".join(flags)
    age = patient.age_at(top.time)
    if age is None or age < _ADULT or unit_text(top.unit) != "mmHg":
        return ""
    if (top.value or 0) >= 140 or (bottom.value or 0) >= 90:
        return "high"
    return "low" if (top.value or 0) < 90 else ""


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
