import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from archqa import tasks
from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.errors import InputError
from training import corpora
from training.corpora import (
    read_auxiliary_corpus,
    read_calibration_questions,
    read_short_questions,
)

DATA = Path(__file__).resolve().parents[2] / "data"
NOTE = {
    "note": "new/1",
    "style": "real",
    "sentences": [["1", "0", "She fell."], ["2", "0", "The hip was broken."]],
}
QUESTION = {
    "note": "new/1",
    "narrative": "Hi. What broke? Thanks.",
    "question": ["What broke?"],
    "clinician_question": "Which fracture was found?",
    "essential": ["2"],
    "supplementary": ["1"],
}
SHORT_QUESTION = {
    "note": "new/1",
    "question": "what broke?",
    "type": "which",
    "essential": [["2"]],
}
REPORT = {"file": "a.txt", "text": "She fell at home. The hip was broken."}
ABOUT_REPORT = {"report": "a.txt", "question": "Where?", "essential": [[[0, 17]]]}
SHARED_WORDS = 10


def write_corpus(folder: Path, **changes: Any) -> Path:
    (folder / "notes.jsonl").write_text(json.dumps(NOTE) + "\n")
    (folder / "questions.jsonl").write_text(json.dumps(QUESTION | changes) + "\n")
    (folder / "similar.jsonl").write_text("")
    return folder


def test_a_question_is_a_labelled_case(tmp_path: Path) -> None:
    (question,) = read_auxiliary_corpus(write_corpus(tmp_path)).questions
    assert question.note == "new/1"
    assert question.case.sentence_ids == ("1", "2")
    assert [phrase.text for phrase in question.case.patient_question] == ["What broke?"]
    assert question.key.labels == {
        "1": Relevance.SUPPLEMENTARY,
        "2": Relevance.ESSENTIAL,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"note": "train/99"}, "there is no note train/99"),
        ({"essential": ["7"]}, "has no sentence 7"),
        ({"essential": []}, "needs an essential sentence"),
        ({"essential": ["1"]}, "none that is supplementary as well"),
        ({"question": ["What broke?", "Why?"]}, "no part of the narrative"),
        ({"narrative": 3}, "narrative"),
    ],
)
def test_an_invalid_line_is_named(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message) as raised:
        read_auxiliary_corpus(write_corpus(tmp_path, **changes))
    assert "questions.jsonl:1: " in str(raised.value)


def test_questions_on_the_notes_of_training_cases_are_read_with_the_cases(
    tmp_path: Path,
) -> None:
    case = read_auxiliary_corpus(write_corpus(tmp_path)).questions[0].case
    (tmp_path / "training_notes.jsonl").write_text(
        json.dumps(QUESTION | {"note": "train/3"}) + "\n"
    )
    (question,) = read_auxiliary_corpus(tmp_path, {"train/3": case}).training_note_cases
    assert (question.note, question.case.sentences) == ("train/3", case.sentences)
    assert read_auxiliary_corpus(tmp_path).training_note_cases == ()
    shorter = case.model_copy(update={"sentences": case.sentences[:1]})
    with pytest.raises(
        InputError, match=r"training_notes\.jsonl:1: the note train/3 has no sentence 2"
    ):
        read_auxiliary_corpus(tmp_path, {"train/3": shorter})


def test_the_corpus_shares_no_ten_words_in_a_row_with_a_case_that_has_a_key() -> None:
    corpus = read_auxiliary_corpus(corpora.DATA_DIR, training_cases())
    assert corpus.training_note_cases
    own_note_cases = [
        labelled.case for labelled in (*corpus.questions, *corpus.similar)
    ]
    corpus_texts = {note_text(case) for case in own_note_cases}
    corpus_texts |= {labelled.case.patient_narrative for labelled in corpus.all_cases()}
    scored_texts: set[str] = set()
    for case in cases_with_a_key():
        scored_texts |= {note_text(case), case.patient_narrative}
    assert not word_runs(corpus_texts) & word_runs(scored_texts)
    assert word_runs(corpus_texts) & word_runs({note_text(own_note_cases[0])})


def training_cases() -> dict[str, Case]:
    cases = tasks.load_cases(DATA / "train-real.json").notes
    return {f"train-real/{case.id}": case for case in cases}


def cases_with_a_key() -> list[Case]:
    cases: list[Case] = []
    for name in ("train", "train-real", "dev"):
        cases += tasks.load_cases(DATA / f"{name}.json").notes
    return cases


def word_runs(texts: set[str]) -> set[tuple[str, ...]]:
    """Return every run of ten words."""
    runs: set[tuple[str, ...]] = set()
    for text in texts:
        words = text.lower().split()
        for start in range(len(words) - SHARED_WORDS + 1):
            runs.add(tuple(words[start : start + SHARED_WORDS]))
    return runs


def note_text(case: Case) -> str:
    return " ".join(sentence.text for sentence in case.sentences)


def test_short_questions_name_sentences_of_their_notes() -> None:
    sentence_ids = {}
    for line in (corpora.DATA_DIR / "notes.jsonl").read_text().splitlines():
        note = json.loads(line)
        sentence_ids[note["note"]] = {sentence[0] for sentence in note["sentences"]}
    lines = (corpora.DATA_DIR / "short_questions.jsonl").read_text().splitlines()
    hard_count = 0
    for question in map(json.loads, lines):
        cited = {
            sentence_id for group in question["essential"] for sentence_id in group
        }
        tempting = set(question.get("tempting", ()))
        assert cited | tempting <= sentence_ids[question["note"]], question
        assert ("answer" in question) == bool(cited), question
        assert ("why" in question) != bool(cited), question
        hard_count += question.get("hard", False)
    assert (len(lines), hard_count) == (2100, 858)


def write_short_questions(folder: Path, **changes: Any) -> Path:
    (folder / "notes.jsonl").write_text(json.dumps(NOTE) + "\n")
    (folder / "short_questions.jsonl").write_text(
        json.dumps(SHORT_QUESTION | changes) + "\n"
    )
    about_reports = json.dumps(ABOUT_REPORT) + "\n"
    (folder / "short_questions_on_reports.jsonl").write_text(about_reports)
    (folder / "calibration_questions.jsonl").write_text(
        about_reports.replace("a.txt", "absent.txt")
    )
    reports = folder / "reports.json.gz"
    reports.write_bytes(gzip.compress(json.dumps([REPORT]).encode()))
    return reports


def test_questions_are_about_sentences_by_index(tmp_path: Path) -> None:
    about_note, about_report = read_short_questions(
        tmp_path, write_short_questions(tmp_path, tempting=["1"])
    )
    assert about_note.sentences == ("She fell.", "The hip was broken.")
    assert (about_note.groups, about_note.tempting) == (((1,),), (0,))
    assert about_report.sentences[0] == "She fell at home."
    assert about_report.groups == ((0,),)


def test_questions_about_reports_that_are_not_in_the_file_are_left_out(
    tmp_path: Path,
) -> None:
    assert read_calibration_questions(tmp_path, write_short_questions(tmp_path)) == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"note": "new/9"}, "short_questions.jsonl:1: there is no note new/9"),
        ({"essential": [["7"]]}, "short_questions.jsonl:1: the note has no sentence 7"),
    ],
)
def test_wrong_lines_are_named(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    reports = write_short_questions(tmp_path, **changes)
    with pytest.raises(InputError, match=message):
        read_short_questions(tmp_path, reports)


def test_a_file_that_is_no_list_of_reports_is_refused(tmp_path: Path) -> None:
    reports = write_short_questions(tmp_path)
    reports.write_bytes(b"no gzip")
    with pytest.raises(InputError, match="gzipped JSON list"):
        read_short_questions(tmp_path, reports)


def test_no_report_is_both_learned_from_and_held_out() -> None:
    def reports(name: str) -> set[str]:
        lines = (corpora.DATA_DIR / name).read_text(encoding="utf-8").splitlines()
        return {json.loads(line)["report"] for line in lines}

    assert reports("calibration_questions.jsonl")
    assert not reports("calibration_questions.jsonl") & reports(
        "short_questions_on_reports.jsonl"
    )


def test_a_message_names_ten_of_thirty_sentences_that_the_note_has_not(
    tmp_path: Path,
) -> None:
    faulty = [f"faulty{number:02}" for number in range(30)]
    with pytest.raises(InputError, match="and 20 more") as raised:
        read_auxiliary_corpus(write_corpus(tmp_path, essential=faulty))
    assert sum(name in str(raised.value) for name in faulty) == 10
