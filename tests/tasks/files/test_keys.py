"""Keys of both years, and whether they fit their cases."""

import json
from pathlib import Path

import pytest

from archqa.core.case import Case, Sentence
from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey, ClinicianSentence
from archqa.errors import InputError
from archqa.tasks import check_key_matches, load_key


def write(folder: Path, entries: object) -> Path:
    path = folder / "key.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


def citing(value: object) -> list[dict[str, object]]:
    sentence = {"id": "1", "text": "Fever.", "citations": value}
    return [{"case_id": "3", "clinician_answer_sentences": [sentence]}]


def test_a_key_of_2025_maps_sentences_to_relevance(tmp_path: Path) -> None:
    labels = [("1", "not-relevant"), ("2", "essential"), ("3", "supplementary")]
    answers = [
        {"sentence_id": sentence_id, "relevance": label}
        for sentence_id, label in labels
    ]
    key = load_key(
        write(tmp_path, [{"case_id": "5", "answers": answers, "specialty": "surgery"}])
    ).keys["5"]

    assert key.labels == {
        sentence_id: Relevance(label) for sentence_id, label in labels
    }
    assert key.essential == {"2"}


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (["2", "5"], ("2", "5")),
        ([], ()),
        ("2,5", ("2", "5")),
        (" 2, 5 ", ("2", "5")),
        ("12", ("12",)),
        ("", ()),
        ("19-22", ("19", "20", "21", "22")),
        ("2,19-21,2", ("2", "19", "20", "21")),
        (["7-8", "s1"], ("7", "8", "s1")),
    ],
)
def test_citations_of_2026_are_read_in_every_released_form(
    tmp_path: Path, value: object, ids: tuple[str, ...]
) -> None:
    key = load_key(write(tmp_path, citing(value))).keys["3"]

    assert key.clinician_answer_sentences == (
        ClinicianSentence(id="1", text="Fever.", citations=ids),
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        True,
        {"a": 1},
        [2],
        [["2"]],
        "2,,5",
        "2,",
        "25-19",
        "1-999999",
        "1-9999999999",
        "2-5-7",
        "2;5",
        "[2,5]",
        "2 5",
    ],
)
def test_any_other_form_of_citations_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(
        InputError,
        match=r"case 3, \$\.clinician_answer_sentences\[0\]\.citations: should be",
    ):
        load_key(write(tmp_path, citing(value)))


def test_a_test_key_without_citations_and_labels_loads(tmp_path: Path) -> None:
    sentences = [{"id": "1", "text": "Fever."}]
    entry = {
        "case_id": "3",
        "clinician_answer": "Fever.",
        "clinician_answer_sentences": sentences,
    }
    key = load_key(write(tmp_path, [entry])).keys["3"]

    assert (key.labels, key.clinician_answer_sentences[0].citations) == ({}, ())


def test_all_mistakes_of_a_key_come_at_once(tmp_path: Path) -> None:
    answers = [
        {"sentence_id": "1", "relevance": "Essential"},
        {"sentence_id": "1", "relevance": "maybe"},
        {"relevance": "essential"},
    ]
    path = write(
        tmp_path, [{"case_id": "1", "answers": answers}, {"case_id": "1", "answer": []}]
    )
    with pytest.raises(InputError) as caught:
        load_key(path)

    assert set(caught.value.mistakes) == {
        ": case 1, $.answers[0].relevance: 'Essential' is no label; did you mean essential?",
        ": case 1, $.answers[1].relevance: 'maybe' is no label; write one of essential, supplementary, not-relevant.",
        ": case 1, $.answers[1].sentence_id: '1' is labelled twice; keep one label.",
        ": case 1, $.answers[2].sentence_id: missing; give it one.",
        ": case 1, $.answer: is no field of ours; did you mean answers?",
        ": case 1, $.case_id: stands in an earlier entry too; keep one.",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<annotations/>", "a key is JSON"),
        ('[{"case_id": "1", "sentences": []}]', "this is no key"),
        ("[]", "empty"),
    ],
)
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "key.json"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        load_key(path)


def test_a_key_that_does_not_fit_its_cases_is_warned_of() -> None:
    note = (Sentence(id="1", text="Fever."), Sentence(id="2", text="Cough."))
    cases = [Case(id="a", sentences=note), Case(id="b")]
    answer = ClinicianSentence(id="1", text="Fever.", citations=("1", "8"))
    keys = {
        "a": CaseKey(
            case_id="a",
            labels={"1": Relevance.NOT_RELEVANT, "9": Relevance.SUPPLEMENTARY},
        ),
        "c": CaseKey(case_id="c"),
    }
    keys["a"] = keys["a"].model_copy(update={"clinician_answer_sentences": (answer,)})

    assert check_key_matches(cases, keys) == [
        "case b has no key: it will not be scored.",
        "the key has a case c that the file has not: it will score as unanswered.",
        "case a: the key labels 9, which the note has not.",
        "case a: the clinician's answer cites 8, which the note has not.",
        "case a: the key has no label for 2.",
        "case a: the key holds no sentence essential: its recall is 0 whatever is cited.",
    ]
