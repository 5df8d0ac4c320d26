"""What counts at exactly the time of a question, and a moment before and after it."""

from pathlib import Path

import pytest

import archqa
from tests.fhir.invented import build_store, codeable_concept, observation, patient
from tests.query.clinic import LOINC, RXNORM, Resource, coded, problem, resource

RESULTS = {
    "before": "2024-03-01T09:00:00Z",
    "at": "2024-03-01T10:00:00Z",
    "after": "2024-03-01T10:00:01Z",
    "last-of-day": "2024-03-01T23:59:59Z",
    "next-day": "2024-03-02T00:00:00Z",
}


def _glucose(name: str, time: str) -> Resource:
    code = codeable_concept("2339-0", "Glucose", LOINC)
    quantity = {"value": 100, "unit": "mg/dL"}
    return observation(name, "p", code, time, valueQuantity=quantity)


def _aspirin() -> Resource:
    """Taken from ten o'clock on 1 March to ten o'clock on 5 March; its status says nothing."""
    period = {"start": "2024-03-01T10:00:00Z", "end": "2024-03-05T10:00:00Z"}
    drug = coded("1191", "Aspirin", RXNORM)
    return resource(
        "MedicationStatement",
        "aspirin",
        status="unknown",
        medicationCodeableConcept=drug,
        effectivePeriod=period,
    )


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pneumonia = problem(
        "pneumonia",
        "Pneumonia",
        "resolved",
        onsetDateTime="2024-02-01",
        abatementDateTime="2024-03-01T10:00:00Z",
    )
    resources = [patient("p"), _aspirin(), pneumonia]
    for name, time in RESULTS.items():
        resources.append(_glucose(name, time))
    with build_store(tmp_path_factory.mktemp("times"), resources) as store:
        return store.path


def _ask(question: str, record: Path, now: str) -> archqa.Answer:
    return archqa.ask(question, patient="p", record=record, now=now)


def _cited(answer: archqa.Answer) -> set[str]:
    return {name.partition("/")[2] for line in answer.lines for name in line.citations}


@pytest.mark.parametrize(
    ("now", "cited", "left_out"),
    [
        ("2024-03-01T09:59:59", {"before"}, 4),
        ("2024-03-01T10:00:00", {"before", "at"}, 3),
        ("2024-03-01T10:00:01", {"before", "at", "after"}, 2),
        # A date without a time of day is the whole day.
        ("2024-03-01", {"before", "at", "after", "last-of-day"}, 1),
    ],
)
def test_a_result_of_exactly_the_time_asked_counts_and_a_later_one_is_left_out(
    record: Path, now: str, cited: set[str], left_out: int
) -> None:
    answer = _ask("When was glucose measured?", record, now)
    assert _cited(answer) == cited
    [remark] = (remark for remark in answer.remarks if remark.startswith("Left out"))
    assert f" {left_out} result" in remark


@pytest.mark.parametrize(
    ("now", "answer"),
    [
        ("2024-03-01T09:59:59", ""),
        ("2024-03-01T10:00:00", "Yes"),
        ("2024-03-05T09:59:59", "Yes"),
        ("2024-03-05T10:00:00", "No"),
    ],
)
def test_a_drug_is_taken_from_the_moment_of_its_start_until_that_of_its_end(
    record: Path, now: str, answer: str
) -> None:
    opening = _ask("Is she taking aspirin?", record, now)
    begins = [
        line.text.partition(":")[0].partition(",")[0] for line in opening.lines[:1]
    ]
    assert begins == ([answer] if answer else [])


@pytest.mark.parametrize(
    ("now", "shown", "hidden"),
    [
        ("2024-03-01T09:59:59", "before", "at"),
        ("2024-03-01T10:00:00", "at", "after"),
        ("2024-03-01T10:00:01", "after", "last-of-day"),
    ],
)
def test_a_brief_shows_a_result_of_exactly_its_time_and_no_later_one(
    record: Path, now: str, shown: str, hidden: str
) -> None:
    brief = archqa.brief(patient="p", record=record, now=now, sections=["labs"])
    evidence = {row.id for row in brief.evidence}
    assert f"Observation/{shown}" in evidence
    assert f"Observation/{hidden}" not in evidence


@pytest.mark.parametrize(
    ("now", "is_shown"), [("2024-03-01T09:59:59", False), ("2024-03-01T10:00:00", True)]
)
def test_a_problem_is_resolved_from_the_moment_of_its_end(
    record: Path, now: str, *, is_shown: bool
) -> None:
    brief = archqa.brief(patient="p", record=record, now=now, sections=["resolved"])
    assert ("Pneumonia" in brief.text) is is_shown
