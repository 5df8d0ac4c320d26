"""The last result of each test and the last vital signs, with the change since the one before."""

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from archqa.briefing.notes import NoteLine, patient_notes, with_note
from archqa.briefing.patient_rows import (
    FELL,
    ROSE,
    LineDraft,
    PatientRows,
    SectionDraft,
    code_key,
    draft_of_rows,
    groups_of,
    is_older,
    last_day,
)
from archqa.briefing.problems import is_circumstance
from archqa.query import Query
from archqa.query.execution.rows import Coding, Row
from archqa.query.wording.rows import (
    flag_text,
    measured_statements,
    unit_text,
    value_text,
)
from archqa.query.wording.words import clean_name, counted, number_text, sentence_case
from archqa.terminology.codes import measurements_coded
from archqa.terminology.concept import Concept, ConceptMatch
from archqa.terminology.concepts import (
    concept_named,
    find_concepts,
    load_concepts,
    related,
)
from archqa.terminology.cues import cue_pattern
from archqa.terminology.labels import measurements_named

RECENT_YEARS = 5
"""Abnormal results come first if they are no older."""

LEAST_RESULTS = 5
"""Results that are shown even if they are minor."""

MINOR_RANK = 5

OLD_AFTER_YEARS = 10
"""A vital sign that was last measured so long ago says nothing of today."""

_ABNORMAL = {"high", "low", "abnormal", "positive"}
_SAME_LETTERS = str.maketrans("µμ", "uu", "[]*^ ")
_PRESSURE = {"systolic blood pressure", "diastolic blood pressure"}
_QUESTION = re.compile(
    r"^(?:has|have|how|do|does|did|are|is|was|were|what|which|when|within|in the past|during)\b"
    r"|\?\s*$",
    re.IGNORECASE,
)
_MEASURED = Query(what="observation")
_LABEL = re.compile(r"\D+ ")
_VALUE = re.compile(r"(?:[\s:=,(]|was|is|of|today|now|level)*\d+(?:\.\d+)?(?![\d/])")


def labs(patient: PatientRows) -> SectionDraft:
    """Return the last result of each test: abnormal ones first, then what is common, the newest.

    Results of which nobody knows of what kind they are count, too. Scores of questionnaires and
    answers to them, which some records file as laboratory results, are left out.
    """
    groups = []
    for group in groups_of(_results(patient), _test_key):
        kinds = {kind for row in group for kind in row.facts.get("kind", ())}
        if kinds & {"lab", "unclassified"} and not _is_vital_sign(group[-1]):
            groups.append(group)
    return SectionDraft(tuple(_result_lines(patient, groups)))


def vital_signs(patient: PatientRows) -> SectionDraft:
    """Return the last value of each vital sign; a blood pressure with both its parts.

    What was last measured more than ten years ago is left out, and the section says so.
    """
    limit = patient.now.year - OLD_AFTER_YEARS
    groups = []
    old = 0
    for group in groups_of(_results(patient), _test_key):
        if not _is_vital_sign(group[-1]):
            continue
        if is_older(group, limit):
            old += 1
        else:
            groups.append(group)
    lines = _result_lines(patient, groups)
    left_out = counted(old, "vital sign", "vital signs")
    message = f"{left_out} last measured before {limit} left out." if old else ""
    return SectionDraft(tuple(lines), message)


def _results(patient: PatientRows) -> list[Row]:
    """The rows with a result but questionnaires and indices of a specimen (H, I, L)."""
    questionnaire = cue_pattern("name", "questionnaire")
    rows = []
    for row in patient.rows("observation", "value"):
        is_score = row.unit == "{score}" or bool(questionnaire.search(row.name))
        is_question = _QUESTION.search(row.name) or is_circumstance(row.name)
        is_named = len(clean_name(row.name)) > 1
        if value_text(row) and is_named and not is_question and not is_score:
            rows.append(row)
    return rows


def _is_vital_sign(row: Row) -> bool:
    if row.facts.get("kind") == ("vital",):
        return True
    concept = _measurement(row.codings)
    parts = concept_named("measurement", "vital signs").parts
    names = {*parts, *_PRESSURE, "pain severity"}
    return concept is not None and concept.name in names


def _measurement(codings: tuple[Coding, ...]) -> Concept | None:
    """The measurement that codings mean, if it is a single one."""
    concept = next(iter(measurements_coded(codings)), None)
    return None if concept is None or concept.parts else concept


@cache
def _positions() -> dict[str, int]:
    """The tests in the order of their table, which begins with the common ones of a kind."""
    names = [concept.name for concept in load_concepts()]
    return {name: position for position, name in enumerate(names)}


def _commonness(row: Row) -> int:
    concept = _measurement(row.codings)
    return _positions()[concept.name] if concept else len(_positions())


def _test_key(row: Row) -> Hashable:
    """What results of one test share: the measurement over all labels, and the specimen."""
    concept = _measurement(row.codings)
    if concept is not None and concept.name in _PRESSURE:
        return "blood pressure"
    test = code_key(row) if concept is None else concept.name
    named = measurements_named(row.name)
    if concept is not None and named and concept not in named:
        test = code_key(row)  # Eosinophils and lymphocytes are both cells of a fluid.
    return test, row.facts.get("specimen", ())


def _result_lines(patient: PatientRows, groups: Sequence[list[Row]]) -> list[LineDraft]:
    """The lines of tests: abnormal ones of recent years, then those of known tests, the newest."""
    recent = str(patient.now.year - RECENT_YEARS)
    minor = cue_pattern("name", "minor result")
    days = {(_test_name(group[-1]), last_day(group)) for group in groups}

    def rank(group: list[Row]) -> int:
        if _test_key(group[-1]) == "blood pressure":
            return -1
        if minor.search(group[-1].name) or _is_unremarkable(group):
            return MINOR_RANK
        implied_by = related("implied by").get(_test_name(group[-1]), ())
        if any((other, last_day(group)) in days for other in implied_by):
            return MINOR_RANK
        flags = _comparable_flags(group[-1]).facts.get("flag", ())
        if last_day(group) < recent:
            return MINOR_RANK if "normal" in flags else 4
        if not _ABNORMAL.isdisjoint(flags):
            return 0
        if not _measurement(group[-1].codings):
            return 3
        return 2 if flags else 1

    ordered = sorted(groups, key=lambda group: clean_name(group[-1].name))
    ordered.sort(key=lambda group: _commonness(group[-1]))
    ordered.sort(key=last_day, reverse=True)
    ordered.sort(key=rank)
    names = [_short_name(group[-1]) for group in ordered]
    lines: list[LineDraft] = []
    for group, name in zip(ordered, names, strict=True):
        latest = group[-1]
        is_minor = len(lines) >= LEAST_RESULTS and rank(group) == MINOR_RANK
        if names.count(name) > 1 and latest.name:
            # Whole, with specimen and property.
            name = sentence_case(latest.name.strip())
        line = _result_line(patient, name, group)
        lines.append(line._replace(is_minor=is_minor))
    return lines


def _is_unremarkable(rows: Sequence[Row]) -> bool:
    """Whether a test that matters only if abnormal was normal, also the time before.

    Where the record has no range of its own, the usual one of adults decides.
    """
    bounds = related("usual range").get(_test_name(rows[-1]))
    for row in rows[-2:]:
        flags = _comparable_flags(row).facts.get("flag", ())
        if flags and _ABNORMAL.isdisjoint(flags):
            if bounds is None and _measurement(row.codings):
                return False
        elif flags or bounds is None or row.value is None or row.comparator:
            return False
        else:
            low, high, *units = bounds
            in_range = float(low) <= row.value <= float(high)
            if not in_range or unit_text(row.unit) not in units:
                return False
    return True


def _test_name(row: Row) -> str:
    concept = _measurement(row.codings)
    return concept.name if concept else ""


def _short_name(row: Row) -> str:
    """The name as people say it; of a score or count with the words that LOINC has in brackets."""
    name = sentence_case(row.name.strip())
    if not row.unit.startswith("{"):
        name = clean_name(row.name)
    specimen = "; ".join(row.facts.get("specimen", ()))
    return f"{name} ({specimen})" if specimen else name


def _result_line(patient: PatientRows, name: str, rows: Sequence[Row]) -> LineDraft:
    """The last value with date, flag and change; `rows` of one test come oldest first.

    Of differing results of one time none is told to be the right one.
    """
    latest = rows[-1]
    last_rows = [row for row in rows if row.time == latest.time and row.time]
    last_rows = last_rows or [latest]
    if _test_key(latest) == "blood pressure":
        return _pressure_line(patient, rows, last_rows)
    # One value in `g/dL` and in `g/dl` does not differ.
    values = {value_text(row).casefold(): row for row in last_rows}
    if len(values) > 1:
        date = patient.support.date(latest, latest.time, with_clock=True)
        texts = " and ".join(map(value_text, values.values()))
        text = f"{name} {texts} on {date}"
        line = _draft(text, values.values())
        return line.with_remark("differing results of the same time")
    before = next(reversed(_earlier(rows, latest)), None)
    separator = "" if latest.value is not None else ":"
    text = f"{name}{separator} {value_text(latest)}{_on(patient, latest, before)}"
    flags = flag_text(_comparable_flags(latest))
    if flags.startswith("normal"):
        flags = "normal"  # The range matters where a value is beyond it.
    if flags and flags.casefold() != value_text(latest).casefold():
        text = f"{text} ({flags})"  # Else the result says it in words.
    cited = [latest]
    if before is not None:
        change = f"{_change(latest, before)} {value_text(before)}"
        text = f"{text}, {change}{_on(patient, before, latest)}"
        cited.append(before)
    return with_note(_draft(text, cited), "a note says", _note_against(patient, latest))


def _pressure_line(
    patient: PatientRows, rows: Sequence[Row], last_rows: Sequence[Row]
) -> LineDraft:
    """The last blood pressure, or the one part that was measured, and the one before."""
    last = measured_statements(_MEASURED, last_rows, patient.support)
    text = "; ".join(statement.text for statement in last)
    flags = []
    for row in last_rows:
        part = "systolic" if "systolic" in row.name.casefold() else "diastolic"
        flag = ", ".join(row.facts.get("flag", ()))
        if flag and flag != "normal":
            flags.append(f"{part} {flag}")
    if flags:
        text = f"{text} ({', '.join(flags)})"
    cited = list(last_rows)
    earlier = _earlier(rows, last_rows[0])
    if earlier:
        before = [row for row in earlier if row.time == earlier[-1].time]
        statements = measured_statements(_MEASURED, before, patient.support)
        label = _LABEL.match(last[0].text)
        value = statements[-1].text.removeprefix(label[0] if label else "")
        text = f"{text}; before: {value}"
        cited += statements[-1].rows
    return _draft(text, cited)


def _change(latest: Row, before: Row) -> str:
    """How a value came from the one before, in words."""
    if latest.value is None or before.value is None:
        return "before:"
    if latest.comparator or before.comparator or latest.unit != before.unit:
        return "before:"
    new, old = float(number_text(latest.value)), float(number_text(before.value))
    if new == old:
        return "unchanged from"
    return ROSE if new > old else FELL


def _earlier(rows: Iterable[Row], latest: Row) -> list[Row]:
    """The results of earlier times; a bare date has no time zone, a time of day may have one."""
    earlier = []
    for row in rows:
        if row.local_time and latest.local_time and row.local_time < latest.local_time:
            earlier.append(row)
    return earlier


def _on(patient: PatientRows, row: Row, other: Row | None) -> str:
    """The date of a value, with the time of day where the other one is of the same day."""
    is_same_day = False
    if other is not None and row.time and other.time:
        is_same_day = row.time.date() == other.time.date()
    date = patient.support.date(row, row.time, with_clock=is_same_day)
    return f" on {date}" if date else ", date not recorded"


def _draft(text: str, rows: Iterable[Row]) -> LineDraft:
    """A line that cites the resource of each value, not the panel that holds it as well."""
    rows = tuple(rows)
    citations = dict.fromkeys(row.refs[0] for row in rows)
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


def _comparable_flags(row: Row) -> Row:
    """The row; without its flag, where its range is in another unit."""
    for bounds in row.facts.get("reference_range", ()):
        unit = _plain_unit(bounds.rpartition(" ")[2])
        is_unit = any(map(str.isalpha, unit)) or "%" in unit
        if row.unit and is_unit and unit != _plain_unit(row.unit):
            return replace(row, facts={**row.facts, "flag": ()})
    return row


def _plain_unit(unit: str) -> str:
    return unit_text(unit).casefold().translate(_SAME_LETTERS)
