import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from archqa import tasks
from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.engine.training import auxiliary_corpus, build
from archqa.errors import InputError

DATA = Path(__file__).resolve().parents[2] / "data"
NOTE = {
    "note": "new/1",
    "style": "real",
    "sentences": [["1", "0", "She fell."], ["2", "0", "The hip was broken."]],
}
ASKED = {
    "note": "new/1",
    "narrative": "Hi. What broke? Thanks.",
    "question": ["What broke?"],
    "clinician_question": "Which fracture was found?",
    "essential": ["2"],
    "supplementary": ["1"],
}


def folder(place: Path, **changed: Any) -> Path:
    (place / "notes.jsonl").write_text(json.dumps(NOTE) + "\n")
    (place / "questions.jsonl").write_text(json.dumps(ASKED | changed) + "\n")
    (place / "alike.jsonl").write_text("")
    return place


def test_a_further_question_is_a_labelled_case(tmp_path: Path) -> None:
    (one,) = auxiliary_corpus.read_corpus(folder(tmp_path)).questions
    assert one.note == "new/1"
    assert one.case.sentence_ids == ("1", "2")
    assert [phrase.text for phrase in one.case.patient_question] == ["What broke?"]
    assert one.key.labels == {"1": Relevance.SUPPLEMENTARY, "2": Relevance.ESSENTIAL}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"note": "train/99"}, "there is no note train/99"),
        ({"essential": ["7"]}, "has no sentence 7"),
        ({"essential": []}, "needs an essential sentence"),
        ({"essential": ["1"]}, "none that is supplementary as well"),
        ({"question": ["What broke?", "Why?"]}, "no part of the narrative"),
        ({"narrative": 3}, "narrative"),
    ],
)
def test_a_line_that_does_not_fit_is_named(
    changed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words) as raised:
        auxiliary_corpus.read_corpus(folder(tmp_path, **changed))
    assert "questions.jsonl:1: " in str(raised.value)


REAL = {f"train-real/{case.id}": case for case in tasks.load_cases(DATA / "train-real.json").notes}


def test_questions_on_the_notes_of_training_cases_are_read_where_the_cases_are_given(
    tmp_path: Path,
) -> None:
    about = auxiliary_corpus.read_corpus(folder(tmp_path)).questions[0].case
    (tmp_path / "near.jsonl").write_text(json.dumps(ASKED | {"note": "train/3"}) + "\n")
    (one,) = auxiliary_corpus.read_corpus(tmp_path, {"train/3": about}).training_note_cases
    assert (one.note, one.case.sentences) == ("train/3", about.sentences)
    assert auxiliary_corpus.read_corpus(tmp_path).training_note_cases == ()
    with pytest.raises(InputError, match=r"near\.jsonl:1: the note train/3 has no sentence 2"):
        auxiliary_corpus.read_corpus(
            tmp_path, {"train/3": about.model_copy(update={"sentences": about.sentences[:1]})}
        )


def cases_with_a_key() -> list[Case]:
    return [
        case
        for name in ("train", "train-real", "dev")
        for case in tasks.load_cases(DATA / f"{name}.json").notes
    ]


def test_an_epoch_takes_all_cases_alike_and_some_questions_on_each_note() -> None:
    taught = auxiliary_corpus.read_corpus(DATA / "further")
    drawn = {case.id for case, _ in build.training_epoch(taught)}
    assert {each.case.id for each in taught.alike} <= drawn
    asked = Counter(each.note for each in taught.questions if each.case.id in drawn)
    assert asked == {each.note: build.QUESTIONS_PER_NOTE for each in taught.questions}


def test_no_ten_words_in_a_row_of_a_case_with_a_key_stand_in_further_texts() -> None:
    written = auxiliary_corpus.read_corpus(DATA / "further", REAL)
    taught = [each.case for each in (*written.questions, *written.alike)]
    told = {_note(case) for case in taught} | {
        each.case.patient_narrative for some in written for each in some
    }
    assert written.training_note_cases
    scored = {text for case in cases_with_a_key() for text in (_note(case), case.patient_narrative)}
    assert not _tens(told) & _tens(scored)
    assert _tens(told) & _tens({_note(taught[0])})


def _tens(texts: set[str]) -> set[tuple[str, ...]]:
    split = [text.lower().split() for text in texts]
    return {tuple(words[at : at + 10]) for words in split for at in range(len(words) - 9)}


def _note(case: Case) -> str:
    return " ".join(each.text for each in case.sentences)
