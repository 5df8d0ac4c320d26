"""ArchEHR-QA 2026: four subtasks, each by its own rules."""

from typing import Any

import pytest

from scoring import Scores, ScoringError
from scoring.tasks import archehr2026

NOTE = {
    "1": "Course:",
    "2": "He had fever.",
    "5": "Cultures grew nothing.",
    "7": "He went home.",
}
CASE = archehr2026.Reference(
    "3",
    NOTE,
    {"1": "not-relevant", "2": "essential", "5": "essential", "7": "supplementary"},
    narrative="Why did they keep my father so long?",
    clinician_question="Why was the stay prolonged?",
    clinician_answer="He was kept because of fever. Cultures were negative.",
    citations={"1": ("2",), "2": ("5", "7")},
)
EMPTY = archehr2026.Reference(
    "4", {"1": "Course:"}, {"1": "not-relevant"}, citations={"1": ()}
)


def score(subtask: Any, *predictions: Any, metrics: list[str] | None = None) -> Scores:
    """The scores of a prediction for CASE and, if there is another one, for EMPTY."""
    references = [CASE, EMPTY][: len(predictions)]
    rows = []
    for reference, prediction in zip(references, predictions, strict=True):
        rows.append({"case_id": reference.case_id, "prediction": prediction})
    return archehr2026.score(
        rows, references, subtask=subtask, metrics=metrics, bootstrap=0
    )


def test_evidence_is_scored_strictly_against_essential_sentences() -> None:
    scores = score(2, ["2", "7", "7"]).scores
    assert scores["strict_micro_precision"] == 50
    assert scores["strict_micro_recall"] == 50
    assert scores["overall_score"] == scores["strict_micro_f1"] == 50


def test_lenient_evidence_drops_supplementary_predictions_so_that_recall_stays() -> (
    None
):
    scores = score(2, ["2", "7"]).scores
    assert scores["lenient_micro_precision"] == 100
    assert scores["lenient_micro_recall"] == scores["strict_micro_recall"] == 50


def test_no_evidence_for_a_case_without_any_is_perfect_and_some_is_worthless() -> None:
    assert score(2, ["2", "5"], []).scores["strict_macro_f1"] == 100
    assert score(2, ["2", "5"], ["1"]).scores["strict_macro_f1"] == 50


def test_no_links_for_a_case_without_any_score_0() -> None:
    links = [
        {"answer_id": "1", "evidence_id": ["2"]},
        {"answer_id": "2", "evidence_id": ["5", "7"]},
    ]
    assert score(4, links, []).scores["macro_f1"] == 50
    assert score(4, links, []).scores["overall_score"] == 100


def test_links_are_pairs_and_answer_sentences_may_be_left_out() -> None:
    scores = score(4, [{"answer_id": "2", "evidence_id": ["5", "2", "5"]}]).scores
    assert scores["micro_precision"] == 50
    assert scores["micro_recall"] == pytest.approx(100 / 3)


def test_unknown_ids_refuse_the_whole_file_and_all_are_listed() -> None:
    with pytest.raises(ScoringError, match="the note has no sentence '9', '11'"):
        score(2, ["9", "2", "11"])
    with pytest.raises(ScoringError) as caught:
        score(4, [{"answer_id": "8", "evidence_id": ["2", "99"]}])
    assert "the answer has no sentence '8'" in str(caught.value)
    assert "the note has no sentence '99'" in str(caught.value)


def test_a_malformed_link_is_shown_how_it_should_look() -> None:
    with pytest.raises(ScoringError, match="answer_id"):
        score(4, [{"answer_id": "1", "evidence_id": "2,5"}])


@pytest.mark.parametrize(("subtask", "limit"), [(1, 15), (3, 75)])
def test_long_texts_are_cut_at_any_white_space(subtask: Any, limit: int) -> None:
    scores = score(subtask, "\t".join(["word"] * limit + ["fever"]), metrics=["rouge1"])
    assert scores.scores["rouge1"] == 0
    assert scores.warnings == [
        f"case 3: {limit + 1} words; what follows word {limit} is not scored."
    ]


def test_the_interpreted_question_is_compared_with_the_clinicians_alone() -> None:
    scores = score(1, "Why was the stay prolonged?")
    assert scores.scores["rougeLsum"] == 100
    assert "against:clinician_question" in scores.signatures["rougeLsum"]
    assert "bleu" not in scores.scores
    assert "overall_score" in scores.missing
    assert "overall_score" not in scores.scores


def test_echoing_the_question_no_longer_pays_in_generated_answers() -> None:
    assert score(3, "Why did they keep my father so long?").scores["rougeLsum"] == 0
    assert score(3, CASE.clinician_answer).scores["bleu"] == pytest.approx(100)


def test_the_source_of_sari_is_the_narrative_only() -> None:
    assert "source:narrative" in score(3, "Fever.").signatures["sari"]


def test_an_empty_text_gets_the_floor() -> None:
    assert score(3, " ").scores["sari"] == 0


@pytest.mark.parametrize(
    ("written", "ids"),
    [
        (["2", "5"], ("2", "5")),
        ("2,5", ("2", "5")),
        ("12", ("12",)),
        ("", ()),
        ([], ()),
        ("19-21, 3", ("19", "20", "21", "3")),
    ],
)
def test_citations_of_a_key_are_read_in_every_form_that_was_shipped(
    written: Any, ids: tuple[str, ...]
) -> None:
    assert archehr2026.parse_citations(written) == ids


@pytest.mark.parametrize("written", [None, 5, {"2": True}, [["2"]]])
def test_other_citations_are_an_error(written: Any) -> None:
    with pytest.raises(ScoringError, match="citations are a list of ids"):
        archehr2026.parse_citations(written)


def test_a_key_without_the_subtasks_gold_is_an_error() -> None:
    with pytest.raises(ScoringError, match="no case has the gold of subtask 1"):
        archehr2026.score([], [EMPTY], subtask=1)
