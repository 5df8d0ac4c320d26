"""Linking a given answer to its note: far better than the most similar sentence, on cases the linker never saw."""

from pathlib import Path

import pytest

from archqa import tasks
from archqa.core.case import Case, Phrase, Sentence
from archqa.engine import answer_linking, case_digest
from archqa.engine.sentence_encoder import default_encoder
from archqa.engine.training import linker_training

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def dev() -> list[linker_training.LinkingExample]:
    keys = tasks.load_key(ROOT / "data/dev_key.json").keys
    file = tasks.with_clinician_answers(
        tasks.load_cases(ROOT / "data/dev.json", "archehr-2026-st4"), None
    )
    return linker_training.build_examples(
        [(case, tasks.clinician_sentences(keys[case.id])) for case in file.notes]
    )


def test_the_shipped_linker_beats_the_most_similar_sentence_on_cases_it_was_not_fitted_on(
    dev: list[linker_training.LinkingExample],
) -> None:
    linker = answer_linking.default_linker()
    assert not {case_digest(each.case) for each in dev} & set(linker.fitted_on)
    found = linker_training.evaluate_links(
        dev, [linker.probabilities(each.table) for each in dev], linker
    )
    assert (found.cases, found.links) == (28, 219)
    assert found.f1 > found.most_similar_f1 + 15
    assert found.most_similar_f1 > found.everything_f1


def test_a_linker_is_fitted_on_other_cases_than_it_is_tried_on(
    dev: list[linker_training.LinkingExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        linker_training,
        "BOOSTING_SETTINGS",
        linker_training.BOOSTING_SETTINGS._replace(trees=15, learning_rate=0.2),
    )
    monkeypatch.setattr(linker_training, "SEEDS", 1)
    few = dev[:8]
    seen: list[set[str]] = []
    real = linker_training.fit

    def watched(
        examples: list[linker_training.LinkingExample], *, seed: int = 0
    ) -> answer_linking.Linker:
        seen.append({case_digest(each.case) for each in examples})
        return real(examples, seed=seed)

    monkeypatch.setattr(linker_training, "fit", watched)
    said = linker_training.cross_fit(few, folds=4)
    assert [each.shape for each in said] == [each.table.shape for each in few]
    everyone = {case_digest(each.case) for each in few}
    assert len(seen) == 4
    assert all(len(everyone - some) == 2 for some in seen)


def test_an_answer_sentence_is_linked_to_what_it_restates() -> None:
    case = Case(
        id="c",
        patient_narrative="Why the tube?",
        sentences=(
            Sentence(id="a", text="Brief hospital course:"),
            Sentence(
                id="b", text="A chest tube was placed on day 2 for a large right pneumothorax."
            ),
            Sentence(id="c", text="Metformin was held because of the contrast."),
        ),
        answer_sentences=(
            Phrase(id="x", text="The chest tube was placed for a large pneumothorax."),
        ),
    )
    assert answer_linking.predict_links(case) == {("x", "b")}
    assert answer_linking.most_similar_links(
        case, answer_linking.pair_features(case, default_encoder())
    ) == {("x", "b")}
