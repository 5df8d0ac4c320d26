"""Right work for the graders, as pairs of a task and a transcript, and both gradings of it."""

from typing import Any

from scoring.tasks.medagentbench import Grade, grade
from scoring.tasks.medagentbench_transcript import (
    Transcript,
    read_tasks,
)
from tests.tasks.medagentbench.invented import (
    SENTENCE,
    SyntheticBenchmark,
    task,
)
from tests.tasks.medagentbench.talking import (
    magnesium_payload,
    potassium_payload,
    service_request_payload,
    transcript_posting,
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


def graded(
    invented: SyntheticBenchmark, row: dict[str, Any], transcript: Transcript
) -> Grade:
    [graded_task] = read_tasks([row])
    return grade(graded_task, transcript, invented.lookup)


def kinds(result: Grade) -> tuple[set[str], set[str]]:
    return {fault.kind for fault in result.official}, {
        fault.kind for fault in result.clinical
    }


MG = magnesium_payload(ONE, 1)


def vital_sign_work(payload: Any) -> Any:
    return task(3, ONE), transcript_posting(("Observation", payload), finish="[]")


def magnesium_work(payload: Any) -> Any:
    return task(5, ONE), transcript_posting(
        ("MedicationRequest", payload), finish="[1.9]"
    )


def referral_work(payload: Any) -> Any:
    return task(8, ONE), transcript_posting(("ServiceRequest", payload), finish="[]")


def potassium_work(order: Any = K_ORDER, check: Any = CHECK) -> Any:
    return task(9, ONE), transcript_posting(
        ("MedicationRequest", order), ("ServiceRequest", check), finish="[3.2]"
    )


def a1c_work(payload: Any) -> Any:
    return task(10, TWO), transcript_posting(("ServiceRequest", payload), finish="[]")
