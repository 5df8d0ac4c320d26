"""Queries: validation, their text, and the schema that a model fills."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from archqa.llm.structured import Rejected, parse_output, strict_schema
from archqa.query import (
    Against,
    Ago,
    Companion,
    Query,
    Span,
    ValueTest,
    Visit,
    When,
    query_text,
)

TWO_DAYS = Span(relation="since", ago=Ago(count=2, unit="day"))
FIRST_ICU = Visit(kind="icu", which="first")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"what": "lab", "returns": "route"}, "a lab has no route"),
        (
            {"what": "medication", "returns": "name", "summary": "sum"},
            "name is no number",
        ),
        (
            {"what": "medication", "returns": "name", "summary": "maximum"},
            "name has no maximum",
        ),
        ({"what": "lab", "per": "day"}, "per needs"),
        (
            {"what": "patient", "returns": "age", "summary": "maximum", "per": "day"},
            "a patient has no time",
        ),
        ({"what": "lab", "routes": ("PO",)}, "routes does not go with lab"),
        (
            {"what": "icu_stay", "returns": "time", "names": ("x",)},
            "names does not go with icu_stay",
        ),
        ({"what": "lab", "grew": True}, "grew does not go with lab"),
        ({"what": "lab", "now": "tomorrow"}, "is no time"),
        (
            {"what": "lab", "summary": "exists", "against": {"relation": "less"}},
            "against compares single numbers",
        ),
        ({"what": "lab", "when": {"spans": [{"month": 3}]}}, "exactly one of"),
        (
            {"what": "lab", "when": {"spans": [{"year": 2131, "years_back": 0}]}},
            "exactly one of",
        ),
        (
            {"what": "lab", "when": {"spans": [{"year": 2131, "day": 3}]}},
            "a day needs its month",
        ),
        (
            {"what": "lab", "when": {"spans": [{"days_back": 0, "month": 3}]}},
            "a month needs its year",
        ),
        (
            {"what": "lab", "when": {"spans": [{"year": 2131, "clock": "21:00"}]}},
            "needs its day",
        ),
        (
            {"what": "lab", "when": {"spans": [{"days_back": 0, "clock": "25:00"}]}},
            "no time of day",
        ),
        ({"what": "aches"}, "Input should be"),
        ({"what": "lab", "colour": "red"}, "Extra inputs"),
    ],
)
def test_contradictory_fields_are_refused_with_a_reason(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        Query.model_validate(fields)
    with pytest.raises(Rejected, match=message):
        parse_output(json.dumps(fields), Query)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (
            Query(
                what="lab",
                names=("Glucose",),
                when=When(visit=FIRST_ICU, position="second_to_last"),
            ),
            "The value of the second to last lab result 'Glucose' during the first ICU stay.",
        ),
        (
            Query(what="medication", returns="name", summary="count_distinct"),
            "How many different names do prescribed drugs have?",
        ),
        (
            Query(
                what="organism",
                specimens=("URINE",),
                summary="exists",
                when=When(position="first"),
            ),
            "Is there the first organism grown in a microbiology test on 'URINE'?",
        ),
        (
            Query(
                what="vital",
                names=("Daily Weight",),
                summary="average",
                per="day",
                now="2131-12-31T23:59:00",
            ),
            "The average value of charted measurements 'Daily Weight', for each day (the clock stands at "
            "2131-12-31 23:59:00).",
        ),
        (
            Query(
                what="vital",
                names=("Heart Rate",),
                value=ValueTest(comparison="greater", number=100),
                returns="time",
                when=When(
                    spans=(Span(years_back=0, month=3, day=12),), position="last"
                ),
            ),
            "The time of the last charted measurement 'Heart Rate' with a value greater than 100 on 12 March of this "
            "year.",
        ),
        (
            Query(
                what="lab",
                names=("pH",),
                when=When(position="last"),
                against=Against(relation="less", when=When(position="first")),
            ),
            "Is the value of the last lab result 'pH' less than that of those first measured?",
        ),
        (
            Query(
                what="medication",
                returns="name",
                companion=Companion(
                    what="diagnosis",
                    names=("Sepsis",),
                    order="after",
                    within="same_day",
                ),
            ),
            "The name of prescribed drugs after and on the same day as diagnoses 'Sepsis'.",
        ),
        (
            Query(what="output", summary="sum", when=When(spans=(TWO_DAYS,))),
            "The sum value of outputs since 2 days ago.",
        ),
    ],
)
def test_a_query_reads_as_a_sentence(query: Query, sentence: str) -> None:
    assert query_text(query) == sentence


def test_the_schema_is_strict_at_every_depth() -> None:
    nodes: list[Any] = [strict_schema(Query)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["required"] == list(node["properties"])
                assert node["additionalProperties"] is False
            nodes += node.values()
        elif isinstance(node, list):
            nodes += node


def test_the_json_of_a_query_is_read_as_the_same_query() -> None:
    yesterday_evening = Span(days_back=1, clock="21:00")
    when = When(visit=FIRST_ICU, spans=(yesterday_evening,))
    query = Query(what="lab", names=("pH",), when=when)
    assert parse_output(query.model_dump_json(), Query) == query
