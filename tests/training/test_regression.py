from pathlib import Path

import numpy as np
import pytest

from archqa import tasks
from archqa.core.case import Case, case_digest
from archqa.core.key import CaseKey
from archqa.engine import DATA_DIR
from archqa.engine.encoders import default_cross_encoder
from tests.engine.conftest import NOTE
from training import corpora, regression
from training.cross_validation import evaluate, reliability_bins
from training.regression import (
    LabelledCase,
    assign_folds,
    build_examples,
    cross_fit,
    fit,
    load_out_of_fold_logits,
    save_model,
    train,
)

from .labelled_cases import labelled

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture(scope="module")
def pairs() -> list[LabelledCase]:
    return [labelled(50 + number) for number in range(6)]


def test_the_same_cases_give_the_same_model(pairs: list[LabelledCase]) -> None:
    assert train(pairs, seed=3) == train(pairs, seed=3)


def test_the_model_names_the_cases_it_was_fitted_on(pairs: list[LabelledCase]) -> None:
    assert len(set(train(pairs).fitted_on)) == len(pairs)


def test_a_case_the_cross_encoder_was_trained_on_gets_out_of_fold_logits(
    pairs: list[LabelledCase], monkeypatch: pytest.MonkeyPatch
) -> None:
    known_case, new_case = pairs[0][0], pairs[1][0]
    out_of_fold = np.arange(len(known_case.sentences), dtype=float)
    monkeypatch.setattr(
        regression,
        "load_out_of_fold_logits",
        lambda: {case_digest(known_case): out_of_fold},
    )
    known_example, new_example = build_examples(pairs[:2])
    assert known_example.table.columns["reader.logit"].tolist() == out_of_fold.tolist()
    assert new_example.table.columns["reader.logit"].tolist() == pytest.approx(
        default_cross_encoder().logits(new_case).tolist()
    )


def test_every_sentence_of_every_training_case_has_an_out_of_fold_logit() -> None:
    cases = [
        case
        for name in ("train", "train-real")
        for case in tasks.load_cases(DATA / f"{name}.json").notes
    ]
    assert {
        digest: len(logits) for digest, logits in load_out_of_fold_logits().items()
    } == {case_digest(case): len(case.sentences) for case in cases}


def test_refitting_gives_the_shipped_model_byte_for_byte(tmp_path: Path) -> None:
    labelled_cases = []
    case_by_name = {}
    for name in ("train", "train-real"):
        keys = tasks.load_key(DATA / f"{name}_key.json").keys
        for case in tasks.load_cases(DATA / f"{name}.json").notes:
            labelled_cases.append((case, keys[case.id]))
            case_by_name[f"{name}/{case.id}"] = case
    corpus = corpora.read_auxiliary_corpus(corpora.DATA_DIR, case_by_name)
    auxiliary_cases = [labelled.case for labelled in corpus.all_cases()]
    save_model(
        train(labelled_cases, auxiliary_cases=auxiliary_cases), tmp_path / "model.json"
    )
    assert (tmp_path / "model.json").read_bytes() == (
        DATA_DIR / "default.json"
    ).read_bytes()


def test_progress_is_reported(pairs: list[LabelledCase]) -> None:
    reports: list[tuple[str, int, int]] = []
    train(
        pairs, progress=lambda stage, done, total: reports.append((stage, done, total))
    )
    assert ("features", 6, 6) in reports
    assert {stage for stage, _, _ in reports} == {"features", "folds"}


def test_a_fit_separates_the_essential_sentences_of_its_own_cases(
    pairs: list[LabelledCase],
) -> None:
    examples = build_examples(pairs)
    logits = regression.logits(fit(examples), examples[0].table)
    assert (
        logits[examples[0].essential == 1].min()
        > logits[examples[0].essential == 0].mean()
    )


def test_cross_fit_covers_every_sentence_of_every_case(
    pairs: list[LabelledCase],
) -> None:
    examples = build_examples(pairs)
    assert [len(probabilities) for probabilities in cross_fit(examples, folds=3)] == [
        len(NOTE) + 1
    ] * len(pairs)


def test_folds_are_even_and_cover_all() -> None:
    fold = assign_folds(17, 4, seed=1)
    assert sorted(np.bincount(fold).tolist()) == [4, 4, 4, 5]


def test_a_report_holds_its_value_within_its_interval(
    pairs: list[LabelledCase],
) -> None:
    for report in evaluate({"written": pairs[:3], "real": pairs[3:]}):
        assert report.f1.low <= report.f1.value <= report.f1.high
        assert report.everything.value == pytest.approx(
            50.0
        )  # 3 of 9 sentences: 2*3/(9+3)
        assert 0 <= report.calibration_error <= 1


def test_a_case_without_sentences_is_skipped(pairs: list[LabelledCase]) -> None:
    assert (
        len(build_examples([*pairs[:1], (Case(id="empty"), CaseKey(case_id="empty"))]))
        == 1
    )


def test_true_probabilities_are_reliable() -> None:
    probabilities = np.full(1000, 0.25)
    truth = np.tile([1.0, 0.0, 0.0, 0.0], 250)
    (group,) = reliability_bins(probabilities, truth)
    assert (group.sentences, group.mean_probability, group.true) == (1000, 0.25, 0.25)
