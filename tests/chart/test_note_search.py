"""Finding sentences in a patient's notes: by words, by meaning, by what the question says of them."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from archqa.chart import note_index
from archqa.chart.findings import NoteFinder
from archqa.chart.note_index import encode
from archqa.chart.notes import ChartNotes, NoteOpener
from archqa.chart.search import note_limits, search_notes, word_scores
from archqa.chart.search_terms import search_terms
from archqa.fhir import Store
from archqa.query.questions.everyday import patient_vocabulary
from tests.chart.charts import PATIENT, load, note

TODAY = date(2026, 11, 23)
CARDIOLOGY = (
    "Metoprolol was stopped for a heart rate of 44 with near-syncope. No edema."
)
PSYCHIATRY = (
    "Lamotrigine was stopped in February for a spreading rash.\nSleeps four hours."
)
OLD = "Lives with his wife. Works nights in a warehouse."
NEW = "Stays with his sister in Quincy. Laid off in December."


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    title = {
        "type": {"text": "Cardiology consult"},
        "author": [{"display": "M. Haverkamp MD"}],
    }
    summary = {"type": {"text": "Discharge summary"}}
    resources = [
        PATIENT,
        note("cardiology", CARDIOLOGY, "2023-11-21", **title),
        note("psychiatry", PSYCHIATRY, "2024-05-16", type={"text": "Psychiatry note"}),
        note("old", OLD, "2022-03-18", **summary),
        note("new", NEW, "2026-03-12", **summary),
    ]
    return load(tmp_path_factory.mktemp("notes") / "r.db", resources)


@pytest.fixture(scope="module")
def notes(path: Path) -> ChartNotes:
    return NoteOpener(Store.open(path), encode).open("p1")


def found(notes: ChartNotes, question: str, count: int = 3) -> list[str]:
    return [notes.texts[hit.text] for hit in search_notes(notes, question, encode)][
        :count
    ]


def best(notes: ChartNotes, question: str, *, asks_present: bool = False) -> str:
    finder = NoteFinder(notes, encode, range(len(notes.texts)))
    return finder.find(question, asks_present=asks_present)[0].sentence.text


def limits_of(path: Path, notes: ChartNotes, question: str) -> list[str] | None:
    with Store.open(path) as store:
        limits = note_limits(question, notes, patient_vocabulary(store, "p1"), TODAY)
    if limits.documents is None:
        return None
    return [
        notes.documents[index].name.partition("/")[2]
        for index in sorted(limits.documents)
    ]


def test_a_class_of_drugs_is_found_by_the_name_of_a_member(notes: ChartNotes) -> None:
    terms = search_terms("beta-blocker")
    scores = word_scores(
        notes, terms, {i: own[0] for i, own in enumerate(notes.places)}
    )
    assert notes.texts[int(scores.argmax())].startswith("Metoprolol")


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("Why was the beta-blocker stopped?", "Metoprolol"),
        ("Why was lamotrigine stopped?", "Lamotrigine"),
        ("Does he have swelling?", "No edema"),
        ("insomnia?", "Sleeps four hours"),
        ("What does he do for work?", "Works nights"),
    ],
)
def test_a_sentence_is_found_by_other_words_of_the_same_meaning(
    notes: ChartNotes, question: str, begins: str
) -> None:
    assert any(text.startswith(begins) for text in found(notes, question))


def test_what_answers_the_same_question_about_another_drug_is_not_first(
    notes: ChartNotes,
) -> None:
    assert best(notes, "Why was lamotrigine stopped?").startswith("Lamotrigine")
    assert best(notes, "Why was metoprolol stopped?").startswith("Metoprolol")


def test_the_newest_note_counts_more_where_the_present_is_asked(
    notes: ChartNotes,
) -> None:
    question = "Where and with whom does he live?"
    assert best(notes, question).startswith("Lives with his wife")
    assert best(notes, question, asks_present=True).startswith("Stays with his sister")


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Where has he lived since 2024?", ["new", "psychiatry"]),
        ("Where does he live?", None),
        ("What did he say before 2024?", None),
        ("What happened in 2023?", ["new", "psychiatry", "cardiology"]),
        ("What is planned for 2026?", None),
        ("What does the discharge summary say of his work?", ["new", "old"]),
        ("What does the last discharge summary say of his work?", ["new"]),
        ("What did Haverkamp advise?", ["cardiology"]),
        ("In the cardiology note, was there edema?", ["cardiology"]),
    ],
)
def test_what_a_question_says_of_the_notes_limits_them(
    path: Path, notes: ChartNotes, question: str, names: list[str] | None
) -> None:
    assert limits_of(path, notes, question) == names


def test_only_allowed_notes_and_sentences_are_found(notes: ChartNotes) -> None:
    in_old = search_notes(notes, "wife or sister", encode, documents={3})
    assert {hit.place.document for hit in in_old} == {3}
    assert search_notes(notes, "wife or sister", encode, texts=[]) == []


def test_words_and_meaning_both_count(notes: ChartNotes) -> None:
    """With vectors that say nothing, words decide; without a common word, vectors do."""

    def blind(texts: list[str]) -> np.ndarray:
        return np.zeros((len(texts), notes.vectors.shape[1]), dtype=np.float32)

    hits = search_notes(notes, "spreading rash", blind)
    assert next(notes.texts[hit.text] for hit in hits).startswith("Lamotrigine")
    assert found(notes, "insomniac")[0].startswith("Sleeps")


def test_an_empty_chart_has_nothing(tmp_path: Path) -> None:
    empty: Sequence[str] = (
        NoteOpener(Store.open(load(tmp_path / "r.db", [PATIENT])), encode)
        .open("p1")
        .texts
    )
    assert empty == []


def test_a_text_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []

    def count(texts: list[str]) -> np.ndarray:
        encoded.extend(texts)
        return np.arange(len(texts) * 2, dtype=np.float32).reshape(-1, 2)

    monkeypatch.setattr(note_index, "encode", count)
    vectors = note_index.RememberedVectors()
    first = vectors.encode(["a", "b", "a"])
    assert first.tolist() == [[0, 1], [2, 3], [0, 1]]
    assert vectors.encode(["b", "c"]).tolist() == [[2, 3], [0, 1]]
    assert encoded == ["a", "b", "c"]


@pytest.mark.parametrize(
    "question", ["What was his last TSH?", "Last TSH?", "TSH in 2024?"]
)
def test_a_sentence_that_does_not_name_the_test_is_no_value_of_it(
    notes: ChartNotes, question: str
) -> None:
    finder = NoteFinder(notes, encode, range(len(notes.texts)))
    assert all(finding.score < 0 for finding in finder.find(question))


def test_a_test_that_was_sent_is_below_its_value(tmp_path: Path) -> None:
    sent = note("d1", "Ferritin sent today.", "2024-02-01")
    value = note("d2", "Ferritin was 9 ng/mL.", "2023-02-01")
    path = load(tmp_path / "r.db", [PATIENT, sent, value])
    two = NoteOpener(Store.open(path), encode).open("p1")
    assert best(two, "What was the ferritin level?") == "Ferritin was 9 ng/mL."
