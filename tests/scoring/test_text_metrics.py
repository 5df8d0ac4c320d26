"""BLEU, ROUGE and SARI against independent formulations from their papers."""

import math
import re
from collections import Counter
from fractions import Fraction
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.bleu import Bleu
from scoring.rouge import Rouge
from scoring.sari import Sari, sari
from scoring.texts import TextSample
from scoring.tokens import tokenize_13a

WORDS = st.lists(
    st.sampled_from(["the", "stone", "was", "found", "in", "duct", "bile", "removed", "1.5", "mm"]),
    max_size=20,
)
SOME_WORDS = WORDS.filter(bool)
LINES = st.lists(WORDS, min_size=1, max_size=4).map(
    lambda lines: "\n".join(" ".join(line) for line in lines)
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("BP 120/80, HR 72.", ["BP", "120", "/", "80", ",", "HR", "72", "."]),
        ("1,000 mg and 6.2 %", ["1,000", "mg", "and", "6.2", "%"]),
        ("well-known 3-day course", ["well-known", "3", "-", "day", "course"]),
        ("a &lt; b &amp; c", ["a", "<", "b", "&", "c"]),
        ("line\nbreak", ["line", "break"]),
    ],
)
def test_13a_tokens_keep_numbers_and_words_whole(text: str, tokens: list[str]) -> None:
    assert tokenize_13a(text) == tokens


@settings(deadline=None)
@given(SOME_WORDS, SOME_WORDS)
def test_bleu_equals_a_formulation_from_the_paper(
    prediction: list[str], reference: list[str]
) -> None:
    case = TextSample(" ".join(prediction), " ".join(reference))
    assert Bleu().score(case) == pytest.approx(_bleu_from_the_paper(prediction, reference))


def _bleu_from_the_paper(prediction: list[str], reference: list[str]) -> float:
    """Papineni et al. 2002, section 2: clipped precisions of orders 1 to 4, brevity penalty; 0 to 100."""
    log_precisions = []
    for order in (1, 2, 3, 4):
        predicted, expected = _ngrams(prediction, order), _ngrams(reference, order)
        matches = sum(min(count, expected[ngram]) for ngram, count in predicted.items())
        if matches == 0:
            return 0.0
        log_precisions.append(math.log(matches / sum(predicted.values())))
    brevity_penalty = min(1.0, math.exp(1 - len(reference) / len(prediction)))
    return 100 * brevity_penalty * math.exp(sum(log_precisions) / 4)


@settings(deadline=None)
@given(LINES, LINES)
@pytest.mark.parametrize(("variant", "order"), [("1", 1), ("2", 2)])
def test_rouge_of_ngrams_equals_a_formulation_from_the_paper(
    variant: Literal["1", "2"], order: int, prediction: str, reference: str
) -> None:
    predicted = _ngrams(_rouge_words(prediction), order)
    expected = _ngrams(_rouge_words(reference), order)
    matches = (predicted & expected).total()
    score = Rouge(variant=variant).score(TextSample(prediction, reference))
    assert score == pytest.approx(_f_percent(matches, predicted.total(), expected.total()))


@settings(deadline=None)
@given(LINES, LINES)
def test_rouge_l_equals_the_longest_common_subsequence_by_trial(
    prediction: str, reference: str
) -> None:
    predicted, expected = _rouge_words(prediction), _rouge_words(reference)
    matches = _longest_common_subsequence(predicted, expected)
    score = Rouge(variant="L").score(TextSample(prediction, reference))
    assert score == pytest.approx(_f_percent(matches, len(predicted), len(expected)))


def test_rouge_lsum_counts_the_union_of_line_matches() -> None:
    # Lin 2004, section 3.2: w1 w2 and w1 w3 w5 of "w1 w2 w3 w4 w5" have a union of four words.
    case = TextSample("w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", "w1 w2 w3 w4 w5")
    assert Rouge(variant="Lsum").score(case) == pytest.approx(_f_percent(4, 10, 5))


def _ngrams(words: list[str], order: int) -> Counter[tuple[str, ...]]:
    positions = range(len(words) - order + 1)
    return Counter(tuple(words[start : start + order]) for start in positions)


def _rouge_words(text: str) -> list[str]:
    return re.findall("[a-z0-9]+", text.lower())


def _f_percent(matches: int, predicted: int, expected: int) -> float:
    if matches == 0:
        return 0.0
    precision, recall = matches / predicted, matches / expected
    return 100 * 2 * precision * recall / (precision + recall)


def _longest_common_subsequence(left: list[str], right: list[str]) -> int:
    lengths = [0] * (len(right) + 1)
    for word in left:
        previous = list(lengths)
        for column, candidate in enumerate(right, start=1):
            extended = previous[column - 1] + 1 if word == candidate else 0
            lengths[column] = max(extended, previous[column], lengths[column - 1])
    return lengths[-1]


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
    case = TextSample("a b c d", "a b c e")
    assert Bleu().score(case) == 0
    # 3/4 · 2/3 · 1/2 up to order 3, no brevity penalty.
    expected = 100 * (3 / 4 * 2 / 3 * 1 / 2) ** (1 / 3)
    assert Bleu(max_order=3).score(case) == pytest.approx(expected)


def test_bleu_punishes_brevity_by_the_exponential_of_the_ratio() -> None:
    case = TextSample("a b c d", "a b c d e f g h")
    assert Bleu().score(case) == pytest.approx(100 * math.exp(1 - 8 / 4))


def test_an_empty_prediction_gets_the_floor_and_not_the_50_that_sari_would_give_for_deleting_everything() -> (
    None
):
    assert Sari().tally(TextSample("", "a stone was found", "what was found?")) == (0, 1)
    assert Bleu().tally(TextSample(" ", "a", "")) == (0, 1)
