"""Answers in the benchmark's format, and rows that their resources confirm."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import Store
from archqa.query import (
    Answer,
    Query,
    QueryResult,
    When,
    execute,
    format_agent_answer,
)
from archqa.query.wording.support import Support
from scoring.fhir_answers import is_correct, parse_gold_answer
from tests.fhir.invented import build_store
from tests.query.test_conventions import ward_resources

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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"valueQuantity": {"value": 131}}, "the value is not in it"),
        ({"effectiveDateTime": "2131-11-30T12:01:00-05:00"}, "the time is not in it"),
        ({"code": {"text": "Salt"}}, "the name is not in it"),
    ],
)
def test_what_a_resource_does_not_confirm_of_a_row_is_named(
    ward: Store, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    [row] = execute(FIRST_SODIUM, ward, "p").chosen
    assert Support(ward).problem(row) == ""
    resources = ward_resources()
    for resource in resources:
        if resource["id"] == "l8":
            resource.update(change)
    with build_store(tmp_path / "changed", resources) as changed:
        assert Support(changed).problem(row) == message


def test_a_missing_resource_does_not_confirm_a_row(ward: Store, tmp_path: Path) -> None:
    [row] = execute(FIRST_SODIUM, ward, "p").chosen
    with build_store(tmp_path / "only_patient", ward_resources()[:1]) as only_patient:
        problem = Support(only_patient).problem(row)
    assert problem == "Observation/l8 not in the record"
