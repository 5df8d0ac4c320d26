"""The index of notes in a record's file: what it holds, and that it stays true."""

import json
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from archqa.chart.note_index import encode, index_notes, remove_note_index
from archqa.chart.notes import ChartNotes, NoteOpener
from archqa.errors import InputError
from archqa.fhir import Store
from archqa.notes.documents import Document
from tests.chart.charts import PATIENT, attachment, load, note

REPORT = {
    "resourceType": "DiagnosticReport",
    "id": "r1",
    "status": "final",
    "code": {"text": "Echo"},
    "subject": {"reference": "Patient/p1"},
    "effectiveDateTime": "2023-06-02",
    "performer": [{"display": "P. Adeyemi MD"}],
    "presentedForm": [attachment("<p>LVEF <b>42%</b>.</p>", "text/html")],
}
COMPOSITION = {
    "resourceType": "Composition",
    "id": "c1",
    "status": "final",
    "title": "Discharge summary",
    "subject": {"reference": "Patient/p1"},
    "date": "2022-01-01",
    "section": [
        {"title": "Course", "text": {"div": "<div>Ileus resolved.</div>"}},
        {"section": [{"text": {"div": "<div>Walks with a cane.</div>"}}]},
    ],
}


def opened(path: Path, patient: str = "p1") -> ChartNotes:
    return NoteOpener(Store.open(path), fails_to_encode).open(patient)


def fails_to_encode(texts: list[str]) -> Any:
    """The encoder of a record that is indexed: it must not be needed."""
    raise AssertionError(f"{len(texts)} texts were encoded anew")


def texts(notes: ChartNotes) -> list[str]:
    return [
        sentence.text
        for i in range(len(notes.documents))
        for sentence in notes.sentences(i)
    ]


def test_reports_and_compositions_are_read_beside_documents(tmp_path: Path) -> None:
    path = load(
        tmp_path / "r.db", [PATIENT, note("d1", "Eats well."), REPORT, COMPOSITION]
    )
    notes = opened(path)
    names = [
        (one.name, one.title, one.author, one.date[:10]) for one in notes.documents
    ]
    assert names == [
        ("DocumentReference/d1", "", "", "2024-01-01"),
        ("DiagnosticReport/r1", "Echo", "P. Adeyemi MD", "2023-06-02"),
        ("Composition/c1", "Discharge summary", "", "2022-01-01"),
    ]
    assert texts(notes) == [
        "Eats well.",
        "LVEF 42%.",
        "# Course",
        "Ileus resolved.",
        "Walks with a cane.",
    ]


def test_a_sentence_of_several_notes_is_one_text_with_its_first_and_last_date(
    tmp_path: Path,
) -> None:
    copied = [
        note(f"d{year}", "Never smoked.", f"{year}-05-01")
        for year in (2020, 2021, 2022)
    ]
    notes = opened(load(tmp_path / "r.db", [PATIENT, *copied]))
    assert notes.texts == ["Never smoked."]
    assert [place.document for place in notes.places[0]] == [0, 1, 2]
    assert [date[:10] for date in notes.dates_of(notes.places[0][0])] == [
        "2020-05-01",
        "2022-05-01",
    ]


def test_a_replaced_note_is_indexed_anew_and_leaves_nothing_of_the_old_one(
    tmp_path: Path,
) -> None:
    path = load(
        tmp_path / "r.db", [PATIENT, note("d1", "Takes warfarin."), note("d2", "Naps.")]
    )
    load(path, [note("d1", "Takes apixaban.")], index=False)
    with pytest.raises(AssertionError, match="encoded anew"):
        opened(path)
    report = index_notes(path, encode)
    assert (report.documents, report.notes) == (1, 1)
    notes = opened(path)
    assert sorted(notes.texts) == ["Naps.", "Takes apixaban."]
    assert notes.with_word("warfarin") == []
    assert len(notes.with_word("apixaban")) == 1
    with sqlite3.connect(path) as connection:
        stored = connection.execute("SELECT text FROM note_sentence").fetchall()
        assert connection.execute(
            "INSERT INTO note_words(note_words) VALUES ('integrity-check')"
        )
    assert ("Takes warfarin.",) not in stored


def test_a_note_whose_binary_comes_later_is_read_then(tmp_path: Path) -> None:
    referring = note("d1", "")
    referring["content"] = [
        {"attachment": {"contentType": "text/plain", "url": "Binary/b1"}}
    ]
    path = load(tmp_path / "r.db", [PATIENT, referring])
    assert [one.name for one in opened(path).unread] == ["DocumentReference/d1"]
    binary = {"resourceType": "Binary", "id": "b1", **attachment("Sleeps well.")}
    load(path, [binary])
    notes = opened(path)
    assert (texts(notes), notes.unread) == (["Sleeps well."], ())


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    elsewhere = note("d3", "")
    elsewhere["content"] = [
        {"attachment": {"contentType": "text/plain", "url": "https://x.example/1"}}
    ]
    picture = note("d1", b"\x89PNG", media_type="image/png")
    path = load(tmp_path / "r.db", [PATIENT, picture, note("d2", ""), elsewhere])
    reasons = {one.name[-2:]: one.reason for one in opened(path).unread}
    assert reasons == {
        "d1": "image/png",
        "d2": "damaged or empty",
        "d3": "kept on another server",
    }


@pytest.mark.parametrize("text", ["\u200b", "\x00", "a" * 3_000, "é\ud7ff"])
def test_an_odd_text_does_not_stop_the_index(tmp_path: Path, text: str) -> None:
    path = load(tmp_path / "r.db", [PATIENT, note("odd", text), note("d2", "Naps.")])
    assert "Naps." in texts(opened(path))


@pytest.mark.parametrize(
    "content",
    [
        None,
        "text",
        [None],
        [{"attachment": "text"}],
        [{"attachment": {"data": 5, "url": 7}}],
    ],
)
def test_a_document_of_another_form_does_not_stop_the_index(
    tmp_path: Path, content: Any
) -> None:
    odd = note("odd", "")
    odd |= {"content": content, "author": "Dr. X", "context": [], "type": "note"}
    path = load(tmp_path / "r.db", [PATIENT, odd, note("d2", "Naps.")])
    assert texts(opened(path)) == ["Naps."]


def test_a_superseded_note_is_none(tmp_path: Path) -> None:
    old = note("d1", "Takes warfarin.", status="superseded")
    notes = opened(load(tmp_path / "r.db", [PATIENT, old, note("d2", "Naps.")]))
    assert texts(notes) == ["Naps."]


def test_the_notes_of_a_patient_hold_nothing_of_another(tmp_path: Path) -> None:
    other = {**PATIENT, "id": "p2"}
    own, foreign = (
        note("d1", "Takes warfarin."),
        note("d2", "Takes warfarin daily.", patient="p2"),
    )
    path = load(tmp_path / "r.db", [PATIENT, other, own, foreign])
    assert opened(path, "p1").texts == ["Takes warfarin."]
    assert opened(path, "p2").texts == ["Takes warfarin daily."]
    assert len(opened(path, "p1").with_word("warfarin")) == 1


def test_without_an_index_the_notes_are_the_same(tmp_path: Path) -> None:
    resources = [PATIENT, note("d1", "Eats well. Naps.\nWalks."), REPORT, COMPOSITION]
    path = load(tmp_path / "r.db", resources)
    indexed = opened(path)
    remove_note_index(path)
    read = NoteOpener(Store.open(path), encode).open("p1")
    places = [
        [(one.name, one.starts, one.lines) for one in n.documents]
        for n in (read, indexed)
    ]
    assert places[0] == places[1]
    assert texts(read) == texts(indexed)
    assert sorted(read.texts) == sorted(indexed.texts)


def test_with_a_given_note_only_its_sentences_are_encoded(tmp_path: Path) -> None:
    path = load(tmp_path / "r.db", [PATIENT, note("d1", "Eats well. Naps.")])
    encoded: list[str] = []

    def count(new: list[str]) -> Any:
        encoded.extend(new)
        return encode(new)

    given = Document("the given note", "", "", "Eats well. Walks.")
    notes = NoteOpener(Store.open(path), count).open("p1", given)
    assert encoded == ["Walks."]
    assert sorted(notes.texts) == ["Eats well.", "Naps.", "Walks."]


def test_an_index_is_made_and_removed_in_the_records_own_private_file(
    tmp_path: Path,
) -> None:
    path = load(tmp_path / "r.db", [PATIENT, note("d1", "Eats well.")])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["r.db", "r.ndjson"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    remove_note_index(path)
    with sqlite3.connect(path) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE name LIKE 'note%'"
        )
        assert tables.fetchall() == []


def test_an_index_of_another_version_is_not_read_and_made_anew(tmp_path: Path) -> None:
    path = load(tmp_path / "r.db", [PATIENT, note("d1", "Eats well.")])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE note_version SET version = 0")
        connection.execute("UPDATE note_sentence SET text = 'of old'")
    assert NoteOpener(Store.open(path), encode).open("p1").texts == ["Eats well."]
    assert index_notes(path, encode).documents == 1
    assert opened(path).texts == ["Eats well."]


def test_no_index_is_made_where_there_is_no_record(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such record"):
        index_notes(tmp_path / "absent.db", encode)
    with pytest.raises(InputError, match="no such record"):
        remove_note_index(tmp_path / "absent.db")
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from archqa.chart import note_index
from archqa.chart.note_index import encode
note_index.DOCUMENTS_OF_A_BATCH = 1
calls = 0

def stops(texts):
    global calls
    calls += 1
    if calls == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return encode(texts)

note_index.index_notes(Path(sys.argv[1]), stops)
"""


def test_a_killed_indexing_loses_nothing_and_leaves_nothing_half(
    tmp_path: Path,
) -> None:
    resources = [
        PATIENT,
        *(note(f"d{i}", f"Fact {i}. Also fact {i}b.") for i in range(5)),
    ]
    path = load(tmp_path / "r.db", resources, index=False)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with Store.open(path) as store:
        assert store.counts()["DocumentReference"] == 5
        everything = NoteOpener(store, encode).open("p1")
        assert len(everything.texts) == 10
    report = index_notes(path, encode)
    assert report.documents == 3
    assert json.dumps(sorted(opened(path).texts)) == json.dumps(
        sorted(everything.texts)
    )
