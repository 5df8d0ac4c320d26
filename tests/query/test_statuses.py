"""Which rows are facts, and which of them are current or have ended, by status and dates."""

from typing import Any

import pytest

from archqa.query import Companion, QueryResult, Span, When
from tests.query.clinic import (
    SUBJECT,
    Ask,
    Resource,
    care_plan,
    coded,
    contact,
    order,
    problem,
    resource,
    result,
    status_concept,
)

STATUSES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "medication": (
        order("r", "Aspirin"),
        {
            "active": "current",
            "on-hold": "fact",
            "completed": "ended",
            "stopped": "ended",
            "unknown": "fact",
            "cancelled": "none",
            "draft": "none",
            "entered-in-error": "error",
        },
    ),
    "administration": (
        resource(
            "MedicationAdministration",
            "a",
            medicationCodeableConcept={"text": "Aspirin"},
        ),
        {"completed": "ended", "not-done": "none", "entered-in-error": "error"},
    ),
    "procedure": (
        resource("Procedure", "q", code={"text": "Appendectomy"}),
        {
            "completed": "ended",
            "in-progress": "current",
            "preparation": "none",
            "not-done": "none",
            "entered-in-error": "error",
        },
    ),
    "immunization": (
        {
            **resource("Immunization", "i", vaccineCode={"text": "MMR"}),
            "patient": SUBJECT,
        },
        {"completed": "fact", "not-done": "none", "entered-in-error": "error"},
    ),
    "encounter": (
        contact("e", "AMB", "2020-01-01"),
        {
            "finished": "ended",
            "planned": "none",
            "cancelled": "none",
            "entered-in-error": "error",
        },
    ),
    "care_plan": (
        care_plan("c", "Wound care", "active"),
        {
            "active": "current",
            "completed": "ended",
            "revoked": "ended",
            "on-hold": "fact",
            "draft": "none",
            "entered-in-error": "error",
        },
    ),
    "device": (
        {**resource("Device", "d", type={"text": "Pacemaker"}), "patient": SUBJECT},
        {"active": "current", "inactive": "ended", "entered-in-error": "error"},
    ),
    "supply": (
        resource(
            "SupplyDelivery",
            "s",
            suppliedItem={"itemCodeableConcept": {"text": "Strips"}},
        ),
        {"completed": "ended", "abandoned": "none", "entered-in-error": "error"},
    ),
    "report": (
        resource("DiagnosticReport", "t", code={"text": "Chest X-ray"}),
        {
            "final": "fact",
            "registered": "none",
            "cancelled": "none",
            "entered-in-error": "error",
        },
    ),
    "imaging": (
        resource("ImagingStudy", "m", description="Chest X-ray"),
        {"available": "fact", "cancelled": "none", "entered-in-error": "error"},
    ),
    "coverage": (
        {**resource("Coverage", "v", type={"text": "HMO"}), "beneficiary": SUBJECT},
        {
            "active": "current",
            "cancelled": "ended",
            "draft": "none",
            "entered-in-error": "error",
        },
    ),
    "observation": (
        result("o", "1-1", "Sodium", "2020-01-01T10:00:00Z", (140, "mmol/L")),
        {
            "final": "fact",
            "amended": "fact",
            "corrected": "fact",
            "preliminary": "fact",
            "registered": "none",
            "cancelled": "none",
            "entered-in-error": "error",
        },
    ),
}
CASES = [
    (what, status, meaning)
    for what, (_, meanings) in STATUSES.items()
    for status, meaning in meanings.items()
]


@pytest.mark.parametrize(("what", "status", "meaning"), CASES)
def test_a_status_says_whether_a_row_is_a_fact_and_whether_it_is_current(
    ask: Ask, what: str, status: str, meaning: str
) -> None:
    template, _ = STATUSES[what]
    if "patient" in template or "beneficiary" in template:
        template = {
            name: value for name, value in template.items() if name != "subject"
        }
    if what == "supply":
        template = {**template, "patient": SUBJECT}
    held = [{**template, "status": status}]
    answer = ask(held, what, summary="exists")
    assert answer.answer.values == (meaning in {"fact", "current", "ended"},)
    assert [row.facts["status"] for row in answer.left_out] == [(status,)] * (
        meaning == "none"
    )
    if meaning in {"current", "ended"}:
        for state in ("current", "ended"):
            in_state = ask(held, what, summary="exists", state=state)
            assert in_state.answer.values == (state == meaning,)


@pytest.mark.parametrize(
    ("clinical", "verification", "state"),
    [
        ("active", "confirmed", "current"),
        ("recurrence", "confirmed", "current"),
        ("relapse", "confirmed", "current"),
        ("inactive", "confirmed", "ended"),
        ("remission", "confirmed", "ended"),
        ("resolved", "confirmed", "ended"),
        ("active", "provisional", "current"),
        ("active", "unconfirmed", "current"),
        ("active", "refuted", None),
        ("active", "differential", None),
        ("active", "entered-in-error", None),
    ],
)
@pytest.mark.parametrize("what", ["diagnosis", "allergy"])
def test_a_problem_is_current_by_its_clinical_and_verification_status(
    ask: Ask, what: str, clinical: str, verification: str, state: str | None
) -> None:
    held = problem("c", "Asthma", clinical, verification=verification)
    if what == "allergy":
        held = {**held, "resourceType": "AllergyIntolerance", "patient": SUBJECT}
        del held["subject"]
    for asked in (None, "current", "ended"):
        answer = ask([held], what, state=asked, summary="exists")
        assert answer.answer.values == (
            (asked == state if asked else state is not None),
        )


def test_a_tentative_diagnosis_is_told_as_such(ask: Ask) -> None:
    held = problem("c", "Asthma", verification="provisional")
    answer = ask([held], "diagnosis", returns="name")
    assert "1 of 1 diagnoses are only provisional." in answer.warnings


def test_the_status_of_old_benchmarks_does_not_count(ask: Ask) -> None:
    held = [
        order("r", "Aspirin", "cancelled"),
        problem("c", "Asthma", verification="refuted"),
    ]
    for what in ("medication", "diagnosis"):
        answer = ask(held, what, summary="count", conventions="mimic-ehrsql")
        assert answer.answer.values == (1,)
        assert ask(held, what, summary="count").answer.values == (0,)


@pytest.mark.parametrize(
    ("end", "states"),
    [
        ("2026-11-22", ["ended"]),
        ("2026-11-23", ["current"]),
        ("2026-11-23T11:00:00", ["ended"]),
        ("2027-01-01", ["current"]),
        (None, ["current"]),
    ],
)
def test_an_active_order_ends_with_its_validity(
    ask: Ask, end: str | None, states: list[str]
) -> None:
    period = {"start": "2026-01-01"}
    if end is not None:
        period["end"] = end
    held = order("r", "Aspirin", dispenseRequest={"validityPeriod": period})
    found = []
    for state in ("current", "ended"):
        if ask([held], "medication", state=state, returns="name").chosen:
            found.append(state)
    assert found == states


def test_an_order_that_has_not_begun_is_neither_current_nor_ended(ask: Ask) -> None:
    held = order(
        "r", "Aspirin", dispenseRequest={"validityPeriod": {"start": "2026-12-01"}}
    )
    for state in ("current", "ended"):
        assert ask([held], "medication", state=state, returns="name").chosen == ()


@pytest.mark.parametrize("field", ["intent", "doNotPerform"])
def test_a_proposal_and_a_prohibition_are_no_orders(ask: Ask, field: str) -> None:
    values: dict[str, Any] = {"intent": "proposal", "doNotPerform": True}
    held = {**order("r", "Aspirin"), field: values[field]}
    answer = ask([held], "medication", returns="name")
    assert answer.chosen == ()
    assert names_of_left_out(answer) == ["Aspirin"]


def names_of_left_out(answer: QueryResult) -> list[str]:
    return [row.name for row in answer.left_out]


def test_what_does_not_say_whether_it_is_current_is_told(ask: Ask) -> None:
    held = resource("Condition", "c", code={"text": "Asthma"})
    answer = ask([held], "diagnosis", state="current", returns="name")
    assert answer.chosen == ()
    warning = "1 of 1 diagnoses do not say whether they are current or have ended"
    assert any(text.startswith(warning) for text in answer.warnings)


def test_a_refuted_diagnosis_is_shown_apart(ask: Ask) -> None:
    held = [
        problem("c1", "Diabetes mellitus type 2", verification="refuted"),
        problem("c2", "Asthma", verification="refuted"),
    ]
    answer = ask(held, "diagnosis", concepts=["type 2 diabetes"], summary="exists")
    assert answer.answer.values == (False,)
    assert [row.refs for row in answer.left_out] == [("Condition/c1",)]


@pytest.mark.parametrize(
    "concept", [coded("716186003", "Allergy status"), {"text": "No Known Allergies"}]
)
def test_no_known_allergy_is_no_allergy(ask: Ask, concept: Resource) -> None:
    held = {
        "resourceType": "AllergyIntolerance",
        "id": "a",
        "patient": SUBJECT,
        "clinicalStatus": status_concept("active"),
        "code": concept,
    }
    answer = ask([held], "allergy", summary="exists")
    assert answer.answer.values == (False,)
    assert [row.refs for row in answer.left_out] == [("AllergyIntolerance/a",)]


def test_the_steps_say_where_the_rows_went(ask: Ask) -> None:
    held = [
        order("r1", "Lisinopril", "stopped"),
        order("r2", "Lisinopril", "cancelled"),
        order("r3", "Aspirin"),
    ]
    when = When(spans=(Span(year=2020),))
    asked = {
        "names": ["lisinopril"],
        "state": "current",
        "when": when,
        "returns": "name",
    }
    answer = ask(held, "medication", **asked)
    assert answer.steps == (
        ("prescribed drugs in the record", 3),
        ("of 'lisinopril'", 2),
        ("that are facts, not cancelled, planned, denied or errors", 1),
        ("in 2020", 1),
        ("current", 0),
    )


def test_a_companion_that_was_cancelled_is_none(ask: Ask) -> None:
    held = [order("r1", "Aspirin"), order("r2", "Ibuprofen", "cancelled")]
    companion = Companion(what="medication", names=("ibuprofen",), within="same_day")
    answer = ask(
        held, "medication", names=["aspirin"], companion=companion, returns="name"
    )
    assert answer.chosen == ()
