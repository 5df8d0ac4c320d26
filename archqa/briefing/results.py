"""The last result of each test and vital sign, with an arrow against the one before."""

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from archqa.briefing.notes import NoteLine, patient_notes, with_note
from archqa.briefing.patient_rows import (
    LineDraft,
    PatientRows,
    SectionDraft,
    arrow,
    code_key,
    draft_of_rows,
    groups_of,
    is_older,
    last_day,
)
from archqa.query.execution.elements import objects_at
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import reference_range
from archqa.query.wording.rows import flag_text, unit_text, value_text
from archqa.query.wording.words import clean_name, counted, number_text, sentence_case
from archqa.terminology.codes import measurements_coded
from archqa.terminology.concept import Concept, ConceptMatch
from archqa.terminology.concepts import concept_named, find_concepts
from archqa.terminology.cues import cue_pattern

MAX_TESTS = 20
OLD_AFTER_YEARS = 10
"""A vital sign that was last measured so long ago says nothing of today."""

_ABNORMAL = {"high", "low", "abnormal", "positive"}
_SAME_LETTERS = str.maketrans({"µ": "u", "μ": "u"})
_MARKS = re.compile(r"[\s*^\[\]]")
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
    groups = []
    for group in groups_of(rows, _test_key):
        if any(row.facts.get("kind") == ("lab",) for row in group):
            groups.append(group)
    groups.sort(
        key=lambda group: (_flag_rank(patient, group[-1]), clean_name(group[-1].name))
    )
    groups.sort(key=last_day, reverse=True)
    listed_groups = groups[:MAX_TESTS]
    names = [_short_name(group[-1]) for group in listed_groups]
    lines = []
    for group, name in zip(listed_groups, names, strict=True):
        latest = group[-1]
        if names.count(name) > 1 and latest.name:
            name = sentence_case(
                latest.name.strip()
            )  # Whole, with specimen and property.
        lines.append(_result_line(patient, name, group))
    further = len(groups) - len(lines)
    others = counted(further, "other test was", "other tests were")
    message = f"{others} last done on these dates or earlier." if further else ""
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
    recent: dict[str, list[Row]] = {}
    for name, rows in by_sign.items():
        if not is_older(rows, limit):
            recent[name] = rows
    systolic = recent.get("systolic blood pressure", [])
    lines = _pressure_lines(
        patient, systolic, recent.get("diastolic blood pressure", [])
    )
    for name, rows in recent.items():
        if not _PRESSURE.search(name):
            latest = rows[-1]
            same_test = [row for row in rows if _test_key(row) == _test_key(latest)]
            lines.append(_result_line(patient, _short_name(latest), same_test))
    lines.sort(key=lambda line: line.date[:10], reverse=True)
    old = len(by_sign) - len(recent)
    left_out = counted(old, "vital sign", "vital signs")
    message = f"{left_out} last measured before {limit} left out." if old else ""
    return SectionDraft(tuple(lines), message)


def _has_result(row: Row) -> bool:
    """Whether a row is a test with a number, or with words that are flagged."""
    is_question = row.name.rstrip().endswith("?") or row.unit == "{score}"
    if is_question or cue_pattern("name", "questionnaire").search(row.name):
        return False
    if _vital_sign(row) is not None:
        return False
    if len(clean_name(row.name)) < 2:
        return False  # An index of the specimen: H, I, L.
    return row.value is not None or bool(row.text and row.facts.get("flag"))


def _test_key(row: Row) -> Hashable:
    return code_key(row), row.facts.get("specimen", ())


def _short_name(row: Row) -> str:
    """The name as people say it; of a score or count with the words that LOINC has in brackets."""
    name = (
        sentence_case(row.name.strip())
        if row.unit.startswith("{")
        else clean_name(row.name)
    )
    name = name or "Result without a name"
    specimen = "; ".join(row.facts.get("specimen", ()))
    return f"{name} ({specimen})" if specimen else name


def _result_line(patient: PatientRows, name: str, rows: Sequence[Row]) -> LineDraft:
    """The last value with date, arrow and flag; `rows` of one test come oldest first.

    Of differing results of one time none is told to be the right one.
    """
    latest = rows[-1]
    value = value_text(latest)
    others: dict[str, Row] = {}
    for row in rows:
        if (
            row.time is not None
            and row.time == latest.time
            and value_text(row) != value
        ):
            others[value_text(row)] = row
    if others:
        other = next(iter(others.values()))
        lead = name if other.value is not None else f"{name}:"
        values = " and ".join([*others, value])
        text = f"{lead} {values}{_on(patient, latest, other)}"
        line = _draft(text, [*others.values(), latest])
        return line.with_remark("differing results of the same time")
    before = _comparable_before(latest, rows)
    lead = name if latest.value is not None else f"{name}:"
    text = f"{lead} {value}{_on(patient, latest, before)}"
    cited = [latest]
    if before is not None:
        trend = f"before: {value_text(before)}"
        if not latest.comparator and not before.comparator:
            new = float(number_text(latest.value or 0))
            old = float(number_text(before.value or 0))
            unchanged = "unchanged " if new == old else ""
            trend = f"{arrow(new, old)} {unchanged}from {value_text(before)}"
        text = f"{text}, {trend}{_on(patient, before, latest)}"
        cited.append(before)
    flags = _flag_text(patient, latest)
    if (
        flags and flags.casefold() != value.casefold()
    ):  # Else the result says it in words.
        text = f"{text}; {flags}"
    return with_note(_draft(text, cited), "a note says", _note_against(patient, latest))


def _comparable_before(latest: Row, rows: Iterable[Row]) -> Row | None:
    """The last value of an earlier time in the same unit."""
    before = None
    for row in rows:
        if (
            _is_earlier(row, latest)
            and row.value is not None
            and row.unit == latest.unit
        ):
            before = row
    return before if latest.value is not None else None


def _is_earlier(row: Row, latest: Row) -> bool:
    """Whether a row has an earlier time; a bare date has no time zone, a time of day may have one."""
    if row.local_time is None or latest.local_time is None:
        return False
    return row.local_time < latest.local_time


def _on(patient: PatientRows, row: Row, other: Row | None) -> str:
    """The date of a value, with the time of day where the other one is of the same day."""
    is_same_day = False
    if other is not None and row.time and other.time:
        is_same_day = row.time.date() == other.time.date()
    date = patient.support.date(row, row.time, with_clock=is_same_day)
    return f" on {date}" if date else ", date not recorded"


def _draft(text: str, rows: Sequence[Row]) -> LineDraft:
    """A line that cites the resource of each value, not the panel that holds it as well."""
    citations: dict[str, None] = {}
    for row in rows:
        citations[row.refs[0]] = None
    return draft_of_rows(text, rows)._replace(citations=tuple(citations))


def _note_against(patient: PatientRows, row: Row) -> NoteLine | None:
    """The newest line that names a test of its day or later with a doubt, or later with a value."""
    named = _measurements(clean_name(row.name))
    if not named or row.time is None:
        return None
    name = named[0].concept.name
    day = row.time.date().isoformat()
    doubt = cue_pattern("note", "doubt")
    for line in patient_notes(patient).lines_naming(name):
        if line.date[:10] < day:
            continue
        if doubt.search(line.text):
            return line
        if line.date[:10] == day:
            continue
        # A number follows the name of the test: `Cr 0.81`, `LDL was 132`.
        for part in line.parts:
            for match in _measurements(part.text, name):
                if _VALUE.match(part.text, match.end):
                    return line
    return None


def _measurements(text: str, name: str = "") -> list[ConceptMatch]:
    """The tests that a text names, or the places where it names one of them."""
    matches = []
    for match in find_concepts(text):
        if match.concept.kind == "measurement" and name in ("", match.concept.name):
            matches.append(match)
    return matches


def _flag_text(patient: PatientRows, row: Row) -> str:
    """The flag and the reference range; where their units differ, the range alone."""
    if not _has_unit_of_range(patient, row):
        row = replace(row, facts={**row.facts, "flag": ()})
    return flag_text(row)


def _flag_rank(patient: PatientRows, row: Row) -> int:
    """0 for an abnormal result, 1 for one without a flag, 2 for a normal one."""
    flags = row.facts.get("flag", ())
    if not flags or not _has_unit_of_range(patient, row):
        return 1
    return 2 if _ABNORMAL.isdisjoint(flags) else 0


def _has_unit_of_range(patient: PatientRows, row: Row) -> bool:
    """Whether value and reference range have one unit, or one of them none.

    The ranges are those of the resource, or of the component that the row is.
    """
    range_texts = row.facts.get("reference_range", ())
    if not row.unit or not range_texts:
        return True
    resource = patient.resource(row)
    units = set()
    for result in (resource, *objects_at(resource, "component")):
        bounds = reference_range(result)
        if bounds and bounds.unit and bounds.text in range_texts:
            units.add(_plain_unit(bounds.unit))
    return not units or _plain_unit(row.unit) in units


def _plain_unit(unit: str) -> str:
    return _MARKS.sub("", unit_text(unit).casefold().translate(_SAME_LETTERS))


def _pressure_lines(
    patient: PatientRows, systolic: Sequence[Row], diastolic: Sequence[Row]
) -> list[LineDraft]:
    """The last blood pressure of which both parts are recorded, and the one before; one or none."""
    diastolic_at: dict[Hashable, Row] = {}
    for row in diastolic:
        diastolic_at.setdefault((row.time, _site(row)), row)
    pairs: list[tuple[Row, Row]] = []
    for row in systolic:
        if (row.time, _site(row)) in diastolic_at:
            pairs.append((row, diastolic_at[row.time, _site(row)]))
    if not pairs:
        return []
    top, bottom = pairs[-1]
    before: tuple[Row, Row] | None = None
    for pair in pairs:
        row = pair[0]
        if _is_earlier(row, top) and _site(row) == _site(top) and row.unit == top.unit:
            before = pair
    name = _PRESSURE.sub("", clean_name(top.name)).strip()
    value = f"{number_text(top.value or 0)}/{number_text(bottom.value or 0)}"
    value = f"{value} {unit_text(top.unit)}".strip()
    date = _on(patient, top, before[0] if before else None)
    text = f"{name[:1].upper()}{name[1:]} {value}{date}"
    cited = [top, bottom]
    if before:
        trends = []
        for part, new, old in zip(
            ("systolic", "diastolic"), (top, bottom), before, strict=True
        ):
            new_text, old_text = (
                number_text(new.value or 0),
                number_text(old.value or 0),
            )
            trend = arrow(float(new_text), float(old_text))
            trends.append(f"{part} {new_text} {trend} from {old_text}")
        text = f"{text}; {', '.join(trends)}{_on(patient, before[0], top)}"
        cited += before
    flag = _pressure_flag(patient, top, bottom)
    return [_draft(f"{text}; {flag}" if flag else text, cited)]


def _pressure_flag(patient: PatientRows, top: Row, bottom: Row) -> str:
    """What the record says of a pressure, else of an adult's whether it is high or low.

    High from 140 or 90 mmHg, the bound of grade 1 hypertension (ESH 2023), low below 90 systolic.
    """
    flags = []
    for part, row in (("systolic", top), ("diastolic", bottom)):
        if recorded := _flag_text(patient, row):
            flags.append(f"{part} {recorded}")
    if flags:
        return "; ".join(flags)
    age = patient.age_at(top.time)
    if age is None or age < _ADULT or unit_text(top.unit) != "mmHg":
        return ""
    if (top.value or 0) >= 140 or (bottom.value or 0) >= 90:
        return "high"
    return "low" if (top.value or 0) < 90 else ""


def _site(row: Row) -> str:
    return _PRESSURE.sub("", clean_name(row.name)).strip().casefold()


def _vital_sign(row: Row) -> Concept | None:
    """The vital sign that a row is a value of."""
    for concept in _vital_sign_concepts():
        if concept in measurements_coded(row.codings):
            return concept
    return None


@cache
def _vital_sign_concepts() -> tuple[Concept, ...]:
    """The single vital signs; of the blood pressure, its parts."""
    concepts: list[Concept] = []
    for name in (
        *concept_named("measurement", _VITAL_SIGNS).parts,
        *_FURTHER_VITAL_SIGNS,
    ):
        concept = concept_named("measurement", name)
        parts = [concept_named("measurement", part) for part in concept.parts]
        concepts += parts or [concept]
    return tuple(concepts)
