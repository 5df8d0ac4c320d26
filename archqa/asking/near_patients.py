"""Patients whose names are written almost as what was typed: to choose from, never to be assumed."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import islice

from archqa.asking.candidates import PatientMatch
from archqa.asking.patient import patient_match
from archqa.asking.patient_names import read_name
from archqa.fhir import FhirError, Record
from archqa.fhir.values.text import normalise_text

_MOST_SHOWN = 5
_MAX_READ = 500
_FIRST_LETTERS = 2
"""Letters at the beginning of a word that a slip of the pen leaves as they are."""

_NEAR = 0.7
"""The least similarity of every typed word with one of the name (`difflib`, from 0 to 1)."""


def near_patients(record: Record, text: str) -> tuple[PatientMatch, ...]:
    """Return the patients with the most similar names, the most similar first; five at most.

    A server that knows no search by name has none.
    """
    name = read_name(text)
    if name is None:
        return ()
    matches: dict[str, PatientMatch] = {}
    for beginning in name.beginnings:
        for match in _with_beginning(record, beginning[:_FIRST_LETTERS]):
            matches.setdefault(match.id, match)
    likeness = {match.id: _likeness(name.words, match) for match in matches.values()}
    near = [match for match in matches.values() if likeness[match.id] >= _NEAR]
    near.sort(key=lambda match: (-likeness[match.id], match.name, match.id))
    return tuple(near[:_MOST_SHOWN])


def _with_beginning(record: Record, letters: str) -> Iterator[PatientMatch]:
    params = [("name", letters), ("_count", "100")]
    try:
        yield from map(patient_match, islice(record.search_all("Patient", params), _MAX_READ))
    except FhirError:
        return


def _likeness(words: tuple[str, ...], match: PatientMatch) -> float:
    """Return the similarity of the typed word that is least like any word of the name."""
    own_words = normalise_text(match.name).split()
    if not own_words:
        return 0.0
    return min(max(_similarity(word, own) for own in own_words) for word in words)


def _similarity(first: str, second: str) -> float:
    return SequenceMatcher(None, first, second, autojunk=False).ratio()
