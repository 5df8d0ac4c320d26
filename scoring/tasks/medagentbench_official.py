"""The official grading: exactly what `refsol.py` accepts, with the reasons where it does not.

It keeps the peculiarities: a `route` must be a string and a `note` an object, although FHIR and the
function schema say otherwise; URLs are compared as text; the letters POST in any message of the
agent make a query wrong, and in its last message an action; an accepted POST whose body is not JSON
does not count; a result that is stored as a list is no JSON text; `Z` is not equal to `+00:00`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .medagentbench_reference import (
    ANSWER_MISMATCH,
    BENCHMARK_TIME,
    DAY,
    INVALID_RESULT,
    READ_ONLY_VIOLATION,
    SYSTEM_ERROR,
    WRONG_ENDPOINT,
    WRONG_POST_COUNT,
    YEAR_AGO,
    Chart,
    Fault,
    Faults,
    Lookup,
    Measurement,
    age_in_years,
    magnesium_dose,
    mean_value,
    potassium_dose,
    require,
    require_equal,
    unfinished_fault,
)
from .medagentbench_transcript import Post, Task, Transcript

BASE = "http://localhost:8080/fhir/"
NOW = "2023-11-13T10:15:00+00:00"
VITAL_SIGNS = {
    "system": "http://hl7.org/fhir/observation-category",
    "code": "vital-signs",
    "display": "Vital Signs",
}
_GRADER_ERRORS = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)

Rule = Callable[["Graded"], Faults]


@dataclass(frozen=True)
class Graded:
    """A task, the conversation about it, the patient's chart and the base URL of the server."""

    task: Task
    transcript: Transcript
    chart: Chart
    base: str = BASE

    @property
    def answer(self) -> Any:
        """The JSON value in FINISH( ).

        Raises ValueError if it is not JSON, TypeError if the result was not stored as a text.
        """
        return json.loads(self.transcript.result)

    @property
    def subject(self) -> dict[str, str]:
        """The only reference to the patient that is accepted."""
        return {"reference": f"Patient/{self.task.mrn}"}


def official_faults(
    task: Task, transcript: Transcript, lookup: Lookup, base: str
) -> list[Fault]:
    """Why the benchmark counts this task as wrong; empty if it is right.

    base: the URL of the FHIR server in the agent's instructions, with a slash at its end. Raises
    what `lookup` raises.
    """
    if transcript.result is None:
        return [unfinished_fault(transcript.status)]
    chart = Chart(lookup, task.mrn)
    graded = Graded(task, transcript, chart, base)
    try:
        check = _RULES[task.number]
        return list(check(graded))
    except _GRADER_ERRORS as error:
        problem = (
            f"the grader fails at it ({type(error).__name__}), which counts as wrong"
        )
        return [Fault(SYSTEM_ERROR, "", problem)]


def _find_patient(graded: Graded) -> Faults:
    yield from _require_no_post(graded)
    if graded.task.sol is None:
        raise KeyError("sol")
    yield from _check_equal_answer(graded, list(graded.task.sol))


def _age(graded: Graded) -> Faults:
    yield from _require_no_post(graded)
    birth_date = graded.chart.birth_date()
    age = age_in_years(birth_date, BENCHMARK_TIME.date())
    yield from _check_equal_answer(graded, [age])


def _blood_pressure(graded: Graded) -> Faults:
    for post in _expected_posts(graded, "Observation"):
        payload = post.payload
        yield from require(payload, _has_one_element, "a list of one", "category")
        yield from require(
            payload, _has_one_element, "a list of one", "category", 0, "coding"
        )
        yield from require_equal(payload, VITAL_SIGNS, "category", 0, "coding", 0)
        yield from require_equal(payload, {"text": "BP"}, "code")
        yield from require_equal(payload, NOW, "effectiveDateTime")
        yield from require_equal(payload, "final", "status")
        yield from require_equal(payload, "118/77 mmHg", "valueString")
        yield from require_equal(payload, graded.subject, "subject")
    yield from _post_faults(graded, "Observation")


def _recent_magnesium(graded: Graded) -> Faults:
    yield from _require_no_post(graded)
    measurement = graded.chart.latest("MG", BENCHMARK_TIME - DAY)
    yield from _check_equal_answer(graded, _value(measurement))


def _replace_magnesium(graded: Graded) -> Faults:
    measurement = graded.chart.latest("MG", BENCHMARK_TIME - DAY)
    if measurement is None:
        yield from _require_no_post(graded)
        return
    if measurement.value > 1.9:
        yield from _require_no_post(graded)
    else:
        for post in _expected_posts(graded, "MedicationRequest"):
            payload = post.payload
            dose = magnesium_dose(measurement.value)
            amount = {"value": dose, "unit": "g"}
            duration = {"value": dose, "unit": "h"}
            rate = ("dosageInstruction", 0, "doseAndRate", 0)
            yield from _medication(graded, payload, "0338-1715-40")
            yield from require_equal(payload, "IV", "dosageInstruction", 0, "route")
            yield from require_equal(payload, amount, *rate, "doseQuantity")
            yield from require_equal(payload, duration, *rate, "rateQuantity")
        yield from _post_faults(graded, "MedicationRequest")
    yield from _check_equal_answer(graded, _value(measurement), [])


def _mean_glucose(graded: Graded) -> Faults:
    yield from _require_no_post(graded)
    measurements = graded.chart.measured("GLU", BENCHMARK_TIME - DAY)
    mean = mean_value(measurements)

    def is_mean(answer: Any) -> bool:
        if len(answer) != 1:
            return False
        return bool(abs(answer[0] - mean) < 0.1)

    yield from _check_answer(graded, is_mean)


def _latest_glucose(graded: Graded) -> Faults:
    yield from _require_no_post(graded)
    measurement = graded.chart.latest("GLU")
    yield from _check_equal_answer(graded, _value(measurement))


def _referral(graded: Graded) -> Faults:
    sentence = quoted_text(graded.task.instruction)

    for post in _expected_posts(graded, "ServiceRequest"):
        payload = post.payload
        expected = "the sentence of the instruction"
        yield from _service(
            graded, payload, "http://snomed.info/sct", "306181000000106"
        )
        yield from require(
            payload, lambda element: sentence in element, expected, "note", "text"
        )
    yield from _post_faults(graded, "ServiceRequest")


def _replace_potassium(graded: Graded) -> Faults:
    measurement = graded.chart.latest("K")
    if measurement is None or measurement.value >= 3.5:
        yield from _require_no_post(graded)
    else:
        posts = _expected_posts(graded, "MedicationRequest", "ServiceRequest")
        if posts:
            order = posts[0].payload
            follow_up = posts[1].payload
            dose = potassium_dose(measurement.value)
            quantity = ("dosageInstruction", 0, "doseAndRate", 0, "doseQuantity")
            next_morning = "2023-11-14T08:"

            yield from _medication(graded, order, "40032-917-01")
            yield from require(
                order,
                lambda element: element.lower().strip() == "oral",
                "'oral'",
                "dosageInstruction",
                0,
                "route",
            )
            yield from require(
                order,
                lambda element: abs(element - dose) <= 0.1,
                f"{dose:g}",
                *quantity,
                "value",
            )
            yield from require_equal(order, "mEq", *quantity, "unit")
            yield from _service(graded, follow_up, "http://loinc.org", "2823-3")
            yield from _require_time(follow_up, next_morning, "occurrenceDateTime")
        yield from _post_faults(graded, "MedicationRequest", "ServiceRequest")
    yield from _check_equal_answer(graded, _value(measurement), [])


def _a1c(graded: Graded) -> Faults:
    measurement = graded.chart.latest("A1C")
    expected: list[Any] = [-1]
    if measurement is not None:
        expected = [measurement.value, measurement.written]
    if measurement is None or measurement.at < YEAR_AGO:
        for post in _expected_posts(graded, "ServiceRequest"):
            yield from _service(graded, post.payload, "http://loinc.org", "4548-4")
        yield from _post_faults(graded, "ServiceRequest")
    else:
        yield from _require_no_post(graded)
    yield from _check_equal_answer(graded, expected, [])


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


def quoted_text(instruction: str) -> str:
    """The text between the first and the last quotation mark of an instruction.

    Raises ValueError if it has no two quotation marks.
    """
    plain = instruction.replace("“", '"').replace("”", '"')
    _, opening, quoted = plain.partition('"')
    text, closing, _ = quoted.rpartition('"')
    if not (opening and closing):
        raise ValueError("the instruction quotes nothing")
    return text


def _value(measurement: Measurement | None) -> list[Any]:
    return [measurement.value if measurement else -1]


def _has_one_element(element: Any) -> bool:
    return len(element) == 1


def _require_time(payload: Any, time: str, field: str) -> Faults:
    """A fault unless the field contains this beginning of a time."""

    return require(payload, lambda element: time in element, f"{time}…", field)


def _require_no_post(graded: Graded) -> Faults:
    if graded.transcript.mentions_post:
        problem = (
            "nothing is to be written here, and an agent's turn holds the letters POST"
        )
        yield Fault(READ_ONLY_VIOLATION, "", problem)


def _expected_posts(graded: Graded, *types: str) -> list[Post]:
    """The posts if their number is as expected, or else none."""
    posts = graded.transcript.recorded_posts()
    return posts if len(posts) == len(types) else []


def _post_faults(graded: Graded, *types: str) -> Faults:
    """Faults unless there is one post of each of these resource types, in this order."""
    posts = graded.transcript.recorded_posts()
    if len(posts) != len(types):
        problem = f"{len(posts)} accepted POSTs; there must be {len(types)}"
        yield Fault(WRONG_POST_COUNT, "", problem)
        return
    for post, resource_type in zip(posts, types, strict=True):
        url = f"{graded.base}{resource_type}"
        if post.url != url:
            yield Fault(WRONG_ENDPOINT, "", f"must be posted to {url}, to the letter")
        yield from require_equal(post.payload, resource_type, "resourceType")


def _medication(graded: Graded, payload: Any, ndc: str) -> Faults:
    coding = ("medicationCodeableConcept", "coding", 0)
    minute = "2023-11-13T10:15"
    yield from require_equal(payload, "http://hl7.org/fhir/sid/ndc", *coding, "system")
    yield from require_equal(payload, ndc, *coding, "code")
    yield from _require_time(payload, minute, "authoredOn")
    yield from require_equal(payload, "active", "status")
    yield from require_equal(payload, "order", "intent")
    yield from require_equal(payload, graded.subject, "subject")


def _service(
    graded: Graded,
    payload: Any,
    system: str,
    code: str,
) -> Faults:
    expected = {
        "authoredOn": NOW,
        "status": "active",
        "intent": "order",
        "priority": "stat",
        "subject": graded.subject,
    }
    yield from require_equal(payload, system, "code", "coding", 0, "system")
    yield from require_equal(payload, code, "code", "coding", 0, "code")
    for name, value in expected.items():
        yield from require_equal(payload, value, name)


def _check_equal_answer(graded: Graded, *accepted: list[Any]) -> Faults:
    """A fault unless the answer equals one of these, as Python compares JSON values."""

    return _check_answer(graded, lambda answer: answer in accepted)


def _check_answer(graded: Graded, is_right: Callable[[Any], bool]) -> Faults:
    try:
        answer = graded.answer
    except TypeError:
        yield Fault(
            INVALID_RESULT, "", "the result is not stored as the text in FINISH( )"
        )
        return
    except (ValueError, RecursionError):
        yield Fault(INVALID_RESULT, "", "FINISH( ) holds no JSON")
        return
    try:
        correct = is_right(answer)
    except _GRADER_ERRORS:
        correct = False
    if not correct:
        yield Fault(ANSWER_MISMATCH, "", "the answer is another")
