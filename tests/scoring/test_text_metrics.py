"""BLEU, ROUGE and SARI against other people's code and against a second, independent formulation of our own."""

import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.bleu import Bleu, bleu
from scoring.rouge import Rouge
from scoring.sari import Sari, sari
from scoring.texts import TextSample
from scoring.tokens import tokenize_13a

WORDS = st.lists(
    st.sampled_from(["the", "stone", "was", "found", "in", "duct", "bile", "removed", "1.5", "mm"]),
    max_size=20,
)
SOME_WORDS = WORDS.filter(bool)
CLINICAL = st.text(alphabet=st.sampled_from("ab Z1290.,-|/&;:()'%\"\n<>+_é"), max_size=60)
LINES = st.lists(WORDS, min_size=1, max_size=4).map(
    lambda lines: "\n".join(" ".join(line) for line in lines)
)


@settings(deadline=None, max_examples=300)
@given(CLINICAL)
def test_13a_tokens_equal_sacrebleus(text: str) -> None:
    tokenizer = pytest.importorskip("sacrebleu.tokenizers.tokenizer_13a").Tokenizer13a()
    assert tokenize_13a(text) == tokenizer(text).split()


@settings(deadline=None)
@given(SOME_WORDS, SOME_WORDS)
def test_bleu_of_one_sentence_equals_sacrebleus_unsmoothed(
    prediction: list[str], reference: list[str]
) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    metric = sacrebleu.metrics.BLEU(smooth_method="none", effective_order=False, tokenize="none")
    theirs = metric.sentence_score(" ".join(prediction), [" ".join(reference)]).score
    assert 100 * bleu(prediction, reference) == pytest.approx(theirs, abs=1e-9)


@settings(deadline=None)
@given(LINES, LINES)
@pytest.mark.parametrize("variant", ["1", "2", "L", "Lsum"])
def test_rouge_equals_googles(variant: str, prediction: str, reference: str) -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(
        [f"rouge{variant}"], use_stemmer=False
    )
    theirs = scorer.score(reference, prediction)[f"rouge{variant}"].fmeasure
    ours = Rouge(variant=variant).score(TextSample(prediction, reference))  # type: ignore[arg-type]
    assert ours == pytest.approx(100 * theirs, abs=1e-9)


@settings(deadline=None)
@given(SOME_WORDS, SOME_WORDS, SOME_WORDS)
def test_sari_equals_a_formulation_over_multisets_of_fractions(
    source: list[str], prediction: list[str], reference: list[str]
) -> None:
    parts = [_sari_of_order(source, prediction, reference, order) for order in (1, 2, 3, 4)]
    assert sari(source, prediction, reference) == pytest.approx(float(sum(parts) / 4), abs=1e-12)


def _sari_of_order(
    source: list[str], prediction: list[str], reference: list[str], order: int
) -> Fraction:
    """Exact arithmetic over every n-gram of the three texts, one at a time, from the paper's definitions."""
    s, p, r = (
        Counter(tuple(text[i : i + order]) for i in range(len(text) - order + 1))
        for text in (source, prediction, reference)
    )
    grams = set(s) | set(p) | set(r)
    kept = {gram: min(s[gram], p[gram]) for gram in grams if s[gram] and p[gram]}
    keep_p = _mean([Fraction(min(kept[gram], r[gram]), kept[gram]) for gram in kept])
    keepable = sum(min(s[gram], r[gram]) for gram in grams)
    keep_r = (
        Fraction(sum(min(kept[gram], r[gram]) for gram in kept), keepable)
        if keepable
        else Fraction(1)
    )
    gone = {gram: s[gram] - p[gram] for gram in grams if s[gram] > p[gram]}
    delete = _mean([Fraction(max(gone[gram] - r[gram], 0), gone[gram]) for gram in gone])
    new, wanted = [g for g in grams if p[g] and not s[g]], [g for g in grams if r[g] and not s[g]]
    add_p, add_r = (
        _mean([Fraction(bool(r[gram])) for gram in new]),
        _mean([Fraction(bool(p[gram])) for gram in wanted]),
    )
    return (_f1(keep_p, keep_r) + delete + _f1(add_p, add_r)) / 3


def _mean(values: list[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values) if values else Fraction(1)


def _f1(precision: Fraction, recall: Fraction) -> Fraction:
    return 2 * precision * recall / (precision + recall) if precision + recall else Fraction(0)


@settings(deadline=None)
@given(SOME_WORDS.filter(lambda words: len(words) >= 4))
def test_repeating_the_reference_is_perfect_in_bleu_and_rouge(words: list[str]) -> None:
    case = TextSample(" ".join(words), " ".join(words), "")
    assert Bleu().score(case) == pytest.approx(100)
    assert all(
        Rouge(variant=kind).score(case) == pytest.approx(100) for kind in ("1", "2", "L", "Lsum")
    )  # type: ignore[arg-type]


@settings(deadline=None)
@given(LINES, LINES, LINES)
def test_every_text_score_lies_between_0_and_100(
    prediction: str, reference: str, source: str
) -> None:
    case = TextSample(prediction, reference, source)
    for metric in (Bleu(), Rouge(variant="L"), Rouge(variant="Lsum"), Rouge(variant="2"), Sari()):
        score, ones = metric.tally(case)
        assert 0 <= score <= 100 + 1e-9
        assert ones == 1


def test_bleu_is_0_when_one_order_has_no_match() -> None:
    assert bleu(list("abcd"), list("abce")) == 0
    # 3/4 · 2/3 · 1/2 up to order 3, no brevity penalty.
    assert bleu(list("abcd"), list("abce"), max_order=3) == pytest.approx(
        (3 / 4 * 2 / 3 * 1 / 2) ** (1 / 3)
    )


def test_bleu_punishes_brevity_by_the_exponential_of_the_ratio() -> None:
    assert bleu(list("abcd"), list("abcdefgh")) == pytest.approx(math.exp(1 - 8 / 4))


def test_an_empty_prediction_gets_the_floor_and_not_the_50_that_sari_would_give_for_deleting_everything() -> (
    None
):
    assert Sari().tally(TextSample("", "a stone was found", "what was found?")) == (0, 1)
    assert Bleu().tally(TextSample(" ", "a", "")) == (0, 1)
