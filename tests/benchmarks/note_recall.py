"""Recall of the search in a patient's notes: python -m tests.benchmarks.note_recall QUESTIONS.json RECORD.db

Of the quotes of a set about charts, the share whose sentence is among the first 10, 20 and 40 that are
found, and among the 90 that are read.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

from archqa.chart.findings import places_to_read
from archqa.chart.note_index import encode
from archqa.chart.notes import NoteOpener, own_texts
from archqa.chart.search import search_notes
from archqa.chart.weights import WEIGHTS
from archqa.fhir import Store
from archqa.query.questions.everyday import patient_vocabulary

FIRST = (10, 20, 40)
_TAGS, _MARKS = re.compile(r"<[^>]+>"), re.compile(r"\W+")
_MIN_SHARE = 0.3
"""Of a quote's characters that a sentence must have."""


def main(questions: Path, record: Path) -> None:
    """Print the shares."""
    asked = [row for row in json.loads(questions.read_text()) if row.get("quotes")]
    found: Counter[str] = Counter()
    with Store.open(record) as store:
        patient = asked[0]["patient"]
        notes = NoteOpener(store, encode).open(patient)
        displays = patient_vocabulary(store, patient).displays
        own = own_texts(notes.texts, frozenset(name.casefold() for name in displays))
        for row in asked:
            hits = search_notes(notes, row["q"], encode, texts=own, count=60)
            places = places_to_read(notes, hits, WEIGHTS.max_read)
            read = [notes.sentence_at(place).text for place in places]
            for quote in row["quotes"]:
                ranks = [
                    i
                    for i, hit in enumerate(hits)
                    if _has(notes.texts[hit.text], quote)
                ]
                found.update(f"first {k}" for k in FIRST if ranks and ranks[0] < k)
                found["read"] += any(_has(text, quote) for text in read)
                found["quotes"] += 1
    for name in (*(f"first {k}" for k in FIRST), "read"):
        print(f"{name:9} {found[name] / found['quotes']:.3f} of {found['quotes']}")


def _has(text: str, quote: str) -> bool:
    sentence, sought = _plain(text), _plain(quote)
    is_part = sentence in sought or sought in sentence
    return is_part and len(sentence) > _MIN_SHARE * len(sought)


def _plain(text: str) -> str:
    return _MARKS.sub(" ", _TAGS.sub("", text)).casefold().strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
