"""Fitting of the linker, and its links on cases that it was not fitted on."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from archqa import tasks
from archqa.core.case import Case, Phrase, Sentence
from archqa.engine import answer_linking, case_digest
from archqa.engine.answer_linking import Linker
from archqa.engine.encoders import default_encoder
from training import linker
from training.linker import LinkingExample

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture(scope="module")
def dev_examples() -> list[LinkingExample]:
    key_by_case = tasks.load_key(DATA / "dev_key.json").keys
    case_file = tasks.with_clinician_answers(
        tasks.load_cases(DATA / "dev.json", "archehr-2026-st4"), None
    )
    answered_cases = [
        (case, tasks.clinician_sentences(key_by_case[case.id]))
        for case in case_file.notes
    ]
    return linker.build_examples(answered_cases)


def test_the_shipped_linker_beats_similarity_on_cases_it_was_not_fitted_on(
    dev_examples: list[LinkingExample],
) -> None:
    shipped = answer_linking.default_linker()
    dev_digests = {case_digest(example.case) for example in dev_examples}
    assert not dev_digests & set(shipped.fitted_on)
    probabilities = [shipped.probabilities(example.table) for example in dev_examples]
    scores = linker.evaluate_links(dev_examples, probabilities, shipped)
    assert (scores.cases, scores.links) == (28, 219)
    assert scores.f1 > scores.most_similar_f1 + 15
    assert scores.most_similar_f1 > scores.everything_f1


def test_cross_fit_judges_each_case_by_a_linker_fitted_without_it(
    dev_examples: list[LinkingExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = linker.BOOSTING_SETTINGS._replace(trees=15, learning_rate=0.2)
    monkeypatch.setattr(linker, "BOOSTING_SETTINGS", quick)
    monkeypatch.setattr(linker, "SEEDS", 1)
    examples = dev_examples[:8]
    training_digests: list[set[str]] = []
    fit = linker.fit

    def recording_fit(
        training_examples: Sequence[LinkingExample], *, seed: int = 0
    ) -> Linker:
        training_digests.append(
            {case_digest(example.case) for example in training_examples}
        )
        return fit(training_examples, seed=seed)

    monkeypatch.setattr(linker, "fit", recording_fit)
    probabilities = linker.cross_fit(examples, folds=4)
    assert [matrix.shape for matrix in probabilities] == [
        example.table.shape for example in examples
    ]
    all_digests = {case_digest(example.case) for example in examples}
    assert len(training_digests) == 4
    assert all(len(all_digests - digests) == 2 for digests in training_digests)
    assert (
        set[str]().union(*(all_digests - digests for digests in training_digests))
        == all_digests
    )


def test_the_baseline_links_an_answer_sentence_to_the_most_similar_one() -> None:
    case = Case(
        id="c",
        sentences=(
            Sentence(id="a", text="Metformin was held because of the contrast."),
            Sentence(id="b", text="A chest tube was placed for a large pneumothorax."),
        ),
        answer_sentences=(
            Phrase(id="x", text="The chest tube was for a pneumothorax."),
        ),
    )
    table = answer_linking.pair_features(case, default_encoder())
    assert linker.most_similar_links(case, table) == {("x", "b")}
