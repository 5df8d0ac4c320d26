import json
from pathlib import Path
from typing import Any

import pytest

from archqa import benchmarks
from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.errors import InputError
from archqa.evidence import further, reader_build
from archqa.evidence.reader_build import Kinds

DATA = Path(__file__).resolve().parents[2] / "data"
NOTE = {"note": "new/1", "style": "real", "sentences": [["1", "0", "She fell."], ["2", "0", "The hip was broken."]]}
ASKED = {
    "note": "new/1",
    "narrative": "Hi. What broke? Thanks.",
    "question": "What broke?",
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
        ({"question": "Why?"}, "no part of the narrative"),
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
        read = {_note(case) for pairs in reader_build.lessons(kinds, more, fold_of, fold) for case, _ in pairs}
        judged = {_note(case) for name, case in known(kinds).items() if fold_of[name] == fold}
        assert judged
        assert not read & judged


def test_further_questions_are_about_no_note_of_dev() -> None:
    kinds = kinds_of_the_repository()
    more = further.read(DATA / "further", known(kinds))
    dev = {_note(case) for case in benchmarks.load_cases(DATA / "dev.json").notes}
    assert not {_note(each.case) for some in more for each in some} & dev


def _note(case: Case) -> str:
    return " ".join(each.text for each in case.sentences)
