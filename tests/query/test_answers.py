"""Answers in the benchmark's format, and for people: with citations that are checked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import Record, Store
from archqa.query import (
    Against,
    Answer,
    Explanation,
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
from tests.query.test_conventions import lab, ward_resources

QUERY = Query(what="lab")
FIRST_SODIUM = Query(what="lab", names=("Sodium",), when=When(position="first"))


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with build_store(tmp_path_factory.mktemp("ward"), ward_resources()) as store:
        yield store


@pytest.mark.parametrize(
    ("kind", "values", "gold", "text"),
    [
        ("yes_no", (True,), "[[1]]", "Yes"),
        ("yes_no", (False,), "[[0]]", "No"),
        ("count", (3,), "[[3]]", "3"),
        ("number", (70.3,), "[[70.3]]", "70.3"),
        ("number", (1 / 3,), "[[0.33333333]]", "0.33333333"),
        ("number", (-2.0,), "[[-2.]]", "-2"),
        ("number", (100.0,), "[[100]]", "100"),
        ("number", (36.8, 36.8), "[[36.8]\n [36.8]]", "[36.8, 36.8]"),
        (
            "time",
            ("2133-12-31 02:00:00",),
            "[['2133-12-31 02:00:00']]",
            "2133-12-31 02:00:00",
        ),
        (
            "time",
            ("2133-12-31 00:00:00",),
            "[['2133-12-31 00:00:00']]",
            "2133-12-31 00:00:00",
        ),
        ("text", ("F",), "[['F']]", "F"),
        ("text", ("5% Dextrose",), "[['5% Dextrose']]", "5% Dextrose"),
        (
            "text",
            ("Sodium Chloride 0.9%  Flush",),
            "[['Sodium Chloride 0.9%  Flush']]",
            "Sodium Chloride 0.9%  Flush",
        ),
        (
            "text",
            ("A, B and C", "D"),
            "[['D']\n ['A, B and C']]",
            '["A, B and C", "D"]',
        ),
        ("text", ("400",), "[['400']]", "400"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_the_benchmarks_and_the_strict_judge_accept_a_correct_answer(
    kind: Any, values: Any, gold: str, text: str, strict: bool
) -> None:
    assert format_agent_answer(result_with(kind, values)) == text
    gold_answer = parse_gold_answer(gold)
    assert is_correct("What was it?", gold_answer, text, no_answer=False, strict=strict)


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
@pytest.mark.parametrize("strict", [False, True])
def test_both_judges_accept_an_answer_without_a_value(
    kind: Any, values: Any, gold: str, strict: bool
) -> None:
    text = format_agent_answer(result_with(kind, values))
    gold_answer = parse_gold_answer(gold)
    assert is_correct(
        "Was there any?", gold_answer, text, no_answer=True, strict=strict
    )


def result_with(kind: Any, values: Any) -> QueryResult:
    answer = Answer(kind=kind, values=values)
    return QueryResult(query=QUERY, patient="p", conventions="x", answer=answer)


def explanation(
    ward: Record, query: Query, conventions: str = "clinical"
) -> Explanation:
    return explain(execute(query, ward, "p", conventions), ward)


def test_each_row_is_cited_and_verified(ward: Store) -> None:
    last = When(position="last")
    query = Query(what="medication", names=("vancomycin",), returns="time", when=last)
    answer = explanation(ward, query)
    sentence = "The time of the last prescribed drug 'vancomycin': 2131-03-10 15:00:00."
    assert answer.sentence == sentence
    assert answer.claims[0].refs == ("MedicationRequest/r2", "Medication/m2")
    assert (
        "- vancomycin (2131-03-10 15:00:00) [MedicationRequest/r2, Medication/m2]"
        in answer.text
    )
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
def test_every_kind_of_answer_is_a_sentence(
    ward: Store, query: Query, sentence: str
) -> None:
    answer = explanation(ward, query)
    assert answer.sentence == sentence
    assert answer.verified
    assert all(claim.refs for claim in answer.claims)


def test_an_answer_without_rows_says_what_was_searched(ward: Store) -> None:
    when = When(spans=(Span(year=2140),), position="first")
    query = Query(what="lab", names=("Lactate",), when=when)
    assert explanation(ward, query).sentence == (
        "No record of lab results 'Lactate' in 2140 was found. "
        "Searched: lab results named 'Lactate': 2 in the record; 0 of them pass every limit."
    )


def test_an_impossible_comparison_is_explained(ward: Store) -> None:
    against = Against(relation="difference", when=When(position="third"))
    query = FIRST_SODIUM.model_copy(update={"against": against})
    answer = explanation(ward, query)
    assert answer.sentence.startswith(
        "This cannot be told from the record: The difference: "
    )
    assert (
        "There is no number for the second of the two that are compared."
        in answer.warnings
    )


def test_the_row_with_the_extreme_value_is_the_first_claim(ward: Store) -> None:
    answer = explanation(ward, Query(what="lab", names=("Glucose",), summary="maximum"))
    assert answer.claims[0].text.startswith("glucose, 300 mg/dL")


def test_more_than_twelve_claims_are_counted(tmp_path: Path) -> None:
    results = []
    for day in range(1, 16):
        results.append(
            lab(f"n{day}", "Sodium", f"2131-01-{day:02}T08:00:00-05:00", day)
        )
    with build_store(tmp_path / "record", [*ward_resources()[:1], *results]) as store:
        answer = explanation(store, Query(what="lab", summary="count"))
    assert (len(answer.claims), answer.omitted) == (12, 3)
    assert answer.text.endswith("- and 3 more")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"valueQuantity": {"value": 131}}, "the value is not in it"),
        ({"effectiveDateTime": "2131-11-30T12:01:00-05:00"}, "the time is not in it"),
        ({"code": {"text": "Salt"}}, "the name is not in it"),
    ],
)
def test_a_claim_that_its_resource_contradicts_is_marked(
    ward: Store, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    result = execute(FIRST_SODIUM, ward, "p")
    resources = ward_resources()
    for resource in resources:
        if resource["id"] == "l8":
            resource.update(change)
    with build_store(tmp_path / "changed", resources) as changed:
        answer = explain(result, changed)
    assert not answer.verified
    assert message in answer.text


def test_a_claim_whose_resource_is_missing_is_marked(
    ward: Store, tmp_path: Path
) -> None:
    result = execute(FIRST_SODIUM, ward, "p")
    with build_store(tmp_path / "only_patient", ward_resources()[:1]) as only_patient:
        answer = explain(result, only_patient)
    assert answer.claims[0].wrong == "Observation/l8 not in the record"
