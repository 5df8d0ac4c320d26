"""Training of the answer finder's network, on a network of two layers."""

import copy
import random
from typing import Any

import pytest

from training import answer_finder, loading
from training.answer_finder import AnswerWindow
from training.corpora import ShortQuestion
from training.regression import no_progress

from .small_networks import CONFIG, EVIDENCE, IRRELEVANT

pytestmark = pytest.mark.heavy
ANSWERED = ShortQuestion(
    "note", "Why was apixaban stopped?", (IRRELEVANT, EVIDENCE), groups=((1,),)
)
TEMPTING = ShortQuestion(
    "note", "apixaban dose?", (IRRELEVANT, EVIDENCE), groups=(), tempting=(1,)
)
LONG = ", ".join(f"drug number {number} five mg daily" for number in range(40)) + "."


def windows(question: ShortQuestion) -> list[AnswerWindow]:
    random.seed(0)
    return answer_finder.sample_windows(question, 320)


def test_a_window_knows_which_of_its_spans_answer() -> None:
    (window,) = windows(ANSWERED)
    assert window.groups == ((1,),)
    assert window.answering == {1}
    assert window.certain == (0, 1)


def test_which_piece_of_a_long_sentence_answers_is_not_known() -> None:
    question = ANSWERED._replace(sentences=(IRRELEVANT, LONG))
    for window in windows(question):
        pieces = {span for group in window.groups for span in group}
        assert len(pieces) > 1
        assert not pieces & set(window.certain)


def test_a_note_that_does_not_answer_has_no_group() -> None:
    (window,) = windows(TEMPTING)
    assert (window.groups, window.answering) == ((), frozenset())


def test_training_lowers_the_loss_and_leaves_frozen_layers(network: Any) -> None:
    untrained = copy.deepcopy(network)
    batch = [*windows(ANSWERED), *windows(TEMPTING)]
    config = CONFIG._replace(epochs=12, batch_size=2, learning_rate=1e-3)
    trained = answer_finder.train_network(
        copy.deepcopy(network), (ANSWERED, TEMPTING), config, progress=no_progress
    )
    before = float(answer_finder.batch_loss(untrained.eval(), batch).detach())
    after = float(answer_finder.batch_loss(trained, batch).detach())
    assert after < 0.7 * before
    state = untrained.state_dict()
    for name, weight in trained.state_dict().items():
        if "embeddings" in name or ".layers.0." in name:
            assert weight.equal(state[name])


def test_two_layers_of_twelve_are_dropped(weights: Any) -> None:
    network = loading.new_network(weights, CONFIG, layers=2)
    network.encoder.layers = type(network.encoder.layers)(
        [network.encoder.layers[0]] * 12
    )
    assert len(answer_finder.drop_layers(network).encoder.layers) == 10
