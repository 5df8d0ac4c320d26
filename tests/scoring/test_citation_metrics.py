"""Precision, recall and F1 of citations, by hand and by properties."""

from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring import Metric
from scoring.citations import (
    Average,
    CitationF1,
    CitationPrecision,
    CitationRecall,
    Citations,
    EvidenceF1,
    EvidenceRecall,
    LinkF1,
    Links,
)

IDS = st.frozensets(st.sampled_from("12345678"))


def disjoint_labels(
    cited: frozenset[str],
    essential: frozenset[str],
    supplementary: frozenset[str],
) -> Citations:
    return Citations(cited, essential, supplementary - essential)


CASES = st.builds(disjoint_labels, IDS, IDS, IDS)
FAMILIES = (CitationPrecision, CitationRecall, CitationF1)
STRICT_METRICS = [
    family(credit="strict", avg=avg)
    for family, avg in product(FAMILIES, get_args(Average))
]
LENIENT_METRICS = [
    family(credit="lenient", avg=avg)
    for family, avg in product(FAMILIES, get_args(Average))
]


def value(metric: Metric[Any], cases: list[Any]) -> float:
    return float(metric.value(metric.tallies(cases).sum(axis=0)))


def ids(text: str) -> frozenset[str]:
    return frozenset(text)


TWO = [Citations(ids("12"), ids("1"), ids("2")), Citations(ids("34"), ids("3456"))]


def test_micro_sums_counts_over_cases() -> None:
    # tp 1+2, fp 1+0, fn 0+2: P 3/4, R 3/5, F1 2/3.
    assert value(CitationPrecision(), TWO) == pytest.approx(75)
    assert value(CitationRecall(), TWO) == pytest.approx(60)
    assert value(CitationF1(), TWO) == pytest.approx(200 / 3)


def test_macro_f1_is_the_mean_of_f1s_and_not_the_f1_of_means() -> None:
    # Case 1: P 1/2, R 1, F 2/3. Case 2: P 1, R 1/2, F 2/3.
    assert value(CitationF1(avg="macro"), TWO) == pytest.approx(200 / 3)
    assert value(CitationPrecision(avg="macro"), TWO) == pytest.approx(75)


def test_lenient_of_2025_wants_supplementary_sentences_and_of_2026_forgives_them() -> (
    None
):
    case = [Citations(ids("12"), ids("1"), ids("23"))]
    assert value(CitationRecall(credit="lenient"), case) == pytest.approx(200 / 3)
    assert value(EvidenceRecall(credit="lenient"), case) == pytest.approx(100)
    assert value(EvidenceF1(credit="lenient"), case) == pytest.approx(100)


def test_a_case_with_nothing_to_cite_and_nothing_cited_scores_by_each_tasks_rule() -> (
    None
):
    nothing = Citations(frozenset(), frozenset())
    assert value(CitationF1(avg="macro"), [nothing]) == 0
    assert value(EvidenceF1(avg="macro"), [nothing]) == 100
    assert value(LinkF1(avg="macro"), [Links(frozenset(), frozenset())]) == 0


@given(st.lists(CASES, min_size=1, max_size=6))
def test_scores_lie_between_0_and_100_whatever_the_order_of_cases(
    cases: list[Citations],
) -> None:
    for metric in STRICT_METRICS + LENIENT_METRICS:
        assert 0 <= value(metric, cases) <= 100
        assert value(metric, cases) == pytest.approx(value(metric, cases[::-1]))


@given(st.lists(CASES, min_size=1, max_size=6))
def test_lenient_precision_is_never_below_strict(cases: list[Citations]) -> None:
    averages: tuple[Average, ...] = ("micro", "macro")
    for avg in averages:
        strict = CitationPrecision(credit="strict", avg=avg)
        lenient = CitationPrecision(credit="lenient", avg=avg)
        assert value(lenient, cases) >= value(strict, cases) - 1e-9


@given(
    st.lists(CASES.filter(lambda case: bool(case.essential)), min_size=1, max_size=6)
)
def test_citing_exactly_the_key_is_perfect(cases: list[Citations]) -> None:
    perfect = [case._replace(cited=case.essential) for case in cases]
    for metric in STRICT_METRICS:
        assert value(metric, perfect) == pytest.approx(100)
