"""Heavy parts load when used; without weights or licence a metric is missing with what to install."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scoring import TextSample
from scoring.alignscore import AlignScore, chunk_sentences, mean_of_best
from scoring.bertscore import BertScore
from scoring.medcon import SEMANTIC_TYPES, Medcon, concept_f1

HEAVY = {
    "torch",
    "transformers",
    "bert_score",
    "sacrebleu",
    "rouge_score",
    "quickumls",
    "spacy",
    "nltk",
    "pandas",
    "archqa",
}


def test_importing_scoring_loads_no_heavy_part_and_nothing_of_archqa() -> None:
    program = "import sys, scoring, scoring.files; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert HEAVY.isdisjoint(done.stdout.split())


def test_a_metric_without_its_files_says_what_it_needs() -> None:
    for metric in (
        BertScore(model="no/such-model"),
        AlignScore(checkpoint="/nowhere.ckpt"),
        Medcon(index="/nowhere"),
    ):
        reason = metric.availability()
        assert reason is not None
        assert reason.startswith("needs ")


def test_bertscore_without_its_library_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "bert_score", None)
    assert BertScore().availability() == (
        "needs bert_score: pip install 'archqa[bertscore]' (a CPU build of torch is enough)."
    )


def test_only_the_official_encoder_is_official(tmp_path: Path) -> None:
    assert BertScore().official
    folder = tmp_path / "distilbert-base-uncased"
    folder.mkdir()
    assert not BertScore(model=str(folder)).official
    shape = {"model_type": "distilbert", "dim": 768, "n_layers": 6, "vocab_size": 30522}
    (folder / "config.json").write_text(json.dumps(shape))
    assert BertScore(model=str(folder)).official
    (folder / "config.json").write_text(json.dumps({**shape, "dim": 384}))
    assert not BertScore(model=str(folder)).official


def test_an_empty_answer_gets_what_an_f_of_0_becomes_by_rescaling() -> None:
    # Layer 4 of distilbert-base-uncased in bert-score's table: F 0.6014007.
    assert BertScore().tally(TextSample("", "a", ""))[0] == pytest.approx(
        -100 * 0.6014007 / 0.3985993
    )


def test_concepts_are_counted_over_the_reference_for_precision_too() -> None:
    reference = {
        "dvt": frozenset({"C1"}),
        "clot": frozenset({"C1"}),
        "fever": frozenset({"C2"}),
    }
    # Two of three reference terms are told by one predicted term: P 2/1, R 2/3.
    assert concept_f1(reference, {"dvt": frozenset({"C1"})}) == pytest.approx(
        2 * 2 * (2 / 3) / (2 + 2 / 3)
    )
    assert concept_f1(reference, {}) == concept_f1({}, reference) == 0


def test_the_official_number_of_semantic_types_is_accepted() -> None:
    assert len(SEMANTIC_TYPES) == 66


def test_a_short_context_is_one_chunk_and_a_long_one_is_cut_into_equal_runs_of_sentences() -> (
    None
):
    sentences = [f"Sentence {number}." for number in range(7)]
    assert list(chunk_sentences(sentences, words=349)) == [" ".join(sentences)]
    # 800 words ask for 3 chunks, so 7 // 3 = 2 sentences each, and one is left over.
    assert [
        len(chunk.split(". ")) for chunk in chunk_sentences(sentences, words=800)
    ] == [
        2,
        2,
        2,
        1,
    ]
    assert list(chunk_sentences([], words=0)) == [""]


def test_a_claim_counts_with_its_best_context_and_claims_are_averaged() -> None:
    np = pytest.importorskip("numpy")
    # Two contexts by three claims: best 0.9, 0.4, 0.5.
    assert mean_of_best(
        np.array([0.9, 0.1, 0.5, 0.2, 0.4, 0.3]), claims=3
    ) == pytest.approx(0.6)
