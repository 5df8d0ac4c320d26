"""BLEU, ROUGE and SARI against independent formulations from their papers."""

import math
import re
from collections import Counter
from fractions import Fraction
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU

from scoring.bleu import Bleu
from scoring.rouge import Rouge
from scoring.sari import Sari, sari
from scoring.texts import TextSample, tokenize_13a

WORDS = st.lists(
    st.sampled_from(
        ["the", "stone", "was", "found", "in", "duct", "bile", "removed", "1.5", "mm"]
    ),
    max_size=20,
)
NONEMPTY_WORDS = WORDS.filter(bool)
LINES = st.lists(WORDS, min_size=1, max_size=4).map(
    lambda lines: "\n".join(" ".join(line) for line in lines)
)

AWKWARD_TEXTS = st.lists(
    st.sampled_from(
        [
            *" .,-5a\n&;<~'\u00a0\u2028\t\r\x85é",
            "&quot;",
            "&amp;lt;",
            "<skipped>",
            "-\n",
            "1,000",
            "b c",
        ]
    ),
    max_size=30,
).map("".join)


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
    assert list(tokenize_13a(text)) == tokens


@settings(max_examples=500)
@given(AWKWARD_TEXTS)
def test_13a_tokens_are_what_the_library_says_of_the_whole_text(text: str) -> None:
    library = BLEU(tokenize="13a", force=True).tokenizer
    assert list(tokenize_13a(text)) == library(text).split()


@settings(max_examples=300)
@given(AWKWARD_TEXTS, AWKWARD_TEXTS)
def test_bleu_equals_what_the_library_says_of_the_whole_texts(
    shared: str, rest: str
) -> None:
    prediction, reference = shared + rest, shared
    library = BLEU(smooth_method="none", tokenize="13a", force=True)
    expected = library.corpus_score([prediction], [[reference]]).score
    assert Bleu().score(TextSample(prediction, reference)) == expected


@given(NONEMPTY_WORDS, NONEMPTY_WORDS)
def test_bleu_equals_a_formulation_from_the_paper(
    prediction: list[str], reference: list[str]
) -> None:
    case = TextSample(" ".join(prediction), " ".join(reference))
    assert Bleu().score(case) == pytest.approx(
        _bleu_from_the_paper(prediction, reference)
    )


def _bleu_from_the_paper(prediction: list[str], reference: list[str]) -> float:
    """Papineni et al. 2002, section 2: clipped precisions of orders 1 to 4 and brevity penalty."""
    log_precisions = []
    for order in (1, 2, 3, 4):
        predicted = _ngrams(prediction, order)
        expected = _ngrams(reference, order)
        matches = 0
        for ngram, count in predicted.items():
            matches += min(count, expected[ngram])
        if matches == 0:
            return 0.0
        precision = matches / sum(predicted.values())
        log_precisions.append(math.log(precision))
    brevity_penalty = min(1.0, math.exp(1 - len(reference) / len(prediction)))
    return 100 * brevity_penalty * math.exp(sum(log_precisions) / 4)


@given(LINES, LINES)
@pytest.mark.parametrize(("variant", "order"), [("1", 1), ("2", 2)])
def test_rouge_of_ngrams_equals_a_formulation_from_the_paper(
    variant: Literal["1", "2"], order: int, prediction: str, reference: str
) -> None:
    predicted = _ngrams(_rouge_words(prediction), order)
    expected = _ngrams(_rouge_words(reference), order)
    matches = (predicted & expected).total()
    score = Rouge(variant=variant).score(TextSample(prediction, reference))
    assert score == pytest.approx(
        _f_percent(matches, predicted.total(), expected.total())
    )


@given(LINES, LINES)
def test_rouge_l_equals_the_longest_common_subsequence_by_trial(
    prediction: str, reference: str
) -> None:
    predicted, expected = _rouge_words(prediction), _rouge_words(reference)
    matches = _longest_common_subsequence(predicted, expected)
    score = Rouge(variant="L").score(TextSample(prediction, reference))
    assert score == pytest.approx(_f_percent(matches, len(predicted), len(expected)))


@given(LINES, LINES)
@pytest.mark.parametrize("variant", ["1", "2", "L", "Lsum"])
def test_rouge_equals_what_the_library_says_of_the_whole_texts(
    variant: Literal["1", "2", "L", "Lsum"], prediction: str, reference: str
) -> None:
    name = f"rouge{variant}"
    expected = RougeScorer([name]).score(reference, prediction)[name].fmeasure
    score = Rouge(variant=variant).score(TextSample(prediction, reference))
    assert score == pytest.approx(100 * expected, abs=1e-12)


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
    precision = matches / predicted
    recall = matches / expected
    return 100 * 2 * precision * recall / (precision + recall)


def _longest_common_subsequence(prediction: list[str], reference: list[str]) -> int:
    """The length of the longest common subsequence, by dynamic programming."""
    lengths = [0] * (len(reference) + 1)
    for predicted_word in prediction:
        previous = list(lengths)
        for column, reference_word in enumerate(reference, start=1):
            is_match = predicted_word == reference_word
            extended = previous[column - 1] + 1 if is_match else 0
            lengths[column] = max(extended, previous[column], lengths[column - 1])
    return lengths[-1]


@given(NONEMPTY_WORDS, NONEMPTY_WORDS, NONEMPTY_WORDS)
def test_sari_equals_a_formulation_over_multisets_of_fractions(
    source: list[str], prediction: list[str], reference: list[str]
) -> None:
    parts = [
        _sari_of_order(source, prediction, reference, order) for order in (1, 2, 3, 4)
    ]
    expected = float(sum(parts) / 4)
    assert sari(source, prediction, reference) == pytest.approx(expected, abs=1e-12)


def _sari_of_order(
    source: list[str], prediction: list[str], reference: list[str], order: int
) -> Fraction:
    """Exact arithmetic over every n-gram of the three texts, from the paper's definitions."""
    keep_precisions: list[Fraction] = []
    deletion_precisions: list[Fraction] = []
    addition_precisions: list[Fraction] = []
    addition_recalls: list[Fraction] = []
    correctly_retained = 0
    retainable = 0
    in_source = _ngrams(source, order)
    in_prediction = _ngrams(prediction, order)
    in_reference = _ngrams(reference, order)
    for ngram in {*in_source, *in_prediction, *in_reference}:
        source_count = in_source[ngram]
        prediction_count = in_prediction[ngram]
        reference_count = in_reference[ngram]
        retained = min(source_count, prediction_count)
        deleted = source_count - prediction_count
        retainable += min(source_count, reference_count)
        if retained:
            correct = min(retained, reference_count)
            correctly_retained += correct
            keep_precisions.append(Fraction(correct, retained))
        if deleted > 0:
            correct = max(deleted - reference_count, 0)
            deletion_precisions.append(Fraction(correct, deleted))
        if prediction_count and not source_count:
            addition_precisions.append(Fraction(reference_count > 0))
        if reference_count and not source_count:
            addition_recalls.append(Fraction(prediction_count > 0))
    keep_recall = (
        Fraction(correctly_retained, retainable) if retainable else Fraction(1)
    )
    keep = _f1(_mean(keep_precisions), keep_recall)
    add = _f1(_mean(addition_precisions), _mean(addition_recalls))
    return (keep + _mean(deletion_precisions) + add) / 3


def _mean(values: list[Fraction]) -> Fraction:
    if not values:
        return Fraction(1)
    return sum(values, Fraction(0)) / len(values)


def _f1(precision: Fraction, recall: Fraction) -> Fraction:
    if precision + recall == 0:
        return Fraction(0)
    return 2 * precision * recall / (precision + recall)


@given(NONEMPTY_WORDS.filter(lambda words: len(words) >= 4))
def test_repeating_the_reference_is_perfect_in_bleu_and_rouge(words: list[str]) -> None:
    case = TextSample(" ".join(words), " ".join(words), "")
    assert Bleu().score(case) == pytest.approx(100)
    for metric in (Rouge(variant="1"), Rouge(variant="2"), Rouge(variant="L"), Rouge()):
        assert metric.score(case) == pytest.approx(100)


@given(LINES, LINES, LINES)
def test_every_text_score_lies_between_0_and_100(
    prediction: str, reference: str, source: str
) -> None:
    case = TextSample(prediction, reference, source)
    for metric in (
        Bleu(),
        Rouge(variant="L"),
        Rouge(variant="Lsum"),
        Rouge(variant="2"),
        Sari(),
    ):
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


def test_an_empty_prediction_gets_the_floor_also_in_sari_where_deleting_all_would_score_50() -> (
    None
):
    assert Sari().tally(TextSample("", "a stone was found", "what was found?")) == (
        0,
        1,
    )
    assert Bleu().tally(TextSample(" ", "a", "")) == (0, 1)
