"""Both gradings of one conversation.

One broken rule at a time, and every trap of the benchmark's own grader.

Rules: MedAgentBench's refsol.py as the reference describes it (B4). The patients and their
measurements are invented.
"""

import json

import pytest

from scoring.tasks.medagentbench import grade_do_nothing
from scoring.tasks.medagentbench_transcript import (
    Message,
    Transcript,
    finish_only_transcript,
    read_tasks,
)
from tests.tasks.medagentbench.graded_work import (
    A1C,
    CHECK,
    FIVE,
    FOUR,
    K_ORDER,
    LOINC,
    MG,
    OBJECT,
    ONE,
    RATE,
    REFERRAL,
    ROUTE,
    SIX,
    THREE,
    TWO,
    a1c_work,
    graded,
    kinds,
    magnesium_work,
    potassium_work,
    referral_work,
    vital_sign_work,
)
from tests.tasks.medagentbench.invented import (
    SENTENCE,
    SyntheticBenchmark,
    patient_lookup_task,
    task,
)
from tests.tasks.medagentbench.talking import (
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

RIGHT = {
    "patient": (
        patient_lookup_task("Ada Muster", "1950-11-14", ONE),
        finish_only_transcript(f'FINISH(["{ONE}"])'),
    ),
    "no such patient": (
        patient_lookup_task("No One", "1950-11-14", "Patient not found"),
        finish_only_transcript('FINISH(["Patient not found"])'),
    ),
    "age, a day before the birthday": (
        task(2, ONE),
        finish_only_transcript("FINISH([72])"),
    ),
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
    "magnesium at the window's edge": (
        task(4, TWO),
        finish_only_transcript("FINISH([1.4])"),
    ),
    "magnesium too old": (task(4, FIVE), finish_only_transcript("FINISH([-1])")),
    "replaced, mild": (
        task(5, ONE),
        transcript_posting(
            ("MedicationRequest", magnesium_payload(ONE, 1.0)), finish="[1.9]"
        ),
    ),
    "replaced, moderate": (
        task(5, TWO),
        transcript_posting(
            ("MedicationRequest", magnesium_payload(TWO, 2)), finish="[]"
        ),
    ),
    "replaced, severe": (
        task(5, THREE),
        transcript_posting(
            ("MedicationRequest", magnesium_payload(THREE, 4)), finish="[0.9]"
        ),
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
    "referral": (
        task(8, ONE),
        transcript_posting(("ServiceRequest", REFERRAL), finish="[]"),
    ),
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
    "fresh": (
        task(10, ONE),
        finish_only_transcript('FINISH([6.6, "2023-09-04T14:54:00+00:00"])'),
    ),
    "a year old to the minute": (
        task(10, THREE),
        finish_only_transcript('FINISH([5.9, "2022-11-13T10:15:00+00:00"])'),
    ),
    "stale": (
        task(10, TWO),
        transcript_posting(
            ("ServiceRequest", A1C), finish='[7.1, "2022-11-13T10:14:00+00:00"]'
        ),
    ),
    "absent": (
        task(10, SIX),
        transcript_posting(
            ("ServiceRequest", service_request_payload(SIX, LOINC, "4548-4")),
            finish="[-1]",
        ),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_work_is_right_by_both(name: str, benchmark: SyntheticBenchmark) -> None:
    assert kinds(graded(benchmark, *RIGHT[name])) == (set(), set())


WRONG = {
    # kind of failure → rule → what breaks it, in both gradings
    "answer_mismatch": {
        "another patient's number": (
            patient_lookup_task("Ada Muster", "1950-11-14", ONE),
            finish_only_transcript(f'FINISH(["{TWO}"])'),
        ),
        "a year too old": (task(2, ONE), finish_only_transcript("FINISH([73])")),
        "an older measurement": (task(4, ONE), finish_only_transcript("FINISH([1.2])")),
        "the second of two at one time": (
            task(4, ONE),
            finish_only_transcript("FINISH([2.4])"),
        ),
        "no -1 for nothing": (task(4, FIVE), finish_only_transcript("FINISH([1.1])")),
        "answers in words": (
            task(4, ONE),
            finish_only_transcript('FINISH(["not available"])'),
        ),
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
            transcript_posting(
                ("Observation", vital_sign_payload(ONE)), finish="[1.9]"
            ),
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
            transcript_posting(
                *[("Observation", vital_sign_payload(ONE))] * 2, finish="[]"
            ),
        ),
        "no replacement": (task(5, ONE), finish_only_transcript("FINISH([1.9])")),
        "no check of potassium": (
            task(9, ONE),
            transcript_posting(("MedicationRequest", K_ORDER), finish="[3.2]"),
        ),
        "no new test for a stale one": (
            task(10, TWO),
            finish_only_transcript("FINISH([])"),
        ),
        "refused, so not done": (
            task(3, ONE),
            transcript_posting(
                ("Observation", vital_sign_payload(ONE)),
                finish="[]",
                reply="Invalid POST request",
            ),
        ),
    },
    "wrong_endpoint": {
        "another type": (
            task(3, ONE),
            transcript_posting(
                ("MedicationRequest", vital_sign_payload(ONE)), finish="[]"
            ),
        ),
    },
    "payload_validation_error": {
        "vital: no category": vital_sign_work(
            without_value(vital_sign_payload(ONE), "category")
        ),
        "vital: a laboratory result": vital_sign_work(
            with_value(
                vital_sign_payload(ONE),
                "laboratory",
                "category",
                0,
                "coding",
                0,
                "code",
            )
        ),
        "vital: another row": vital_sign_work(
            with_value(vital_sign_payload(ONE), {"text": "HR"}, "code")
        ),
        "vital: another time": vital_sign_work(
            with_value(
                vital_sign_payload(ONE),
                "2023-11-13T10:16:00+00:00",
                "effectiveDateTime",
            )
        ),
        "vital: preliminary": vital_sign_work(
            with_value(vital_sign_payload(ONE), "preliminary", "status")
        ),
        "vital: another value": vital_sign_work(
            with_value(vital_sign_payload(ONE), "118/78 mmHg", "valueString")
        ),
        "vital: another patient": vital_sign_work(
            with_value(vital_sign_payload(ONE), OBJECT, "subject")
        ),
        "vital: not of its type": vital_sign_work(
            with_value(vital_sign_payload(ONE), "Condition", "resourceType")
        ),
        "vital: no object": vital_sign_work([]),
        "magnesium: another code": magnesium_work(
            with_value(MG, "1-1-1", "medicationCodeableConcept", "coding", 0, "code")
        ),
        "magnesium: another system": magnesium_work(
            with_value(MG, LOINC, "medicationCodeableConcept", "coding", 0, "system")
        ),
        "magnesium: another day": magnesium_work(
            with_value(MG, "2023-11-14T10:15:00+00:00", "authoredOn")
        ),
        "magnesium: by mouth": magnesium_work(with_value(MG, "oral", *ROUTE)),
        "magnesium: twice the dose": magnesium_work(
            with_value(MG, 2, *RATE, "doseQuantity", "value")
        ),
        "magnesium: milligrams": magnesium_work(
            with_value(MG, "mg", *RATE, "doseQuantity", "unit")
        ),
        "magnesium: too fast": magnesium_work(
            with_value(MG, 0.5, *RATE, "rateQuantity", "value")
        ),
        "magnesium: no rate": magnesium_work(without_value(MG, *RATE, "rateQuantity")),
        "magnesium: a draft": magnesium_work(with_value(MG, "draft", "status")),
        "magnesium: a plan": magnesium_work(with_value(MG, "plan", "intent")),
        "magnesium: another patient": magnesium_work(with_value(MG, OBJECT, "subject")),
        "referral: another code": referral_work(
            with_value(REFERRAL, "1", "code", "coding", 0, "code")
        ),
        "referral: another system": referral_work(
            with_value(REFERRAL, LOINC, "code", "coding", 0, "system")
        ),
        "referral: another time": referral_work(
            with_value(REFERRAL, "2023-11-12T10:15:00+00:00", "authoredOn")
        ),
        "referral: routine": referral_work(with_value(REFERRAL, "routine", "priority")),
        "referral: no note": referral_work(without_value(REFERRAL, "note")),
        "referral: half the sentence": referral_work(
            with_value(REFERRAL, {"text": SENTENCE[:40]}, "note")
        ),
        "referral: another patient": referral_work(
            with_value(REFERRAL, OBJECT, "subject")
        ),
        "potassium: too little": potassium_work(
            order=with_value(K_ORDER, 20, *RATE, "doseQuantity", "value")
        ),
        "potassium: off by more than a tenth": potassium_work(
            order=with_value(K_ORDER, 30.2, *RATE, "doseQuantity", "value")
        ),
        "potassium: grams": potassium_work(
            order=with_value(K_ORDER, "g", *RATE, "doseQuantity", "unit")
        ),
        "potassium: into the vein": potassium_work(
            order=with_value(K_ORDER, "IV", *ROUTE)
        ),
        "potassium: another patient": potassium_work(
            order=with_value(K_ORDER, OBJECT, "subject")
        ),
        "check: the same day": potassium_work(
            check=with_value(CHECK, "2023-11-13T08:00:00+00:00", "occurrenceDateTime")
        ),
        "check: no time": potassium_work(
            check=without_value(CHECK, "occurrenceDateTime")
        ),
        "check: another code": potassium_work(
            check=with_value(CHECK, "4548-4", "code", "coding", 0, "code")
        ),
        "HbA1c: another code": a1c_work(
            with_value(A1C, "2823-3", "code", "coding", 0, "code")
        ),
        "HbA1c: completed": a1c_work(with_value(A1C, "completed", "status")),
        "HbA1c: another patient": a1c_work(
            with_value(A1C, {"reference": f"Patient/{ONE}"}, "subject")
        ),
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


def test_a_post_in_fences_is_no_post_to_the_benchmark(
    benchmark: SyntheticBenchmark,
) -> None:
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
    assert all(
        kinds(
            graded(benchmark, task(4, ONE), finish_only_transcript(f"FINISH({deep})"))
        )
    )


def test_silence_is_graded_for_every_set_of_tasks(
    benchmark: SyntheticBenchmark,
) -> None:
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


def test_faults_say_what_is_wanted_and_never_what_came(
    benchmark: SyntheticBenchmark,
) -> None:
    secret = "He confided this to the nurse"
    result = graded(
        benchmark,
        *vital_sign_work(with_value(vital_sign_payload(ONE), secret, "valueString")),
    )
    assert secret not in json.dumps(result.row())
