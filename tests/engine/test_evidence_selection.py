import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archqa.engine.evidence_selection import BETA, SelectionPrior, select_sentences

NO_PRIOR = SelectionPrior(expected_f1=0.0, pseudo_sentences=0.0)
probabilities = st.lists(st.floats(0.001, 0.999), min_size=1, max_size=40).map(np.array)


@given(probabilities, st.sampled_from(sorted(BETA)), st.floats(0, 1), st.floats(0, 100))
def test_the_set_is_never_empty_and_has_the_most_probable_sentences(
    values, point, f1, mass
) -> None:
    chosen = select_sentences(values, SelectionPrior(f1, mass), point)
    rejected = np.setdiff1d(np.arange(len(values)), chosen)
    assert len(chosen) == len(set(chosen.tolist())) >= 1
    assert not len(rejected) or values[chosen].min() >= values[rejected].max()


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=7).map(np.array))
def test_no_set_has_a_higher_expected_f1_than_the_selected_one(values) -> None:
    def expected(indices: tuple[int, ...]) -> float:
        return 2 * values[list(indices)].sum() / (len(indices) + values.sum())

    best = 0.0
    for size in range(1, len(values) + 1):
        for subset in itertools.combinations(range(len(values)), size):
            best = max(best, expected(subset))
    selected = tuple(select_sentences(values, NO_PRIOR))
    assert expected(selected) == pytest.approx(best)


@given(probabilities, st.floats(0.1, 0.9))
def test_with_a_large_corpus_as_prior_the_threshold_is_half_its_f1(values, f1) -> None:
    chosen = set(select_sentences(values, SelectionPrior(f1, 1e9)).tolist())
    sure = {index for index, value in enumerate(values) if value > f1 / 2 + 1e-3}
    unsure = {index for index, value in enumerate(values) if value > f1 / 2 - 1e-3}
    assert sure <= chosen <= (unsure or {int(np.argmax(values))})


@given(probabilities)
def test_recall_selects_a_superset_of_f1_and_precision_a_subset(values) -> None:
    precise = select_sentences(values, NO_PRIOR, "precision").tolist()
    balanced = select_sentences(values, NO_PRIOR, "f1").tolist()
    complete = select_sentences(values, NO_PRIOR, "recall").tolist()
    assert set(precise) <= set(balanced) <= set(complete)


def test_without_sentences_none_is_selected() -> None:
    assert len(select_sentences(np.array([]), NO_PRIOR)) == 0
