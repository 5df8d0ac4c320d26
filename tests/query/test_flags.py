"""High, low, abnormal, positive: by the interpretation, the reference range or the answer."""

from typing import Any

import pytest

from tests.query.clinic import (
    Ask,
    Resource,
    interpretation,
    reference_range,
    result,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"valueBoolean": True}, "yes"),
        ({"valueInteger": 15}, 15),
        ({"valueCodeableConcept": {"text": "Ex-smoker"}}, "Ex-smoker"),
        (
            {"valueRatio": {"numerator": {"value": 1}, "denominator": {"value": 128}}},
            "1:128",
        ),
        (
            {"valueRange": {"low": {"value": 1}, "high": {"value": 5, "unit": "/HPF"}}},
            "1 to 5 /HPF",
        ),
    ],
)
def test_a_value_of_any_type_is_told(ask: Ask, value: Resource, text: Any) -> None:
    held = result("o", "1-1", "Finding", "2020-01-01T10:00:00Z", None, **value)
    assert ask([held], "observation").answer.values == (text,)


def flagged(**fields: Any) -> Resource:
    return result(
        "o", "1-1", "Sodium", "2020-01-01T10:00:00Z", (140, "mmol/L"), **fields
    )


def in_range(low: float | None, high: float | None, unit: str = "mmol/L") -> Resource:
    return {"referenceRange": reference_range(low, high, unit)}


FLAGS: list[tuple[Resource, set[str]]] = [
    ({"interpretation": interpretation("H")}, {"high", "abnormal"}),
    ({"interpretation": interpretation("HH")}, {"high", "abnormal"}),
    ({"interpretation": interpretation("LL")}, {"low", "abnormal"}),
    ({"interpretation": interpretation("A")}, {"abnormal"}),
    ({"interpretation": interpretation("N")}, {"normal"}),
    ({"interpretation": interpretation("POS")}, {"positive"}),
    (in_range(135, 145), {"normal"}),
    (in_range(None, 135), {"high", "abnormal"}),
    (in_range(145, None), {"low", "abnormal"}),
    (in_range(145, 150, "mg/dL"), set()),
    (
        {"interpretation": interpretation("A"), **in_range(None, 135)},
        {"high", "abnormal"},
    ),
    ({"interpretation": interpretation("A"), **in_range(135, 145)}, {"abnormal"}),
    ({"interpretation": interpretation("N"), **in_range(None, 135)}, {"normal"}),
    ({}, set()),
]


@pytest.mark.parametrize(("fields", "flags"), FLAGS)
def test_a_result_is_flagged_by_its_interpretation_or_else_its_range(
    ask: Ask, fields: Resource, flags: set[str]
) -> None:
    found = set()
    for flag in ("high", "low", "abnormal", "normal", "positive", "negative"):
        if ask([flagged(**fields)], "observation", flag=flag).chosen:
            found.add(flag)
    assert found == flags


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("Negative", "negative"),
        ("NEGATIVE FOR C. DIFFICILE TOXIN", "negative"),
        ("Not detected", "negative"),
        ("Non-reactive", "negative"),
        ("Positive for C. difficile", "positive"),
        ("Detected", "positive"),
        ("Reactive", "positive"),
    ],
)
def test_an_answer_in_words_is_positive_or_negative(
    ask: Ask, text: str, flag: str
) -> None:
    held = [result("o", "1-1", "C. difficile toxin", "2020-01-01T10:00:00Z", text)]
    for asked in ("positive", "negative"):
        answer = ask(held, "observation", flag=asked, summary="exists")
        assert answer.answer.values == (asked == flag,)


@pytest.mark.parametrize(
    ("comparator", "bounds", "flag"),
    [("<", (150, None), "low"), (">", (None, 130), "high"), ("<", (0, 200), "normal")],
)
def test_a_bound_is_flagged_where_it_is_certain(
    ask: Ask, comparator: str, bounds: tuple[Any, Any], flag: str
) -> None:
    held = flagged(**in_range(*bounds))
    held["valueQuantity"]["comparator"] = comparator
    assert ask([held], "observation", returns="flag").answer.values == (flag,)


def test_a_range_of_some_patients_only_flags_nothing(ask: Ask) -> None:
    ranges = [
        {**reference_range(1, 2, "mmol/L")[0], "appliesTo": [{"text": "men"}]},
        {**reference_range(1, 3, "mmol/L")[0], "appliesTo": [{"text": "women"}]},
    ]
    answer = ask([flagged(referenceRange=ranges)], "observation", flag="high")
    assert answer.chosen == ()
    assert "have neither an interpretation nor a reference range" in answer.warnings[0]
