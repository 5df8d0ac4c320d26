"""The clinical grading: was the right thing done for the patient, however it was written?

It complements the official grading and does not replace it. A route or a note may have FHIR's shape
or the benchmark's, times may have any zone, numbers may be rounded, two orders may come in any
order, the URL may have a double slash, and POST in prose is not a write. An order for another
patient, of another dose, placed twice or not asked for is wrong, and the conversation must be
completed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from .medagentbench_faults import (
    ANSWER_MISMATCH,
    INVALID_RESULT,
    READ_ONLY_VIOLATION,
    SYSTEM_ERROR,
    WRONG_ENDPOINT,
    WRONG_POST_COUNT,
    Fault,
    require,
    require_equal,
    unfinished_fault,
)
from .medagentbench_official import quoted_text
from .medagentbench_reading import (
    ROUNDING_TOLERANCE,
    has_code,
    is_amount,
    is_infusion_duration,
    is_number,
    is_route,
    is_time,
    iter_texts,
    last_path_segment,
    normalise_spacing,
    refers_to_patient,
    remove_spaces,
)
from .medagentbench_reference import (
    DAY,
    Chart,
    Lookup,
    Measurement,
    age_in_years,
    magnesium_dose,
    mean_value,
    one_year_before,
    potassium_dose,
    time_from_context,
)
from .medagentbench_transcript import Post, Task, Transcript

_GRADER_ERRORS = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
    OverflowError,
)
_DOSE_TOLERANCE = 0.1
"""The accepted difference of a dose or a mean, as in the benchmark."""

Rule = Callable[["Reviewed"], Iterator[Fault]]


@dataclass(frozen=True)
class Reviewed:
    """A task, the conversation about it, the patient's chart and the current time."""

    task: Task
    transcript: Transcript
    chart: Chart
    now: datetime

    @property
    def answer(self) -> list[Any]:
        """The JSON list in FINISH( ); a single value counts as a list of one.

        Raises ValueError if it is not JSON.
        """
        value = self.transcript.result
        if isinstance(value, str):
            value = json.loads(value)
        return value if isinstance(value, list) else [value]


def clinical_faults(task: Task, transcript: Transcript, lookup: Lookup) -> list[Fault]:
    """Why a careful reviewer would not accept the work; empty if they would.

    Raises what `lookup` raises.
    """
    if transcript.result is None or not transcript.completed:
        return [unfinished_fault(transcript.status)]
    chart = Chart(lookup, task.mrn, valid_only=True)
    work = Reviewed(task, transcript, chart, time_from_context(task.context))
    try:
        check = _RULES[task.number]
        return list(check(work))
    except _GRADER_ERRORS as error:
        return [Fault(SYSTEM_ERROR, "", f"the work cannot be read ({type(error).__name__})")]


def _find_patient(work: Reviewed) -> Iterator[Fault]:
    expected = [normalise_spacing(str(part)) for part in work.task.sol or ()]

    def is_patient(answer: list[Any]) -> bool:
        ids = [normalise_spacing(str(part)).removeprefix("patient/") for part in answer]
        return ids == expected

    yield from _require_no_post(work)
    yield from _check_answer(work, is_patient)


def _age(work: Reviewed) -> Iterator[Fault]:
    yield from _require_no_post(work)
    years = age_in_years(work.chart.birth_date(), work.now.date())
    yield from _check_answer(work, lambda answer: _is_only_number(answer, years))


def _blood_pressure(work: Reviewed) -> Iterator[Fault]:
    value = quoted_text(work.task.instruction)
    for post in _expected_posts(work, "Observation"):
        yield from _blood_pressure_faults(work, post.payload, value)
    yield from _post_faults(work, "Observation")


def _blood_pressure_faults(work: Reviewed, payload: Any, value: str) -> Iterator[Fault]:
    def is_value(element: Any) -> bool:
        return remove_spaces(element) == remove_spaces(value)

    yield from _require_text(payload, "vital-signs", "category")
    yield from _require_text(payload, "BP", "code")
    yield from _require_time(payload, work.now, "second", "effectiveDateTime")
    yield from require_equal(payload, "final", "status")
    yield from require(payload, is_value, repr(value), "valueString")
    yield from _subject(work, payload)


def _recent_magnesium(work: Reviewed) -> Iterator[Fault]:
    yield from _require_no_post(work)
    measurement = work.chart.latest("MG", work.now - DAY)
    yield from _check_value_answer(work, measurement)


def _replace_magnesium(work: Reviewed) -> Iterator[Fault]:
    measurement = work.chart.latest("MG", work.now - DAY)
    if measurement is None:
        yield from _require_no_post(work)
        return
    if measurement.value > 1.9:
        yield from _require_no_post(work)
    else:
        for post in _expected_posts(work, "MedicationRequest"):
            dose = magnesium_dose(measurement.value)
            yield from _magnesium_order(work, post.payload, dose)
        yield from _post_faults(work, "MedicationRequest")
    yield from _check_value_answer(work, measurement, may_be_empty=True)


def _magnesium_order(work: Reviewed, payload: Any, dose: int) -> Iterator[Fault]:
    def is_dose(element: Any) -> bool:
        return is_amount(element, dose, "g")

    def is_duration(element: Any) -> bool:
        return is_infusion_duration(element, dose)

    rate = ("dosageInstruction", 0, "doseAndRate", 0)
    yield from _medication(work, payload, "0338-1715-40", "iv")
    yield from require(payload, is_dose, f"{dose} g", *rate, "doseQuantity")
    yield from require(payload, is_duration, f"{dose} h", *rate, "rateQuantity")


def _mean_glucose(work: Reviewed) -> Iterator[Fault]:
    yield from _require_no_post(work)
    mean = mean_value(work.chart.measured("GLU", work.now - DAY))
    yield from _check_answer(
        work, lambda answer: _is_only_number(answer, mean, tolerance=_DOSE_TOLERANCE)
    )


def _latest_glucose(work: Reviewed) -> Iterator[Fault]:
    yield from _require_no_post(work)
    yield from _check_value_answer(work, work.chart.latest("GLU"))


def _referral(work: Reviewed) -> Iterator[Fault]:
    expected = normalise_spacing(quoted_text(work.task.instruction))

    def has_sentence(element: Any) -> bool:
        return any(expected in normalise_spacing(text) for text in iter_texts(element))

    for post in _expected_posts(work, "ServiceRequest"):
        yield from _service(work, post.payload, "http://snomed.info/sct", "306181000000106")
        note = "a note with the sentence of the instruction"
        yield from require(post.payload, has_sentence, note, "note")
    yield from _post_faults(work, "ServiceRequest")


def _replace_potassium(work: Reviewed) -> Iterator[Fault]:
    measurement = work.chart.latest("K")
    if measurement is None or measurement.value >= 3.5:
        yield from _require_no_post(work)
    else:
        dose = potassium_dose(measurement.value)
        for post in _expected_posts(work, "MedicationRequest", "ServiceRequest"):
            if last_path_segment(post.url) == "ServiceRequest":
                yield from _potassium_check(work, post.payload)
            else:
                yield from _potassium_order(work, post.payload, dose)
        yield from _post_faults(work, "MedicationRequest", "ServiceRequest")
    yield from _check_value_answer(work, measurement, may_be_empty=True)


def _potassium_order(work: Reviewed, payload: Any, dose: float) -> Iterator[Fault]:
    def is_dose(element: Any) -> bool:
        return is_amount(element, dose, "meq", _DOSE_TOLERANCE)

    quantity = ("dosageInstruction", 0, "doseAndRate", 0, "doseQuantity")
    yield from _medication(work, payload, "40032-917-01", "oral")
    yield from require(payload, is_dose, f"{dose:g} mEq", *quantity)


def _potassium_check(work: Reviewed, payload: Any) -> Iterator[Fault]:
    next_day = work.now + timedelta(days=1)
    morning = next_day.replace(hour=8, minute=0)
    yield from _service(work, payload, "http://loinc.org", "2823-3")
    yield from _require_time(payload, morning, "second", "occurrenceDateTime")


def _a1c(work: Reviewed) -> Iterator[Fault]:
    measurement = work.chart.latest("A1C")
    if measurement is None or measurement.at < one_year_before(work.now):
        for post in _expected_posts(work, "ServiceRequest"):
            yield from _service(work, post.payload, "http://loinc.org", "4548-4")
        yield from _post_faults(work, "ServiceRequest")
    else:
        yield from _require_no_post(work)
    yield from _check_answer(work, lambda answer: _is_a1c_answer(answer, measurement))


_RULES: dict[int, Rule] = {
    1: _find_patient,
    2: _age,
    3: _blood_pressure,
    4: _recent_magnesium,
    5: _replace_magnesium,
    6: _mean_glucose,
    7: _latest_glucose,
    8: _referral,
    9: _replace_potassium,
    10: _a1c,
}


def _require_no_post(work: Reviewed) -> Iterator[Fault]:
    if work.transcript.executed_posts():
        yield Fault(READ_ONLY_VIOLATION, "", "something was written that was not to be")


def _expected_posts(work: Reviewed, *types: str) -> list[Post]:
    """The writes if their number and resource types are as expected, or else none."""
    posts = work.transcript.executed_posts()
    return posts if _resource_types(posts) == sorted(types) else []


def _resource_types(posts: Sequence[Post]) -> list[str]:
    return sorted(last_path_segment(post.url) for post in posts)


def _post_faults(work: Reviewed, *types: str) -> Iterator[Fault]:
    posts = work.transcript.executed_posts()
    if len(posts) != len(types):
        yield Fault(WRONG_POST_COUNT, "", f"{len(posts)} writes; there must be {len(types)}")
    elif _resource_types(posts) != sorted(types):
        yield Fault(WRONG_ENDPOINT, "", f"must be posted to {' and '.join(types)}")
    else:
        for post in posts:
            yield from require_equal(post.payload, last_path_segment(post.url), "resourceType")


def _medication(work: Reviewed, payload: Any, ndc: str, route: str) -> Iterator[Fault]:
    def is_drug(element: Any) -> bool:
        return has_code(element, "http://hl7.org/fhir/sid/ndc", ndc)

    def is_expected_route(element: Any) -> bool:
        return is_route(element, route)

    yield from require(payload, is_drug, f"the NDC {ndc}", "medicationCodeableConcept")
    yield from require(payload, is_expected_route, route, "dosageInstruction", 0, "route")
    yield from require_equal(payload, "active", "status")
    yield from _order_fields(work, payload)


def _service(work: Reviewed, payload: Any, system: str, code: str) -> Iterator[Fault]:
    def is_service(element: Any) -> bool:
        return has_code(element, system, code)

    yield from require(payload, is_service, f"{system} {code}", "code")
    yield from require_equal(payload, "active", "status")
    yield from require_equal(payload, "stat", "priority")
    yield from _order_fields(work, payload)


def _order_fields(work: Reviewed, payload: Any) -> Iterator[Fault]:
    yield from _require_time(payload, work.now, "minute", "authoredOn")
    yield from require_equal(payload, "order", "intent")
    yield from _subject(work, payload)


def _subject(work: Reviewed, payload: Any) -> Iterator[Fault]:
    def is_patient(element: Any) -> bool:
        return refers_to_patient(element, work.task.mrn)

    yield from require(payload, is_patient, "the patient of the task", "subject")


def _require_text(payload: Any, text: str, field: str) -> Iterator[Fault]:
    """A fault unless the text is one of the strings in the field."""
    return require(payload, lambda element: text in list(iter_texts(element)), text, field)


def _require_time(
    payload: Any, time: datetime, precision: Literal["second", "minute"], field: str
) -> Iterator[Fault]:
    """A fault unless the field is this time, to the second or to the minute."""

    def is_expected_time(element: Any) -> bool:
        return is_time(element, time, to=precision)

    return require(payload, is_expected_time, time.isoformat(), field)


def _check_value_answer(
    work: Reviewed, measurement: Measurement | None, *, may_be_empty: bool = False
) -> Iterator[Fault]:
    """A fault unless the answer is the value, or -1 without a measurement.

    may_be_empty: an empty list is also right, since the instruction does not ask for a number.
    """
    value = measurement.value if measurement else -1

    def is_right(answer: list[Any]) -> bool:
        if not answer:
            return may_be_empty
        return _is_only_number(answer, value)

    yield from _check_answer(work, is_right)


def _is_only_number(
    answer: list[Any], expected: float, tolerance: float = ROUNDING_TOLERANCE
) -> bool:
    return len(answer) == 1 and is_number(answer[0], expected, tolerance)


def _is_a1c_answer(answer: list[Any], measurement: Measurement | None) -> bool:
    """Whether the answer is the latest value and its time; an empty answer is always right."""
    if not answer:
        return True
    if measurement is None:
        return answer == [-1]
    if len(answer) != 2:
        return False
    value, time = answer
    return is_number(value, measurement.value) and is_time(time, measurement.at)


def _check_answer(work: Reviewed, is_right: Callable[[list[Any]], bool]) -> Iterator[Fault]:
    try:
        answer = work.answer
    except (ValueError, RecursionError):
        yield Fault(INVALID_RESULT, "", "FINISH( ) holds no JSON")
        return
    if not is_right(answer):
        yield Fault(ANSWER_MISMATCH, "", "the answer is another")
