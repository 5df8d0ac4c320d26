"""A metric says what it is: signatures derive from settings and can be read back."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring import MetricMean, ScoringError, known_metrics, parse_metric
from scoring.bertscore import BertScore
from scoring.bleu import Bleu
from scoring.citations import CitationF1, CitationRecall
from scoring.tasks import archehr2025, archehr2026, fhir_agentbench, medagentbench

TASKS = [archehr2025, archehr2026, fhir_agentbench, medagentbench]


def test_the_signature_of_citation_f1_is_the_documented_one() -> None:
    assert (
        str(CitationF1())
        == "citation_f1|credit:strict|avg:micro|bs:1000|seed:12345|rev:1"
    )


@pytest.mark.parametrize("name", known_metrics())
def test_every_metric_is_read_back_from_its_signature(name: str) -> None:
    metric = parse_metric(name)
    assert parse_metric(str(metric)) == metric


def test_a_mean_of_means_is_read_back_from_its_signature() -> None:
    mean = MetricMean(
        (CitationF1(bs=10), MetricMean((Bleu(), CitationRecall(credit="lenient"))))
    )
    assert parse_metric(str(mean)) == mean


@given(st.text(max_size=30), st.integers(0, 12), st.integers(0, 10**9))
def test_any_path_survives_the_signature(model: str, layer: int, seed: int) -> None:
    metric = BertScore(model=model, layer=layer, seed=seed)
    assert parse_metric(str(metric)) == metric
    assert parse_metric(str(MetricMean((metric, metric)))) == MetricMean(
        (metric, metric)
    )


def test_a_metric_can_be_written_as_a_call() -> None:
    assert parse_metric("citation_f1(credit=lenient, bs=50)") == CitationF1(
        credit="lenient", bs=50
    )


def test_two_settings_never_share_a_signature() -> None:
    signatures = set()
    for max_order, order in product((1, 2), ("note", "hash:0")):
        metric = Bleu(max_order=max_order, order=order)
        signatures.add(str(metric))
    assert len(signatures) == 4


def test_all_mistakes_in_a_metric_are_listed_with_similar_names() -> None:
    with pytest.raises(ScoringError) as caught:
        parse_metric("citation_f1(credits=strict, bs=many)")
    assert "credits: no such setting (did you mean credit?)" in str(caught.value)
    assert "bs: invalid literal" in str(caught.value)


def test_an_unknown_metric_gets_suggestions_of_similar_names() -> None:
    with pytest.raises(ScoringError, match="did you mean citation_f1"):
        parse_metric("citation_f2")


def test_an_unknown_value_of_a_setting_lists_the_choices() -> None:
    with pytest.raises(ScoringError, match="choose one of strict, lenient"):
        parse_metric("citation_f1(credit=severe)")


def test_a_signature_of_another_revision_is_refused() -> None:
    with pytest.raises(
        ScoringError, match="revision 2 was computed by another release"
    ):
        parse_metric("bleu|rev:2")
