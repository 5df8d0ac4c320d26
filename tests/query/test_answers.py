"""Answers as the benchmark wants them, and as people do: with citations that are checked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import Record, Store
from archqa.query import (
    Against,
    Answer,
    Query,
    QueryResult,
    Span,
    When,
    execute,
    explain,
    format_agent_answer,
)
from scoring.fhir_answers import is_correct, parse_gold_answer
from tests.fhir.invented import build_store
from tests.query.test_conventions import lab, the_ward

QUERY = Query(what="lab")


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with build_store(tmp_path_factory.mktemp("ward"), the_ward()) as store:
        yield store


@pytest.mark.parametrize(
    ("kind", "values", "gold", "printed"),
    [
        ("yes_no", (True,), "[[1]]", "Yes"),
        ("yes_no", (False,), "[[0]]", "No"),
        ("count", (3,), "[[3]]", "3"),
        ("number", (70.3,), "[[70.3]]", "70.3"),
        ("number", (1 / 3,), "[[0.33333333]]", "0.33333333"),
        ("number", (-2.0,), "[[-2.]]", "-2"),
        ("number", (100.0,), "[[100]]", "100"),
        ("number", (36.8, 36.8), "[[36.8]\n [36.8]]", "[36.8, 36.8]"),
        ("time", ("2133-12-31 02:00:00",), "[['2133-12-31 02:00:00']]", "2133-12-31 02:00:00"),
        ("time", ("2133-12-31 00:00:00",), "[['2133-12-31 00:00:00']]", "2133-12-31 00:00:00"),
        ("text", ("F",), "[['F']]", "F"),
        ("text", ("5% Dextrose",), "[['5% Dextrose']]", "5% Dextrose"),
        (
            "text",
            ("Sodium Chloride 0.9%  Flush",),
            "[['Sodium Chloride 0.9%  Flush']]",
            "Sodium Chloride 0.9%  Flush",
        ),
        ("text", ("A, B and C", "D"), "[['D']\n ['A, B and C']]", '["A, B and C", "D"]'),
        ("text", ("400",), "[['400']]", "400"),
    ],
)
def test_the_official_and_the_strict_judge_accept_what_is_printed(
    kind: Any, values: Any, gold: str, printed: str
) -> None:
    findings = QueryResult(
        query=QUERY, patient="p", conventions="x", answer=Answer(kind=kind, values=values)
    )
    assert format_agent_answer(findings) == printed
    for strict in (False, True):
        assert is_correct(
            "What was it?", parse_gold_answer(gold), printed, no_answer=False, strict=strict
        )


@pytest.mark.parametrize(
    ("kind", "values", "gold"),
    [
        ("text", (), "[]"),
        ("number", (None,), "[[None]]"),
        ("yes_no", (None,), "[[None]]"),
        ("count", (0,), "[[0]]"),
        ("yes_no", (False,), "[[0]]"),
    ],
)
def test_nothing_is_told_as_the_gold_has_it(kind: Any, values: Any, gold: str) -> None:
    findings = QueryResult(
        query=QUERY, patient="p", conventions="x", answer=Answer(kind=kind, values=values)
    )
    for strict in (False, True):
        assert is_correct(
            "Was there any?",
            parse_gold_answer(gold),
            format_agent_answer(findings),
            no_answer=True,
            strict=strict,
        )


def explanation(ward: Record, query: Query, conventions: str = "clinical") -> Any:
    return explain(execute(query, ward, "p", conventions), ward)


def test_each_row_is_cited_and_verified(ward: Store) -> None:
    answer = explanation(
        ward,
        Query(what="medication", names=("vancomycin",), returns="time", when=When(position="last")),
    )
    assert (
        answer.sentence == "The time of the last prescribed drug 'vancomycin': 2131-03-10 15:00:00."
    )
    assert answer.claims[0].refs == ("MedicationRequest/r2", "Medication/m2")
    assert "- vancomycin (2131-03-10 15:00:00) [MedicationRequest/r2, Medication/m2]" in answer.text
    assert answer.verified


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (
            Query(what="lab", names=("Lactate",), summary="exists"),
            "Yes, 2 rows found for lab results 'Lactate'.",
        ),
        (
            Query(what="lab", names=("Lactate",), summary="count"),
            "The number of lab results 'Lactate': 2.",
        ),
        (
            Query(what="lab", names=("Glucose",), summary="maximum", per="year"),
            "The maximum value of lab results 'Glucose', for each year: 2131: 200; 2132: 300 mg/dL.",
        ),
        (
            Query(what="patient", returns="sex"),
            "The sex of the patient: female.",
        ),
        (
            Query(
                what="lab",
                names=("Sodium",),
                when=When(position="last"),
                against=Against(relation="greater", when=When(position="first")),
            ),
            "Yes: Sodium, 140 mg/dL (2131-12-01 12:00:00) against Sodium, 130 mg/dL (2131-11-30 12:00:00).",
        ),
        (
            Query(what="vital", names=("temperature",), summary="minimum"),
            "The minimum value of charted measurements 'temperature': 37 °C.",
        ),
    ],
)
def test_every_kind_of_answer_is_a_sentence(ward: Store, query: Query, sentence: str) -> None:
    answer = explanation(ward, query)
    assert answer.sentence == sentence
    assert answer.verified
    assert all(claim.refs for claim in answer.claims)


def test_no_record_says_what_was_searched(ward: Store) -> None:
    query = Query(
        what="lab", names=("Lactate",), when=When(spans=(Span(year=2140),), position="first")
    )
    assert explanation(ward, query).sentence == (
        "No record of lab results 'Lactate' in 2140 was found. "
        "Searched: lab results named 'Lactate': 0 in the record; 0 of them pass every limit."
    )


def test_what_cannot_be_compared_is_said(ward: Store) -> None:
    against = Against(relation="difference", when=When(position="third"))
    answer = explanation(
        ward, Query(what="lab", names=("Sodium",), when=When(position="first"), against=against)
    )
    assert answer.sentence.startswith("This cannot be told from the record: The difference: ")
    assert "There is no number for the second of the two that are compared." in answer.warnings


def test_the_row_with_the_extreme_value_is_told_first_and_the_rest_counted(ward: Store) -> None:
    answer = explanation(ward, Query(what="lab", names=("Glucose",), summary="maximum"))
    assert answer.claims[0].text.startswith("glucose, 300 mg/dL")


def test_more_than_twelve_claims_are_counted(tmp_path: Path) -> None:
    many = [lab(f"n{at}", "Sodium", f"2131-01-{at + 1:02}T08:00:00-05:00", at) for at in range(15)]
    with build_store(tmp_path / "many", [*the_ward()[:1], *many]) as store:
        answer = explanation(store, Query(what="lab", summary="count"))
    assert (len(answer.claims), answer.omitted) == (12, 3)
    assert answer.text.endswith("- and 3 more")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"valueQuantity": {"value": 131}}, "the value is not in it"),
        ({"effectiveDateTime": "2131-11-30T12:01:00-05:00"}, "the time is not in it"),
        ({"code": {"text": "Salt"}}, "the name is not in it"),
    ],
)
def test_a_citation_that_does_not_hold_is_told(
    ward: Store, change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    findings = execute(Query(what="lab", names=("Sodium",), when=When(position="first")), ward, "p")

    changed = {
        each["id"]: {**each, **(change if each["id"] == "l8" else {})} for each in the_ward()
    }
    with build_store(tmp_path / "changed", changed.values()) as later:
        answer = explain(findings, later)
    assert not answer.verified
    assert said in answer.text


def test_a_citation_of_nothing_is_told(
    ward: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    findings = execute(Query(what="lab", names=("Sodium",), when=When(position="first")), ward, "p")
    with build_store(tmp_path_factory.mktemp("other"), the_ward()[:1]) as other:
        answer = explain(findings, other)
    assert answer.claims[0].wrong == "Observation/l8 not in the record"
