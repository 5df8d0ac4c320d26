"""The names in a record: those of one patient's rows, and of the whole record."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from archqa.fhir import CodeCount, Record
from archqa.query.concepts.words import stem, stems
from archqa.query.everyday.tables import read_table
from archqa.query.model import RowKind


class Name(NamedTuple):
    """A display of the record, the kind of rows that have it, and whether this patient has any."""

    kind: RowKind
    display: str
    is_own: bool = True


class Vocabulary(Protocol):
    """What the grammar must know of a record and its patient."""

    @property
    def patient_names(self) -> frozenset[str]:
        """The words of the patient's names, in lower case."""
        ...

    def holding(self, words: tuple[str, ...]) -> tuple[Name, ...]:
        """The names that hold all the words, whole and in any number; this patient's if there are any."""
        ...

    def own(self, kind: RowKind) -> tuple[str, ...]:
        """The displays of one kind in this patient's rows."""
        ...


class NameIndex:
    """Names by their words."""

    def __init__(self, names: Iterable[Name]) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._places: dict[str, set[int]] = defaultdict(set)
        for place, name in enumerate(self.names):
            for word in stems(name.display):
                self._places[word].add(place)

    def holding(self, words: tuple[str, ...]) -> tuple[Name, ...]:
        """The names that hold all the words."""
        sets = [self._places.get(stem(word), set()) for word in words]
        if not sets:
            return ()
        return tuple(self.names[place] for place in sorted(set.intersection(*sets)))


class PatientVocabulary:
    """The vocabulary of one patient of a record."""

    def __init__(
        self, patient_names: Iterable[str], own: NameIndex, whole_record: NameIndex
    ) -> None:
        self._patient_names = frozenset(patient_names)
        self._own = own
        self._whole_record = whole_record

    @property
    def patient_names(self) -> frozenset[str]:
        """The words of the patient's names, in lower case."""
        return self._patient_names

    def holding(self, words: tuple[str, ...]) -> tuple[Name, ...]:
        """The names that hold all the words; this patient's if there are any."""
        return self._own.holding(words) or self._whole_record.holding(words)

    def own(self, kind: RowKind) -> tuple[str, ...]:
        """The displays of one kind in this patient's rows."""
        return tuple(name.display for name in self._own.names if name.kind == kind)


_CACHE: "WeakKeyDictionary[Record, dict[str, PatientVocabulary]]" = WeakKeyDictionary()
_WHOLE: "WeakKeyDictionary[Record, NameIndex]" = WeakKeyDictionary()


def patient_vocabulary(record: Record, patient: str) -> PatientVocabulary:
    """The vocabulary of a patient, cached as long as the record is open. Raises `FhirError`."""
    of_patient = _CACHE.setdefault(record, {})
    if patient not in of_patient:
        own = NameIndex(_names(record, patient))
        words = _patient_names(record, patient)
        of_patient[patient] = PatientVocabulary(words, own, _whole_record(record))
    return of_patient[patient]


def _whole_record(record: Record) -> NameIndex:
    if record not in _WHOLE:
        _WHOLE[record] = NameIndex(_names(record, None))
    return _WHOLE[record]


def _names(record: Record, patient: str | None) -> Iterator[Name]:
    for resource_type, kinds in _kinds_by_type().items():
        for code in record.codes(resource_type, patient):
            kind = kinds.get(code.element)
            if kind is not None:
                yield Name(kind, _display(code), is_own=patient is not None)


def _display(code: CodeCount) -> str:
    return " ".join((code.display or code.code).split())


@lru_cache
def _kinds_by_type() -> dict[str, dict[str, RowKind]]:
    """The kinds of rows by resource type and element."""
    kinds: dict[str, dict[str, RowKind]] = defaultdict(dict)
    for resource_type, element, kind in read_table("names.tsv"):
        kinds[resource_type][element] = kind  # type: ignore[assignment]
    return dict(kinds)


def _patient_names(record: Record, patient: str) -> Iterator[str]:
    """The words of the names of the patient, without the digits of synthetic ones (`Von197`)."""
    for resource in record.search_all(f"Patient?_id={patient}"):
        for name in resource.get("name") or ():
            for text in (name.get("family"), name.get("text"), *(name.get("given") or ())):
                for word in str(text or "").lower().split():
                    yield word
                    yield word.rstrip("0123456789")
