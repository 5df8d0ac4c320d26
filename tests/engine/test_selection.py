import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archqa.engine.evidence_selection import BETA, SelectionPrior, select_sentences

ALONE = SelectionPrior(expected_f1=0.0, pseudo_sentences=0.0)
probabilities = st.lists(st.floats(0.001, 0.999), min_size=1, max_size=40).map(np.array)


@given(probabilities, st.sampled_from(sorted(BETA)), st.floats(0, 1), st.floats(0, 100))
def test_the_set_is_never_empty_and_holds_the_likeliest(chance, point, f1, mass) -> None:
    chosen = select_sentences(chance, SelectionPrior(f1, mass), point)
    left = np.setdiff1d(np.arange(len(chance)), chosen)
    assert len(chosen) == len(set(chosen.tolist())) >= 1
    assert not len(left) or chance[chosen].min() >= chance[left].max()


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=7).map(np.array))
def test_no_other_set_has_a_greater_expected_f1(chance) -> None:
    def expected(places: tuple[int, ...]) -> float:
        return 2 * chance[list(places)].sum() / (len(places) + chance.sum())

    every = (
        s
        for size in range(1, len(chance) + 1)
        for s in itertools.combinations(range(len(chance)), size)
    )
    assert expected(tuple(select_sentences(chance, ALONE))) == pytest.approx(
        max(expected(places) for places in every)
    )


@given(probabilities, st.floats(0.1, 0.9))
def test_with_a_whole_corpus_counted_in_the_threshold_is_half_its_f1(chance, f1) -> None:
    chosen = set(select_sentences(chance, SelectionPrior(f1, 1e9)).tolist())
    sure = {at for at, value in enumerate(chance) if value > f1 / 2 + 1e-3}
    unsure = {at for at, value in enumerate(chance) if value > f1 / 2 - 1e-3}
    assert sure <= chosen <= (unsure or {int(np.argmax(chance))})


@given(probabilities)
def test_recall_takes_at_least_what_f1_takes_and_precision_at_most(chance) -> None:
    few, some, many = (
        set(select_sentences(chance, ALONE, point).tolist())
        for point in ("precision", "f1", "recall")
    )
    assert few <= some <= many


def test_nothing_is_chosen_from_nothing() -> None:
    assert len(select_sentences(np.array([]), ALONE)) == 0
