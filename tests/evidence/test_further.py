import json
from pathlib import Path
from typing import Any

import pytest

from archqa import benchmarks
from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.errors import InputError
from archqa.evidence import further, reader_build
from archqa.evidence.note import DICTATED, telegraphic
from archqa.evidence.reader_build import Kinds

DATA = Path(__file__).resolve().parents[2] / "data"
NOTE = {"note": "new/1", "style": "real", "sentences": [["1", "0", "She fell."], ["2", "0", "The hip was broken."]]}
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
    (one,) = further.read(folder(tmp_path), {}).questions
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
def test_a_line_that_does_not_fit_is_named(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as raised:
        further.read(folder(tmp_path, **changed), {})
    assert "questions.jsonl:1: " in str(raised.value)


def kinds_of_the_repository() -> Kinds:
    found = {}
    for name in ("train", "train-real"):
        keys = benchmarks.load_key(DATA / f"{name}_key.json").keys
        found[name] = [(case, keys[case.id]) for case in benchmarks.load_cases(DATA / f"{name}.json").notes]
    return found


def known(kinds: Kinds) -> dict[str, Case]:
    return {f"{name}/{case.id}": case for name, kind in kinds.items() for case, _ in kind}


def test_no_reader_has_read_the_note_it_judges() -> None:
    kinds = kinds_of_the_repository()
    more = further.read(DATA / "further", known(kinds))
    assert more.questions
    assert more.alike
    fold_of = reader_build.folds(kinds, seed=0)
    for fold in range(reader_build.FOLDS):
        taught = reader_build.lessons(kinds, more, fold_of, fold)
        on_notes = [*taught.questions, *taught.apart.questions, *taught.apart.alike]
        read = {_note(case) for case, _ in taught.cases} | {_note(each.case) for each in on_notes}
        assert len(taught.questions) + len(taught.apart.questions) < len(more.questions)
        judged = {_note(case) for name, case in known(kinds).items() if fold_of[name] == fold}
        assert judged
        assert not read & judged


def test_an_epoch_takes_some_questions_on_each_note_and_no_typed_note_closely() -> None:
    kinds = kinds_of_the_repository()
    more = further.read(DATA / "further", known(kinds))
    taught = reader_build.lessons(kinds, more, reader_build.folds(kinds, seed=0))
    broad, close = reader_build.broadly(taught.apart), reader_build.closely(taught)
    notes = {each.note for each in taught.apart.questions}
    assert len(broad) == len(taught.apart.alike) + sum(
        min(reader_build.BROADLY, sum(each.note == note for each in taught.apart.questions)) for note in notes
    )
    assert {case.id for case, _ in taught.cases} <= {case.id for case, _ in close}
    asked = [each.case for each in taught.questions if each.case.id in {case.id for case, _ in close}]
    dictated = [case for case in known(kinds).values() if telegraphic(case) < DICTATED]
    assert len(asked) == reader_build.CLOSELY * len(dictated)
    assert all(telegraphic(case) < DICTATED for case in asked)


def test_further_questions_are_about_no_note_of_dev() -> None:
    kinds = kinds_of_the_repository()
    more = further.read(DATA / "further", known(kinds))
    dev = {_note(case) for case in benchmarks.load_cases(DATA / "dev.json").notes}
    assert not {_note(each.case) for some in more for each in some} & dev


def test_no_ten_words_in_a_row_of_dev_stand_in_further_texts() -> None:
    kinds = kinds_of_the_repository()
    more = further.read(DATA / "further", known(kinds))
    fictional = [each.case for some in more for each in some if each.note not in known(kinds)]
    told = {_note(case) for case in fictional} | {each.case.patient_narrative for some in more for each in some}
    of_dev = [(_note(case), case.patient_narrative) for case in benchmarks.load_cases(DATA / "dev.json").notes]
    assert not _tens(told) & _tens({text for both in of_dev for text in both})
    assert _tens(told) & _tens({_note(fictional[0])})


def _tens(texts: set[str]) -> set[tuple[str, ...]]:
    split = [text.lower().split() for text in texts]
    return {tuple(words[at : at + 10]) for words in split for at in range(len(words) - 9)}


def _note(case: Case) -> str:
    return " ".join(each.text for each in case.sentences)
