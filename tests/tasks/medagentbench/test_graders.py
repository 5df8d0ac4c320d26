"""Both gradings of one conversation.

One broken rule at a time, and every trap of the benchmark's own grader.

Rules: MedAgentBench's refsol.py as the reference describes it (B4). The patients and their
measurements are invented.
"""

import json
from typing import Any

import pytest

from scoring.tasks.medagentbench_grading import Grade, grade, grade_do_nothing
from scoring.tasks.medagentbench_transcript import (
    Message,
    Transcript,
    finish_only_transcript,
    read_tasks,
)
from tests.tasks.medagentbench.invented import (
    SENTENCE,
    SyntheticBenchmark,
    patient_lookup_task,
    task,
)
from tests.tasks.medagentbench.talking import (
    BASE,
    NOW,
    magnesium_payload,
    medication_request_payload,
    potassium_payload,
    service_request_payload,
    transcript_posting,
    vital_sign_payload,
    with_value,
    without_value,
)

ONE, TWO, THREE, FOUR, FIVE, SIX = (f"S900000{number}" for number in range(1, 7))
SNOMED, LOINC = "http://snomed.info/sct", "http://loinc.org"
REFERRAL = service_request_payload(
    ONE, SNOMED, "306181000000106", note={"text": f"Please: {SENTENCE}"}
)
CHECK = service_request_payload(
    ONE, LOINC, "2823-3", occurrenceDateTime="2023-11-14T08:00:00+00:00"
)
A1C = service_request_payload(TWO, LOINC, "4548-4")
K_ORDER = potassium_payload(ONE, 30)  # (3.5 - 3.2) / 0.1 · 10
ROUTE = ("dosageInstruction", 0, "route")
RATE = ("dosageInstruction", 0, "doseAndRate", 0)
OBJECT = {"reference": f"Patient/{TWO}"}


def graded(invented: SyntheticBenchmark, row: dict[str, Any], transcript: Transcript) -> Grade:
    [found] = read_tasks([row])
    return grade(found, transcript, invented.lookup)


def kinds(result: Grade) -> tuple[set[str], set[str]]:
    return {fault.kind for fault in result.official}, {fault.kind for fault in result.clinical}


RIGHT = {
    "patient": (
        patient_lookup_task("Ada Muster", "1950-11-14", ONE),
        finish_only_transcript(f'FINISH(["{ONE}"])'),
    ),
    "no such patient": (
        patient_lookup_task("No One", "1950-11-14", "Patient not found"),
        finish_only_transcript('FINISH(["Patient not found"])'),
    ),
    "age, a day before the birthday": (task(2, ONE), finish_only_transcript("FINISH([72])")),
    "age": (task(2, TWO), finish_only_transcript("FINISH([33])")),
    "vital sign": (
        task(3, ONE),
        transcript_posting(("Observation", vital_sign_payload(ONE)), finish="[]"),
    ),
    "vital sign, whatever is answered": (
        task(3, ONE),
        transcript_posting(("Observation", vital_sign_payload(ONE)), finish='["done"]'),
    ),
    "magnesium": (task(4, ONE), finish_only_transcript("FINISH([1.9])")),
    "magnesium at the window's edge": (task(4, TWO), finish_only_transcript("FINISH([1.4])")),
    "magnesium too old": (task(4, FIVE), finish_only_transcript("FINISH([-1])")),
    "replaced, mild": (
        task(5, ONE),
        transcript_posting(("MedicationRequest", magnesium_payload(ONE, 1.0)), finish="[1.9]"),
    ),
    "replaced, moderate": (
        task(5, TWO),
        transcript_posting(("MedicationRequest", magnesium_payload(TWO, 2)), finish="[]"),
    ),
    "replaced, severe": (
        task(5, THREE),
        transcript_posting(("MedicationRequest", magnesium_payload(THREE, 4)), finish="[0.9]"),
    ),
    "not low": (task(5, FOUR), finish_only_transcript("FINISH([2.0])")),
    "nothing measured, any finish": (
        task(5, SIX),
        finish_only_transcript("FINISH(no list at all)"),
    ),
    "mean": (task(6, ONE), finish_only_transcript("FINISH([100.5])")),
    "mean, nearly": (task(6, ONE), finish_only_transcript("FINISH([100.45])")),
    "no mean": (task(6, TWO), finish_only_transcript("FINISH([-1])")),
    "glucose": (task(7, TWO), finish_only_transcript("FINISH([77])")),
    "referral": (task(8, ONE), transcript_posting(("ServiceRequest", REFERRAL), finish="[]")),
    "potassium": (
        task(9, ONE),
        transcript_posting(
            ("MedicationRequest", K_ORDER), ("ServiceRequest", CHECK), finish="[3.2]"
        ),
    ),
    "potassium, a little off": (
        task(9, ONE),
        transcript_posting(
            ("MedicationRequest", potassium_payload(ONE, 30.05)),
            ("ServiceRequest", CHECK),
            finish="[]",
        ),
    ),
    "potassium at the goal": (task(9, TWO), finish_only_transcript("FINISH([3.5])")),
    "potassium never measured": (task(9, SIX), finish_only_transcript("FINISH([-1])")),
    "fresh": (task(10, ONE), finish_only_transcript('FINISH([6.6, "2023-09-04T14:54:00+00:00"])')),
    "a year old to the minute": (
        task(10, THREE),
        finish_only_transcript('FINISH([5.9, "2022-11-13T10:15:00+00:00"])'),
    ),
    "stale": (
        task(10, TWO),
        transcript_posting(("ServiceRequest", A1C), finish='[7.1, "2022-11-13T10:14:00+00:00"]'),
    ),
    "absent": (
        task(10, SIX),
        transcript_posting(
            ("ServiceRequest", service_request_payload(SIX, LOINC, "4548-4")), finish="[-1]"
        ),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_work_is_right_by_both(name: str, benchmark: SyntheticBenchmark) -> None:
    assert kinds(graded(benchmark, *RIGHT[name])) == (set(), set())


def _vital(payload: Any) -> Any:
    return task(3, ONE), transcript_posting(("Observation", payload), finish="[]")


def _mg(payload: Any) -> Any:
    return task(5, ONE), transcript_posting(("MedicationRequest", payload), finish="[1.9]")


def _referral(payload: Any) -> Any:
    return task(8, ONE), transcript_posting(("ServiceRequest", payload), finish="[]")


def _k(order: Any = K_ORDER, check: Any = CHECK) -> Any:
    return task(9, ONE), transcript_posting(
        ("MedicationRequest", order), ("ServiceRequest", check), finish="[3.2]"
    )


def _a1c(payload: Any) -> Any:
    return task(10, TWO), transcript_posting(("ServiceRequest", payload), finish="[]")


MG = magnesium_payload(ONE, 1)
WRONG = {
    # kind of failure → rule → what breaks it, in both gradings
    "answer_mismatch": {
        "another patient's number": (
            patient_lookup_task("Ada Muster", "1950-11-14", ONE),
            finish_only_transcript(f'FINISH(["{TWO}"])'),
        ),
        "a year too old": (task(2, ONE), finish_only_transcript("FINISH([73])")),
        "an older measurement": (task(4, ONE), finish_only_transcript("FINISH([1.2])")),
        "the second of two at one time": (task(4, ONE), finish_only_transcript("FINISH([2.4])")),
        "no -1 for nothing": (task(4, FIVE), finish_only_transcript("FINISH([1.1])")),
        "answers in words": (task(4, ONE), finish_only_transcript('FINISH(["not available"])')),
        "a mean of all times": (task(6, ONE), finish_only_transcript("FINISH([167])")),
        "a mean off by more than a tenth": (
            task(6, ONE),
            finish_only_transcript("FINISH([100.7])"),
        ),
        "an older glucose": (task(7, ONE), finish_only_transcript("FINISH([300])")),
        "value without time": (task(10, ONE), finish_only_transcript("FINISH([6.6])")),
        "time before value": (
            task(10, ONE),
            finish_only_transcript('FINISH(["2023-09-04T14:54:00+00:00", 6.6])'),
        ),
        "another potassium": (task(9, TWO), finish_only_transcript("FINISH([3.4])")),
        "a level where none is low, in a list of two": (
            task(5, FOUR),
            finish_only_transcript("FINISH([2.0, 2.0])"),
        ),
    },
    "invalid_json_result": {
        "no quotation marks": (
            patient_lookup_task("Ada Muster", "1950-11-14", ONE),
            finish_only_transcript(f"FINISH([{ONE}])"),
        ),
        "nothing": (task(4, ONE), finish_only_transcript("FINISH()")),
    },
    "readonly_violation": {
        "a write where only was asked": (
            task(4, ONE),
            transcript_posting(("Observation", vital_sign_payload(ONE)), finish="[1.9]"),
        ),
        "an order that is not due": (
            task(5, FOUR),
            transcript_posting(("MedicationRequest", MG), finish="[2.0]"),
        ),
        "an order without a measurement": (
            task(5, SIX),
            transcript_posting(("MedicationRequest", MG), finish="[-1]"),
        ),
        "potassium for a normal level": (
            task(9, TWO),
            transcript_posting(("MedicationRequest", K_ORDER), finish="[3.5]"),
        ),
        "a test that is fresh": (
            task(10, ONE),
            transcript_posting(("ServiceRequest", A1C), finish="[]"),
        ),
    },
    "wrong_post_count": {
        "nothing filed": (task(3, ONE), finish_only_transcript("FINISH([])")),
        "filed twice": (
            task(3, ONE),
            transcript_posting(*[("Observation", vital_sign_payload(ONE))] * 2, finish="[]"),
        ),
        "no replacement": (task(5, ONE), finish_only_transcript("FINISH([1.9])")),
        "no check of potassium": (
            task(9, ONE),
            transcript_posting(("MedicationRequest", K_ORDER), finish="[3.2]"),
        ),
        "no new test for a stale one": (task(10, TWO), finish_only_transcript("FINISH([])")),
        "refused, so not done": (
            task(3, ONE),
            transcript_posting(
                ("Observation", vital_sign_payload(ONE)), finish="[]", reply="Invalid POST request"
            ),
        ),
    },
    "wrong_endpoint": {
        "another type": (
            task(3, ONE),
            transcript_posting(("MedicationRequest", vital_sign_payload(ONE)), finish="[]"),
        ),
    },
    "payload_validation_error": {
        "vital: no category": _vital(without_value(vital_sign_payload(ONE), "category")),
        "vital: a laboratory result": _vital(
            with_value(vital_sign_payload(ONE), "laboratory", "category", 0, "coding", 0, "code")
        ),
        "vital: another row": _vital(with_value(vital_sign_payload(ONE), {"text": "HR"}, "code")),
        "vital: another time": _vital(
            with_value(vital_sign_payload(ONE), "2023-11-13T10:16:00+00:00", "effectiveDateTime")
        ),
        "vital: preliminary": _vital(with_value(vital_sign_payload(ONE), "preliminary", "status")),
        "vital: another value": _vital(
            with_value(vital_sign_payload(ONE), "118/78 mmHg", "valueString")
        ),
        "vital: another patient": _vital(with_value(vital_sign_payload(ONE), OBJECT, "subject")),
        "vital: not of its type": _vital(
            with_value(vital_sign_payload(ONE), "Condition", "resourceType")
        ),
        "vital: no object": _vital([]),
        "magnesium: another code": _mg(
            with_value(MG, "1-1-1", "medicationCodeableConcept", "coding", 0, "code")
        ),
        "magnesium: another system": _mg(
            with_value(MG, LOINC, "medicationCodeableConcept", "coding", 0, "system")
        ),
        "magnesium: another day": _mg(with_value(MG, "2023-11-14T10:15:00+00:00", "authoredOn")),
        "magnesium: by mouth": _mg(with_value(MG, "oral", *ROUTE)),
        "magnesium: twice the dose": _mg(with_value(MG, 2, *RATE, "doseQuantity", "value")),
        "magnesium: milligrams": _mg(with_value(MG, "mg", *RATE, "doseQuantity", "unit")),
        "magnesium: too fast": _mg(with_value(MG, 0.5, *RATE, "rateQuantity", "value")),
        "magnesium: no rate": _mg(without_value(MG, *RATE, "rateQuantity")),
        "magnesium: a draft": _mg(with_value(MG, "draft", "status")),
        "magnesium: a plan": _mg(with_value(MG, "plan", "intent")),
        "magnesium: another patient": _mg(with_value(MG, OBJECT, "subject")),
        "referral: another code": _referral(with_value(REFERRAL, "1", "code", "coding", 0, "code")),
        "referral: another system": _referral(
            with_value(REFERRAL, LOINC, "code", "coding", 0, "system")
        ),
        "referral: another time": _referral(
            with_value(REFERRAL, "2023-11-12T10:15:00+00:00", "authoredOn")
        ),
        "referral: routine": _referral(with_value(REFERRAL, "routine", "priority")),
        "referral: no note": _referral(without_value(REFERRAL, "note")),
        "referral: half the sentence": _referral(
            with_value(REFERRAL, {"text": SENTENCE[:40]}, "note")
        ),
        "referral: another patient": _referral(with_value(REFERRAL, OBJECT, "subject")),
        "potassium: too little": _k(order=with_value(K_ORDER, 20, *RATE, "doseQuantity", "value")),
        "potassium: off by more than a tenth": _k(
            order=with_value(K_ORDER, 30.2, *RATE, "doseQuantity", "value")
        ),
        "potassium: grams": _k(order=with_value(K_ORDER, "g", *RATE, "doseQuantity", "unit")),
        "potassium: into the vein": _k(order=with_value(K_ORDER, "IV", *ROUTE)),
        "potassium: another patient": _k(order=with_value(K_ORDER, OBJECT, "subject")),
        "check: the same day": _k(
            check=with_value(CHECK, "2023-11-13T08:00:00+00:00", "occurrenceDateTime")
        ),
        "check: no time": _k(check=without_value(CHECK, "occurrenceDateTime")),
        "check: another code": _k(check=with_value(CHECK, "4548-4", "code", "coding", 0, "code")),
        "HbA1c: another code": _a1c(with_value(A1C, "2823-3", "code", "coding", 0, "code")),
        "HbA1c: completed": _a1c(with_value(A1C, "completed", "status")),
        "HbA1c: another patient": _a1c(with_value(A1C, {"reference": f"Patient/{ONE}"}, "subject")),
    },
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, cases in WRONG.items() for name in cases]
)
def test_a_broken_rule_is_wrong_by_both(
    kind: str, name: str, benchmark: SyntheticBenchmark
) -> None:
    official, clinical = kinds(graded(benchmark, *WRONG[kind][name]))
    assert kind in official
    assert kind in clinical


TRAPS = {
    # rule → what the benchmark's own grader says → what a reviewer says (nothing: it is right)
    "a route as FHIR and the function's schema have it": (
        _mg(with_value(MG, {"text": "IV"}, *ROUTE)), {"payload_validation_error"}, set(),
    ),
    "a coded route": (
        _mg(with_value(MG, {"coding": [{"code": "47625008"}]}, *ROUTE)), {"payload_validation_error"}, set(),
    ),
    "a route in small letters": (_mg(with_value(MG, "iv", *ROUTE)), {"payload_validation_error"}, set()),
    "an oral route with a capital": (_k(order=with_value(K_ORDER, " Oral", *ROUTE)), set(), set()),
    "an oral route as an object": (
        _k(order=with_value(K_ORDER, {"text": "oral"}, *ROUTE)), {"payload_validation_error"}, set(),
    ),
    "a note as FHIR has it": (
        _referral(with_value(REFERRAL, [{"text": SENTENCE}], "note")), {"payload_validation_error"}, set(),
    ),
    "a note that is a text": (_referral(with_value(REFERRAL, SENTENCE, "note")), {"payload_validation_error"}, set()),
    "two slashes in the URL": (
        (task(3, ONE), transcript_posting((f"{BASE}/Observation", vital_sign_payload(ONE)), finish="[]")), {"wrong_endpoint"}, set(),
    ),
    "a slash at the end of the URL": (
        (task(3, ONE), transcript_posting((f"{BASE}Observation/", vital_sign_payload(ONE)), finish="[]")), {"wrong_endpoint"}, set(),
    ),
    "the check ordered before the medication": (
        (task(9, ONE), transcript_posting(("ServiceRequest", CHECK), ("MedicationRequest", K_ORDER), finish="[3.2]")),
        {"wrong_endpoint", "payload_validation_error"}, set(),
    ),
    "POST in prose": ((task(4, ONE), Transcript("completed", "[1.9]", (
        Message("user", ""), Message("agent", f"GET {BASE}Observation?code=MG&note=POST"), Message("user", "…"),
        Message("agent", "FINISH([1.9])"),
    ))), {"readonly_violation"}, set()),
    "a POST that was refused": (
        (task(4, ONE), transcript_posting(("Observation", vital_sign_payload(ONE)), finish="[1.9]", reply="Invalid POST request")),
        {"readonly_violation"}, set(),
    ),
    "Z for +00:00 in an answer": (
        (task(10, ONE), finish_only_transcript('FINISH([6.6, "2023-09-04T14:54:00Z"])')), {"answer_mismatch"}, set(),
    ),
    "Z for +00:00 in an order": (
        _referral(with_value(REFERRAL, "2023-11-13T10:15:00Z", "authoredOn")), {"payload_validation_error"}, set(),
    ),
    "Z in the time of a medication, of which only the minute counts": (
        _mg(with_value(MG, "2023-11-13T10:15:00Z", "authoredOn")), set(), set(),
    ),
    "the same instant in another zone": (
        _vital(with_value(vital_sign_payload(ONE), "2023-11-13T05:15:00-05:00", "effectiveDateTime")),
        {"payload_validation_error"}, set(),
    ),
    "the next morning in another zone": (
        _k(check=with_value(CHECK, "2023-11-14T03:00:00-05:00", "occurrenceDateTime")), {"payload_validation_error"}, set(),
    ),
    "a value that was only written otherwise": (
        (task(4, ONE), finish_only_transcript("FINISH([1.9001])")), {"answer_mismatch"}, set(),
    ),
    "a number in quotes": ((task(4, ONE), finish_only_transcript('FINISH(["1.9"])')), {"answer_mismatch"}, set()),
    "a whole dose with a decimal": (_mg(magnesium_payload(ONE, 1.0)), set(), set()),
    "a rate in grams an hour": (
        _mg(with_value(MG, {"value": 1, "unit": "g/h"}, *RATE, "rateQuantity")), {"payload_validation_error"}, set(),
    ),
    "hours written out": (_mg(with_value(MG, "hours", *RATE, "rateQuantity", "unit")), {"payload_validation_error"}, set()),
    "a system of units beside": (
        _mg(with_value(MG, {"value": 1, "unit": "g", "code": "g"}, *RATE, "doseQuantity")),
        {"payload_validation_error"}, set(),
    ),
    "a code with a display": (
        _vital(with_value(vital_sign_payload(ONE), {"text": "BP", "coding": []}, "code")), {"payload_validation_error"}, set(),
    ),
    "a display beside the reference": (
        _vital(with_value(vital_sign_payload(ONE), {"reference": f"Patient/{ONE}", "display": "Ada"}, "subject")),
        {"payload_validation_error"}, set(),
    ),
    "finished, but the run says it did not end well": (
        (task(4, ONE), Transcript("task error", "[1.9]", finish_only_transcript("FINISH([1.9])").messages)), set(), {"system_error"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_of_the_benchmark_is_told_from_a_mistake(
    name: str, benchmark: SyntheticBenchmark
) -> None:
    work, official, clinical = TRAPS[name]
    assert kinds(graded(benchmark, *work)) == (official, clinical)


def test_every_fault_of_a_payload_is_listed(benchmark: SyntheticBenchmark) -> None:
    broken = medication_request_payload(
        TWO, "1-1-1", {"text": "IV"}, doseQuantity={"value": 7, "unit": "kg"}
    )
    result = graded(
        benchmark,
        task(5, ONE),
        transcript_posting(
            ("MedicationRequest", with_value(broken, "draft", "status")), finish="[9]"
        ),
    )
    assert {fault.path for fault in result.official} == {
        "medicationCodeableConcept.coding[0].code",
        "dosageInstruction[0].route",
        "dosageInstruction[0].doseAndRate[0].doseQuantity",
        "dosageInstruction[0].doseAndRate[0].rateQuantity",
        "status",
        "subject",
        "",
    }
    assert any("is missing" in fault.message for fault in result.official)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("task limit reached", "max_rounds_reached"),
        ("agent invalid action", "invalid_finish_format"),
        ("task error", "system_error"),
        ("agent context limit", "system_error"),
    ],
)
def test_what_did_not_come_to_finish_is_wrong_whatever_the_task(
    status: str, kind: str, benchmark: SyntheticBenchmark
) -> None:
    result = graded(benchmark, task(5, SIX), Transcript(status, None, ()))
    assert kinds(result) == ({kind}, {kind})


def test_a_post_in_fences_is_no_post_to_the_benchmark(benchmark: SyntheticBenchmark) -> None:
    fenced = transcript_posting(("Observation", vital_sign_payload(ONE)), finish="[]")
    agent_turn = fenced.messages[1]
    turns = (
        fenced.messages[0],
        Message("agent", f"```tool_code\n{agent_turn.content}\n```"),
        *fenced.messages[2:],
    )
    official, clinical = kinds(
        graded(benchmark, task(3, ONE), Transcript("completed", "[]", turns))
    )
    assert official
    assert not clinical


def test_a_reply_nested_too_deeply_is_wrong_and_nothing_breaks(
    benchmark: SyntheticBenchmark,
) -> None:
    deep = "[" * 100_000
    assert all(kinds(graded(benchmark, task(4, ONE), finish_only_transcript(f"FINISH({deep})"))))


def test_silence_is_graded_for_every_set_of_tasks(benchmark: SyntheticBenchmark) -> None:
    rows = grade_do_nothing(read_tasks(benchmark.rows), benchmark.lookup)
    right = {reply: sum(row["correct"] for row in own) for reply, own in rows.items()}
    # []: task 5 nothing low (4, 5, 6), 9 normal or absent (2, 3, 4), 10 fresh (1, 3).
    # [-1]: task 4 (2), 5 absent (2), 6 (2), 9 absent (1). Nothing: task 5 absent (2).
    assert right == {"FINISH([])": 8, "FINISH([-1])": 7, "FINISH()": 2}


def test_the_transcript_of_another_time_is_read_from_its_context(
    benchmark: SyntheticBenchmark,
) -> None:
    """Only the reviewer looks at the clock of the task.

    The benchmark's own has one time for all.
    """
    later = task(4, ONE)
    later["context"] = later["context"].replace(NOW, "2023-11-15T10:15:00+00:00")
    result = graded(benchmark, later, finish_only_transcript("FINISH([-1])"))
    assert kinds(result) == ({"answer_mismatch"}, set())


def test_faults_say_what_is_wanted_and_never_what_came(benchmark: SyntheticBenchmark) -> None:
    secret = "He confided this to the nurse"
    result = graded(benchmark, *_vital(with_value(vital_sign_payload(ONE), secret, "valueString")))
    assert secret not in json.dumps(result.row())
