"""The numbers that decide which sentences of notes answer: each changes what it is said to change."""

from collections.abc import Callable
from datetime import datetime
from math import exp
from pathlib import Path

import pytest

from archqa.chart.findings import ReadSentence, Relevance, places_to_read
from archqa.chart.note_index import encode
from archqa.chart.notes import ChartNotes, NoteOpener, Place
from archqa.chart.search import NO_LIMITS, Hit, NoteLimits
from archqa.chart.weights import WEIGHTS, read_weights
from archqa.errors import InputError
from archqa.fhir import Store
from archqa.notes.assertion import Passage
from archqa.query.execution.time_windows import Window
from tests.chart.charts import PATIENT, load, note

LINES = (
    "He has psoriasis.",
    "It itches.",
    "He plays chess.",
    "Seen in 2019.",
    "Psoriasis was documented in error.",
)
OLD = "He paints."
Gain = Callable[..., float]


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> ChartNotes:
    echo = {"type": {"text": "Echo report"}}
    resources = [
        PATIENT,
        note("new", "\n".join(LINES), "2026-03-12"),
        note("echo", "Normal valves.", "2026-03-12", **echo),
        note("old", OLD, "2023-03-12"),
    ]
    path = load(tmp_path_factory.mktemp("weights") / "r.db", resources)
    return NoteOpener(Store.open(path), encode).open("p1")


@pytest.fixture(scope="module")
def gain(notes: ChartNotes) -> Gain:
    def gain_of(
        question: str,
        text: str,
        *,
        heading: str = "",
        asks_present: bool = False,
        limits: NoteLimits = NO_LIMITS,
    ) -> float:
        place = notes.places[notes.texts.index(text)][0]
        relevance = Relevance(notes, question, limits, asks_present=asks_present)
        passage = Passage(text, heading)
        read = ReadSentence(place, notes.sentence_at(place), passage, is_evidence=True)
        return float(relevance.gains([read])[0])

    return gain_of


@pytest.mark.parametrize(
    ("question", "text", "heading", "expected"),
    [
        ("Psoriasis?", "He has psoriasis.", "", 4.0),
        ("Psoriasis?", "He plays chess.", "", -5.0),
        ("Psoriasis?", "He plays chess.", "Psoriasis", 4.0 * 0.6),
        ("Psoriasis?", "It itches.", "", 4.0 * 0.4),
        ("What did the echo show?", "Normal valves.", "Impression", 4.0 * 0.6 + 5.0),
    ],
)
def test_what_a_sentence_is_about_counts(
    gain: Gain, question: str, text: str, heading: str, expected: float
) -> None:
    assert gain(question, text, heading=heading) == pytest.approx(expected)


def test_a_sentence_of_the_time_that_is_asked_about_gains_and_another_loses(
    gain: Gain,
) -> None:
    in_2026 = NoteLimits(window=Window(datetime(2026, 1, 1), datetime(2027, 1, 1)))
    in_2019 = NoteLimits(window=Window(datetime(2019, 1, 1), datetime(2020, 1, 1)))
    assert gain("Chess?", "He plays chess.", limits=in_2026) == pytest.approx(4.0 + 1.5)
    assert gain("Chess?", "He plays chess.", limits=in_2019) == pytest.approx(4.0 - 3.0)
    assert gain("Seen?", "Seen in 2019.", limits=in_2019) == pytest.approx(4.0)


def test_the_newest_note_and_corrections_gain_where_the_present_is_asked(
    gain: Gain,
) -> None:
    assert gain("Chess?", "He plays chess.", asks_present=True) == pytest.approx(
        4.0 + 4.0
    )
    three_years = 1096 / 365.25
    recency = 4.0 * exp(-three_years / 1.5)
    assert gain("Paints?", OLD, asks_present=True) == pytest.approx(
        4.0 + recency, abs=0.01
    )
    correction = "Psoriasis was documented in error."
    assert gain("Psoriasis?", correction, asks_present=True) == pytest.approx(
        4.0 + 4.0 + 2.5
    )
    assert gain("Chess?", correction, asks_present=True) == pytest.approx(-5.0 + 4.0)


def test_notes_with_the_best_hits_are_read_whole_and_others_around_their_hits(
    tmp_path: Path,
) -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
    resources = [PATIENT]
    for day in range(1, 6):
        text = "\n".join(f"Note {day} says {word}." for word in words)
        resources.append(note(f"d{day}", text, f"2024-01-0{day}"))
    long = "\n".join(f"Line {number} of a long note." for number in range(61))
    resources.append(note("long", long, "2023-01-01"))
    store = Store.open(load(tmp_path / "r.db", resources))
    several = NoteOpener(store, encode).open("p1")
    hits = [Hit(0, Place(5, 30), 9.0)]
    hits += [Hit(0, Place(document, 4), 5.0 - document) for document in range(5)]
    hits += [Hit(0, Place(4, position), 0.9) for position in (0, 1, 2)]
    read = places_to_read(several, hits, 90)
    by_note = {
        document: [p.sentence for p in read if p.document == document]
        for document in range(6)
    }
    # 61 sentences are too many; notes 0 and 1 are the next two of the three best.
    assert by_note[5] == [29, 30, 31]
    assert by_note[0] == by_note[1] == list(range(8))
    assert by_note[2] == by_note[3] == [3, 4, 5]
    assert by_note[4] == [0, 1, 2, 3, 4, 5]


def test_limits_of_reading_and_showing_are_those_of_the_table() -> None:
    """What no small chart shows: the docs state these numbers, and a change needs measuring."""
    limits = (
        WEIGHTS.hits,
        WEIGHTS.max_read,
        WEIGHTS.max_read_of_parts,
        WEIGHTS.min_read,
    )
    assert limits == (60, 90, 105, 35)
    search = (
        WEIGHTS.bm25_saturation,
        WEIGHTS.bm25_length,
        WEIGHTS.fusion,
        WEIGHTS.title_term,
    )
    assert search == (1.2, 0.5, 20, 0.5)
    one_answer = (WEIGHTS.min_score, WEIGHTS.margin, WEIGHTS.max_lines)
    assert one_answer == (1, 5, 3)
    all_answers = (
        WEIGHTS.min_score_of_all,
        WEIGHTS.margin_of_all,
        WEIGHTS.max_lines_of_all,
    )
    assert all_answers == (-1, 6, 6)
    rest = (WEIGHTS.max_words_of_line, WEIGHTS.min_template_uses, WEIGHTS.hits_of_note)
    assert rest == (70, 3, 3)
    assert (WEIGHTS.min_coverage, WEIGHTS.min_coverage_to_correct) == (0.05, 0.5)


def test_a_table_of_weights_with_mistakes_names_all_of_them(tmp_path: Path) -> None:
    table = tmp_path / "weights.tsv"
    rows = [
        "about\tsix\tmeaning\tby hand",
        "abuot\t6\tmeaning\tby hand",
        "newest\t4\t\tby hand",
    ]
    table.write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(InputError) as raised:
        read_weights(table)
    text = str(raised.value)
    assert "about is 'six'; expected a number." in text
    assert "abuot is no weight." in text
    assert "newest needs a meaning and a provenance." in text
    assert "fusion is missing." in text
