"""ArchEHR-QA 2025: which cases count, which scores are missing, and the warnings."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scoring import Scores, ScoringError, compare, parse_metric
from scoring.files import load_references_2025
from scoring.tasks import archehr2025

NOTE = {
    "1": "Brief Hospital Course:",
    "2": "A stone was seen.",
    "3": "It was removed on day 2.",
    "4": "She ate well.",
}
LABELS = {"1": "not-relevant", "2": "essential", "3": "essential", "4": "supplementary"}
ONE = archehr2025.Reference(
    "1",
    "",
    NOTE,
    LABELS,
    "Why did they operate on my mother?",
    "Why was an operation done?",
)
TWO = archehr2025.Reference(
    "2", "", NOTE, LABELS, "Was it needed at all?", "Was the procedure needed?"
)


def answer(
    case_id: str, text: str = "A stone was seen. |2|\nIt was removed on day 2. |3|"
) -> dict[str, str]:
    return {"case_id": case_id, "answer": text}


def score(*rows: dict[str, str], metrics: list[str] | None = None) -> Scores:
    return archehr2025.score(rows, [ONE, TWO], metrics=metrics, bootstrap=50)


def test_an_unanswered_case_counts_at_the_floor_with_a_warning() -> None:
    scores = score(answer("1"))
    assert scores.scores["strict_micro_recall"] == 50
    assert scores.scores["strict_micro_precision"] == 100
    assert scores.per_case["2"]["sari"] == 0
    assert "1 of 2 cases have no answer and get the floor: 2." in scores.warnings


def test_the_key_decides_which_cases_count() -> None:
    scores = score(answer("1"), answer("2"), answer("77"))
    assert scores.cases == 2
    assert scores.scores["strict_micro_f1"] == 100
    assert any(
        "77" in warning and "not scored" in warning for warning in scores.warnings
    )


def test_refusing_in_place_of_the_floor_uses_the_official_message() -> None:
    with pytest.raises(
        ScoringError, match=r"Case IDs in key but not in submission: \{'2'\}"
    ):
        archehr2025.score([answer("1"), answer("9")], [ONE, TWO], on_missing="refuse")


def test_a_case_without_labels_is_left_out_with_a_warning() -> None:
    bare = archehr2025.Reference("2", "", NOTE, {}, "Was it needed?", "Was it needed?")
    scores = archehr2025.score([answer("1"), answer("2")], [ONE, bare], bootstrap=0)
    assert scores.cases == 1
    assert "1 cases have no labels in the key and are not scored: 2." in scores.warnings


def test_a_key_without_any_label_is_an_error() -> None:
    with pytest.raises(ScoringError, match="no case has labels"):
        archehr2025.score([], [archehr2025.Reference("2", "", NOTE, {})])


def test_labels_that_fit_no_note_are_an_error_that_names_all_cases() -> None:
    inconsistent = archehr2025.Reference(
        "7", "", {"1": "A."}, {"1": "essential", "8": "essential"}
    )
    with pytest.raises(ScoringError, match="case 7: the key labels 8"):
        archehr2025.score([], [inconsistent, ONE])


def test_all_malformed_rows_are_listed_at_once() -> None:
    with pytest.raises(ScoringError) as caught:
        archehr2025.score(
            [{"answer": "A."}, {"case_id": "1"}, {"case_id": "2", "answer": 5}], [ONE]
        )
    assert "row 0: no case_id" in str(caught.value)
    assert "case 1: no 'answer'" in str(caught.value)
    assert "case 2: 'answer' is a int" in str(caught.value)


def test_combined_scores_need_all_parts_and_the_partial_mean_says_which_are_missing() -> (
    None
):
    scores = score(answer("1"), answer("2"))
    assert {"overall_relevance_score", "overall_score"} <= scores.missing.keys()
    assert {"overall_relevance_score", "overall_score"}.isdisjoint(scores.scores)
    parts = [scores.scores[name] for name in ("bleu", "rougeLsum", "sari")]
    assert scores.scores["partial_relevance_score"] == pytest.approx(sum(parts) / 3)
    reason = scores.missing["overall_relevance_score"]
    assert "alignscore" in reason
    assert "medcon" in reason
    assert all(reason.startswith("needs ") for reason in scores.missing.values())


def test_every_signature_can_be_read_back_and_gives_the_same_number() -> None:
    scores = score(answer("1", "A stone. |2|"), answer("2"))
    for name, signature in scores.signatures.items():
        metric = parse_metric(signature)
        assert str(metric) == signature
        assert (
            float(metric.value(scores.tallies[name].sum(axis=0))) == scores.scores[name]
        )


def test_metrics_can_be_chosen_by_leaderboard_name_or_written_out() -> None:
    scores = score(
        answer("1"),
        answer("2"),
        metrics=["strict_micro_f1", "bleu(max_order=1, against=essential)"],
    )
    assert set(scores.scores) == {
        "strict_micro_f1",
        "bleu(max_order=1, against=essential)",
    }
    assert scores.missing == {}
    with pytest.raises(ScoringError, match="strict_micro_f1"):
        score(answer("1"), metrics=["strict_f1"])


def test_the_order_of_answers_does_not_matter() -> None:
    answers = [answer("1", "No. |1|"), answer("2")]
    assert score(*answers).scores == score(*reversed(answers)).scores


def test_a_second_answer_to_a_case_also_counts_with_a_warning() -> None:
    scores = score(answer("1"), answer("1", "No. |1|"), answer("2"))
    assert scores.scores["strict_macro_f1"] == pytest.approx(200 / 3)
    assert list(scores.per_case) == ["1", "1#2", "2"]
    assert any("answered 2 times" in warning for warning in scores.warnings)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("Seen. |2, 3|", 'cites " 3" with a space'),
        ("Seen. |2,99|", 'cites "99", which the note does not have'),
        ("Seen.", "cites nothing; the official script refuses"),
        ("|2|", "has citations but no text"),
        (f"{'word ' * 76}|2|", "has 76 words"),
        (
            f"{'word ' * 75}|2|\nLate. |3|",
            'cites "3" only on lines past the word limit',
        ),
        ("Why did they operate on my mother? |2|", "word runs are the question's own"),
    ],
)
def test_answers_that_lose_points_silently_get_a_warning(
    text: str, warning: str
) -> None:
    scores = archehr2025.score([answer("1", text)], [ONE], bootstrap=0)
    assert warning in "\n".join(scores.warnings)


def test_a_good_answer_has_no_warnings() -> None:
    assert score(answer("1"), answer("2")).warnings == []


def test_repeating_the_question_raises_the_question_overlap() -> None:
    question = "Why did they operate on my mother?"
    repeated = archehr2025.score([answer("1", f"{question} |2|")], [ONE], bootstrap=0)
    assert repeated.scores["question_overlap"] == 100
    assert score(answer("1"), answer("2")).scores["question_overlap"] == 0


@pytest.mark.parametrize(
    ("line", "is_carried"),
    [
        ("A stone was seen. |2|", True),
        ("The stone was removed on day 2. |2,3|", True),
        ("It was removed on day 3. |3|", False),
        ("It was removed on day 2. |2|", False),
        ("It was removed on day 2.", False),
        ("Antibiotics were stopped early. |3|", False),
        ("A stone was seen. |99|", False),
    ],
)
def test_a_line_is_carried_by_the_words_and_numbers_of_what_it_cites(
    line: str, is_carried: bool
) -> None:
    scores = score(answer("1", f"{line}\nSee also. |4|"), metrics=["line_support"])
    assert scores.scores["line_support"] == (100 if is_carried else 0)
    assert (
        scores.signatures["line_support"]
        == "line_support|share:0.5|bs:50|seed:12345|rev:1"
    )


def test_hash_order_is_the_set_order_of_a_process_with_that_seed() -> None:
    note = {
        str(number): f"Sentence about topic{number} and no other."
        for number in range(1, 9)
    }
    reference = archehr2025.Reference(
        "1", "", note, dict.fromkeys(note, "essential"), "Why?", "Why?"
    )
    program = f"print(' '.join(set({list(note)!r})))"
    order = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "5"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    lines = [f"{note[sentence]} |{sentence}|" for sentence in order]
    submission = [answer("1", "\n".join(lines))]

    def score_in_order(reference_order: str) -> Scores:
        return archehr2025.score(
            submission,
            [reference],
            reference_order=reference_order,
            metrics=["rougeL"],
            bootstrap=0,
        )

    hash_order = score_in_order("hash:5")
    note_order = score_in_order("note")
    assert hash_order.scores["rougeL"] > note_order.scores["rougeL"]
    assert "order:hash:5" in hash_order.signatures["rougeL"]


@pytest.mark.parametrize("order", ["random", "hash:", "hash:-1", "hash:99999999999"])
def test_an_unknown_reference_order_is_an_error(order: str) -> None:
    with pytest.raises(ScoringError, match="use note, or hash:SEED"):
        archehr2025.score([answer("1")], [ONE], reference_order=order)


def test_two_runs_are_compared_case_by_case() -> None:
    better = score(answer("1"), answer("2"))
    worse = score(answer("2"), answer("1", "No. |1|"))
    comparison = compare(better, worse)["strict_micro_f1"]
    precision = 2 / 3
    recall = 1 / 2
    f1_of_worse = 200 * precision * recall / (precision + recall)
    assert comparison.difference == pytest.approx(100 - f1_of_worse)
    assert comparison.n == 2
    with pytest.raises(ScoringError, match="do not cover the same cases"):
        compare(better, archehr2025.score([answer("1")], [ONE]))


def test_as_json_has_the_keys_of_the_interface_and_is_json() -> None:
    written = json.loads(json.dumps(score(answer("1"), answer("2")).as_json()))
    assert set(written) == {
        "task",
        "scores",
        "intervals",
        "signatures",
        "missing",
        "warnings",
        "cases",
    }
    assert written["task"] == "archehr-2025"
    low, high = written["intervals"]["rougeLsum"]
    assert low <= written["scores"]["rougeLsum"] <= high


def test_on_the_dev_cases_citing_everything_and_a_second_annotator_score_as_documented(
    shared: Path,
) -> None:
    dev = shared / "cases" / "dev"
    cases = dev / "archehr-qa.xml"
    key = load_references_2025(cases, dev / "archehr-qa_key.json")
    annotation = load_references_2025(cases, dev / "second_annotation_key.json")
    everything = archehr2025.score(archehr2025.cite_sentences(key), key, bootstrap=0)
    annotator = archehr2025.score(
        archehr2025.cite_sentences(annotation, "essential"), key, bootstrap=0
    )
    assert everything.scores["strict_micro_f1"] == pytest.approx(42.2, abs=0.05)
    assert annotator.scores["strict_micro_f1"] == pytest.approx(88.6, abs=0.05)
    assert annotator.scores["strict_micro_precision"] == pytest.approx(99.3, abs=0.05)
    assert annotator.scores["strict_micro_recall"] == pytest.approx(80.0, abs=0.05)
