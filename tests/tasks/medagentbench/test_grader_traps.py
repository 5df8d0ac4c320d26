"""Traps of the benchmark's own grader: work on which the two gradings differ."""

import pytest

from scoring.tasks.medagentbench_transcript import (
    Message,
    Transcript,
    finish_only_transcript,
)
from tests.tasks.medagentbench.graded_work import (
    CHECK,
    K_ORDER,
    MG,
    ONE,
    RATE,
    REFERRAL,
    ROUTE,
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
    task,
)
from tests.tasks.medagentbench.talking import (
    BASE,
    magnesium_payload,
    transcript_posting,
    vital_sign_payload,
    with_value,
)

TRAPS = {
    # rule → what the benchmark's own grader says → what a reviewer says (nothing: it is right)
    "a route as FHIR and the function's schema have it": (
        magnesium_work(with_value(MG, {"text": "IV"}, *ROUTE)),
        {"payload_validation_error"},
        set(),
    ),
    "a coded route": (
        magnesium_work(with_value(MG, {"coding": [{"code": "47625008"}]}, *ROUTE)),
        {"payload_validation_error"},
        set(),
    ),
    "a route in small letters": (
        magnesium_work(with_value(MG, "iv", *ROUTE)),
        {"payload_validation_error"},
        set(),
    ),
    "an oral route with a capital": (
        potassium_work(order=with_value(K_ORDER, " Oral", *ROUTE)),
        set(),
        set(),
    ),
    "an oral route as an object": (
        potassium_work(order=with_value(K_ORDER, {"text": "oral"}, *ROUTE)),
        {"payload_validation_error"},
        set(),
    ),
    "a note as FHIR has it": (
        referral_work(with_value(REFERRAL, [{"text": SENTENCE}], "note")),
        {"payload_validation_error"},
        set(),
    ),
    "a note that is a text": (
        referral_work(with_value(REFERRAL, SENTENCE, "note")),
        {"payload_validation_error"},
        set(),
    ),
    "two slashes in the URL": (
        (
            task(3, ONE),
            transcript_posting(
                (f"{BASE}/Observation", vital_sign_payload(ONE)), finish="[]"
            ),
        ),
        {"wrong_endpoint"},
        set(),
    ),
    "a slash at the end of the URL": (
        (
            task(3, ONE),
            transcript_posting(
                (f"{BASE}Observation/", vital_sign_payload(ONE)), finish="[]"
            ),
        ),
        {"wrong_endpoint"},
        set(),
    ),
    "the check ordered before the medication": (
        (
            task(9, ONE),
            transcript_posting(
                ("ServiceRequest", CHECK),
                ("MedicationRequest", K_ORDER),
                finish="[3.2]",
            ),
        ),
        {"wrong_endpoint", "payload_validation_error"},
        set(),
    ),
    "POST in prose": (
        (
            task(4, ONE),
            Transcript(
                "completed",
                "[1.9]",
                (
                    Message("user", ""),
                    Message("agent", f"GET {BASE}Observation?code=MG&note=POST"),
                    Message("user", "…"),
                    Message("agent", "FINISH([1.9])"),
                ),
            ),
        ),
        {"readonly_violation"},
        set(),
    ),
    "a POST that was refused": (
        (
            task(4, ONE),
            transcript_posting(
                ("Observation", vital_sign_payload(ONE)),
                finish="[1.9]",
                reply="Invalid POST request",
            ),
        ),
        {"readonly_violation"},
        set(),
    ),
    "Z for +00:00 in an answer": (
        (
            task(10, ONE),
            finish_only_transcript('FINISH([6.6, "2023-09-04T14:54:00Z"])'),
        ),
        {"answer_mismatch"},
        set(),
    ),
    "Z for +00:00 in an order": (
        referral_work(with_value(REFERRAL, "2023-11-13T10:15:00Z", "authoredOn")),
        {"payload_validation_error"},
        set(),
    ),
    "Z in the time of a medication, of which only the minute counts": (
        magnesium_work(with_value(MG, "2023-11-13T10:15:00Z", "authoredOn")),
        set(),
        set(),
    ),
    "the same instant in another zone": (
        vital_sign_work(
            with_value(
                vital_sign_payload(ONE),
                "2023-11-13T05:15:00-05:00",
                "effectiveDateTime",
            )
        ),
        {"payload_validation_error"},
        set(),
    ),
    "the next morning in another zone": (
        potassium_work(
            check=with_value(CHECK, "2023-11-14T03:00:00-05:00", "occurrenceDateTime")
        ),
        {"payload_validation_error"},
        set(),
    ),
    "a value that was only written otherwise": (
        (task(4, ONE), finish_only_transcript("FINISH([1.9001])")),
        {"answer_mismatch"},
        set(),
    ),
    "a number in quotes": (
        (task(4, ONE), finish_only_transcript('FINISH(["1.9"])')),
        {"answer_mismatch"},
        set(),
    ),
    "a whole dose with a decimal": (
        magnesium_work(magnesium_payload(ONE, 1.0)),
        set(),
        set(),
    ),
    "a rate in grams an hour": (
        magnesium_work(
            with_value(MG, {"value": 1, "unit": "g/h"}, *RATE, "rateQuantity")
        ),
        {"payload_validation_error"},
        set(),
    ),
    "hours written out": (
        magnesium_work(with_value(MG, "hours", *RATE, "rateQuantity", "unit")),
        {"payload_validation_error"},
        set(),
    ),
    "a system of units beside": (
        magnesium_work(
            with_value(
                MG, {"value": 1, "unit": "g", "code": "g"}, *RATE, "doseQuantity"
            )
        ),
        {"payload_validation_error"},
        set(),
    ),
    "a code with a display": (
        vital_sign_work(
            with_value(vital_sign_payload(ONE), {"text": "BP", "coding": []}, "code")
        ),
        {"payload_validation_error"},
        set(),
    ),
    "a display beside the reference": (
        vital_sign_work(
            with_value(
                vital_sign_payload(ONE),
                {"reference": f"Patient/{ONE}", "display": "Ada"},
                "subject",
            )
        ),
        {"payload_validation_error"},
        set(),
    ),
    "finished, but the run says it did not end well": (
        (
            task(4, ONE),
            Transcript(
                "task error", "[1.9]", finish_only_transcript("FINISH([1.9])").messages
            ),
        ),
        set(),
        {"system_error"},
    ),
}


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_of_the_benchmark_is_told_from_a_mistake(
    name: str, benchmark: SyntheticBenchmark
) -> None:
    work, official, clinical = TRAPS[name]
    assert kinds(graded(benchmark, *work)) == (official, clinical)
