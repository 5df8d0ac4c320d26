"""The names in a record: those of one patient's rows, and of the whole record."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary, ref

from archqa.core.tables import read_rows
from archqa.fhir import Record, Store
from archqa.fhir.values.element_types import is_well_formed
from archqa.query.model import RowKind
from archqa.terminology.words import common_form, common_forms


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

    @property
    def gender(self) -> str:
        """The patient's gender, as `Patient.gender`; empty if it is not recorded."""
        ...

    @property
    def has_family_history(self) -> bool:
        """Whether the record tells of the patient's relatives."""
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
            for word in common_forms(name.display):
                self._places[word].add(place)

    def holding(self, words: tuple[str, ...]) -> tuple[Name, ...]:
        """The names that hold all the words."""
        sets = [self._places.get(common_form(word), set()) for word in words]
        if not sets:
            return ()
        return tuple(self.names[place] for place in sorted(set.intersection(*sets)))


@dataclass
class PatientVocabulary:
    """The vocabulary of one patient of a record; what is slow to read is read when it is needed."""

    read_patient_names: Callable[[], Iterable[str]]
    read_own: Callable[[], NameIndex]
    read_whole_record: Callable[[], NameIndex]
    read_gender: Callable[[], str] = str
    read_family_history: Callable[[], bool] = bool

    @cached_property
    def patient_names(self) -> frozenset[str]:
        """The words of the patient's names, in lower case."""
        return frozenset(self.read_patient_names())

    @cached_property
    def gender(self) -> str:
        """The patient's gender, as `Patient.gender`; empty if it is not recorded."""
        return self.read_gender()

    @cached_property
    def has_family_history(self) -> bool:
        """Whether the record tells of the patient's relatives."""
        return self.read_family_history()

    @cached_property
    def _own(self) -> NameIndex:
        return self.read_own()

    @cached_property
    def _whole_record(self) -> NameIndex:
        return self.read_whole_record()

    def holding(self, words: tuple[str, ...]) -> tuple[Name, ...]:
        """The names that hold all the words; this patient's if there are any."""
        return self._own.holding(words) or self._whole_record.holding(words)

    @property
    def displays(self) -> tuple[str, ...]:
        """The displays of all kinds in this patient's rows."""
        return tuple(name.display for name in self._own.names)

    def own(self, kind: RowKind) -> tuple[str, ...]:
        """The displays of one kind in this patient's rows."""
        return tuple(name.display for name in self._own.names if name.kind == kind)


_CACHE: "WeakKeyDictionary[Record, dict[str, PatientVocabulary]]" = WeakKeyDictionary()
_INDEXES: "WeakKeyDictionary[Record, dict[str | None, NameIndex]]" = WeakKeyDictionary()
_STORE_INDEXES: dict[tuple[str, int, int, str | None], NameIndex] = {}
"""By path, time of change, size and patient: a store is opened anew for each question."""

_MAX_STORE_INDEXES = 64


def patient_vocabulary(record: Record, patient: str) -> PatientVocabulary:
    """The vocabulary of a patient, cached as long as the record is open.

    What it looks up raises `FhirError` as the record does.
    """
    of_patient = _CACHE.setdefault(record, {})
    if patient not in of_patient:
        opened = ref(record)  # The cache would otherwise keep the record open.
        of_patient[patient] = PatientVocabulary(
            lambda: _patient_names(_record_of(opened), patient),
            lambda: _index(_record_of(opened), patient),
            lambda: _index(_record_of(opened), None),
            lambda: _gender(_record_of(opened), patient),
            lambda: _has_family_history(_record_of(opened), patient),
        )
    return of_patient[patient]


def _record_of(reference: "ref[Record]") -> Record:
    record = reference()
    if record is None:
        raise RuntimeError("The record was closed before its vocabulary was read.")
    return record


def _index(record: Record, patient: str | None) -> NameIndex:
    """The names of a patient, or of all; those of all patients of a large record take a second."""
    if not isinstance(record, Store):
        by_patient = _INDEXES.setdefault(record, {})
        if patient not in by_patient:
            by_patient[patient] = NameIndex(_names(record, patient))
        return by_patient[patient]
    state = record.path.stat()
    key = (str(record.path), state.st_mtime_ns, state.st_size, patient)
    if key not in _STORE_INDEXES:
        while len(_STORE_INDEXES) >= _MAX_STORE_INDEXES:
            _STORE_INDEXES.pop(next(iter(_STORE_INDEXES)), None)
        _STORE_INDEXES[key] = NameIndex(_names(record, patient))
    return _STORE_INDEXES[key]


def _names(record: Record, patient: str | None) -> Iterator[Name]:
    for resource_type, kinds in _kinds_by_type().items():
        for code in record.codes(resource_type, patient):
            kind = kinds.get(code.element)
            if kind is not None:
                display = " ".join((code.display or code.code).split())
                yield Name(kind, display, is_own=patient is not None)


@lru_cache
def _kinds_by_type() -> dict[str, dict[str, RowKind]]:
    """The kinds of rows by resource type and element."""
    kinds: dict[str, dict[str, RowKind]] = defaultdict(dict)
    for resource_type, element, kind in read_rows(
        "query/questions/everyday/data/names.tsv", 3
    ):
        kinds[resource_type][element] = kind  # type: ignore[assignment]
    return dict(kinds)


def _has_family_history(record: Record, patient: str) -> bool:
    search = f"FamilyMemberHistory?patient={patient}&_count=1"
    return any(True for _ in record.search_all(search))


def _gender(record: Record, patient: str) -> str:
    """The gender of the patient, as `Patient.gender`."""
    patients = filter(is_well_formed, record.search_all(f"Patient?_id={patient}"))
    genders = (resource.get("gender") for resource in patients)
    return next((str(gender) for gender in genders if gender), "")


def _patient_names(record: Record, patient: str) -> Iterator[str]:
    """The words of the names of the patient, without the digits of synthetic ones (`Von197`)."""
    patients = record.search_all(f"Patient?_id={patient}")
    for resource in filter(is_well_formed, patients):
        for name in resource.get("name") or ():
            for text in (
                name.get("family"),
                name.get("text"),
                *(name.get("given") or ()),
            ):
                for word in str(text or "").lower().split():
                    yield word
                    yield word.rstrip("0123456789")
