"""The names in a record: labs, charted items, drugs, specimens and so on, found by their words."""

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple, cast
from weakref import WeakKeyDictionary

from archqa.core.tables import read_rows, split_cell
from archqa.fhir import CodeCount, Record
from archqa.fhir.values.text import normalise_text
from archqa.query.questions.ehrsql.text import lookup_key

NameKind = Literal[
    "lab",
    "vital",
    "output",
    "microbiology_test",
    "organism",
    "antibiotic",
    "specimen",
    "medication",
    "procedure",
    "diagnosis",
    "care_unit",
    "route",
    "admission_source",
]

# By what a code system's name ends in: MIMIC-IV on FHIR, section "Sets" of its documentation.
_KINDS_OF_SYSTEM: dict[str, tuple[NameKind, ...]] = {
    "mimic-d-labitems": ("lab",),
    "mimic-chartevents-d-items": ("vital",),
    "mimic-d-items": ("output",),
    "mimic-microbiology-test": ("microbiology_test",),
    "mimic-microbiology-organism": ("organism",),
    "mimic-microbiology-antibiotic": ("antibiotic",),
}
_ANY_OBSERVATION: tuple[NameKind, ...] = ("lab", "vital")
_TYPES = ("Observation", "Specimen", "Medication", "Procedure", "Condition")
_PATIENT_TYPES = ("Observation", "Specimen", "Procedure", "Condition")


_ELEMENTS = {"code", "type", "identifier"}
_REORDERED_KINDS: frozenset[NameKind] = frozenset(
    {"lab", "medication", "specimen", "procedure", "diagnosis", "output"}
)

PatientNames = frozenset[tuple[NameKind, str]]
"""Kinds and folded names that occur in a patient's own resources."""


class VocabularyEntry(NamedTuple):
    """A name as the record has it, and whether it is found exactly or by a synonym."""

    kind: NameKind
    display: str
    match_type: Literal["exact", "synonym"] = "exact"


class Synonym(NamedTuple):
    """A phrase of clinicians, and the names it may have in a record."""

    kind: NameKind
    phrase: str
    names: tuple[str, ...]


def sort_words(phrase: str) -> str:
    """ "urine sodium" and "sodium urine" alike."""
    return " ".join(sorted(phrase.split()))


class Vocabulary:
    """Names by the words they are made of."""

    def __init__(self, entries: Iterable[VocabularyEntry]) -> None:
        self._names_of_kind: dict[NameKind, dict[str, list[str]]] = {}
        self.by_key: dict[str, list[VocabularyEntry]] = defaultdict(list)
        for entry in dict.fromkeys(entries):
            key = lookup_key(entry.display)
            if key:
                self.by_key[key].append(entry)
        self._add_codes()
        self._add_synonyms()
        self.by_sorted_words = self._index_sorted_words()
        self.max_words = 1
        single_words: set[str] = set()
        words: set[str] = set()
        for key in self.by_key:
            key_words = key.split()
            self.max_words = max(self.max_words, len(key_words))
            if len(key_words) == 1 and len(key) > 5:
                single_words.add(key)
            words.update(word for word in key_words if len(word) > 3)
        self.single_words = frozenset(single_words)
        self.words = frozenset(words)

    def names_of_kind(self, kind: NameKind) -> dict[str, list[str]]:
        """Keys and displays of one kind."""
        if kind not in self._names_of_kind:
            names: dict[str, list[str]] = defaultdict(list)
            for key, entries in self.by_key.items():
                for entry in entries:
                    if entry.kind == kind:
                        names[key].append(entry.display)
            self._names_of_kind[kind] = dict(names)
        return self._names_of_kind[kind]

    def _add_codes(self) -> None:
        """Routes and admission sources are codes, which no record lists as names."""
        for synonym in synonyms():
            if synonym.kind in {"route", "admission_source"}:
                for name in synonym.names:
                    self.by_key[synonym.phrase].append(VocabularyEntry(synonym.kind, name))

    def _add_synonyms(self) -> None:
        for synonym in synonyms():
            entries = self._synonym_entries(synonym)
            if self._has_exact(synonym.phrase, synonym.kind):
                continue
            for entry in entries:
                inexact_entry = entry._replace(match_type="synonym")
                self.by_key[synonym.phrase].append(inexact_entry)

    def _synonym_entries(self, synonym: Synonym) -> list[VocabularyEntry]:
        entries = []
        for name in synonym.names:
            for entry in self.by_key.get(lookup_key(name), []):
                if entry.kind == synonym.kind and entry.match_type == "exact":
                    entries.append(entry)
        if synonym.kind != "medication":
            return entries
        same_wording = [entry for entry in entries if synonym.phrase in lookup_key(entry.display)]
        return same_wording or entries

    def _has_exact(self, phrase: str, kind: NameKind) -> bool:
        entries = self.by_key.get(phrase, [])
        return any(entry.kind == kind and entry.match_type == "exact" for entry in entries)

    def _index_sorted_words(self) -> dict[str, list[VocabularyEntry]]:
        index: dict[str, list[VocabularyEntry]] = defaultdict(list)
        for key, entries in self.by_key.items():
            if " " not in key:
                continue
            for entry in entries:
                if entry.kind in _REORDERED_KINDS:
                    index[sort_words(key)].append(entry)
        return index


@lru_cache
def synonyms() -> tuple[Synonym, ...]:
    """The general abbreviations and synonyms, from `record_names.tsv`."""
    result = []
    for kind, phrases, names in read_rows("terminology/data/record_names.tsv", 3):
        name_kind = cast("NameKind", kind)
        for phrase in split_cell(phrases):
            result.append(Synonym(name_kind, lookup_key(phrase), split_cell(names)))
    return tuple(result)


class RecordVocabulary:
    """The vocabulary of a record, built when first needed, and the names of each patient."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._vocabulary: Vocabulary | None = None
        self._patient_names: dict[str, PatientNames] = {}

    @property
    def vocabulary(self) -> Vocabulary:
        """All names of the record."""
        if self._vocabulary is None:
            coded_names = _coded_names(self._record, None)
            care_unit_names = _care_unit_names(self._record)
            self._vocabulary = Vocabulary([*coded_names, *care_unit_names])
        return self._vocabulary

    def patient_names(self, patient: str) -> PatientNames:
        """Names that occur in a patient's own observations, procedures and conditions."""
        if patient not in self._patient_names:
            names = set()
            for entry in _coded_names(self._record, patient):
                names.add((entry.kind, normalise_text(entry.display)))
            self._patient_names[patient] = frozenset(names)
        return self._patient_names[patient]


_CACHE: "WeakKeyDictionary[Record, RecordVocabulary]" = WeakKeyDictionary()


def record_vocabulary(record: Record) -> RecordVocabulary:
    """The vocabulary of a record, cached as long as the record is open."""
    if record not in _CACHE:
        _CACHE[record] = RecordVocabulary(record)
    return _CACHE[record]


def _coded_names(record: Record, patient: str | None) -> Iterable[VocabularyEntry]:
    resource_types: tuple[str, ...] = _TYPES
    if patient is not None:
        resource_types = _PATIENT_TYPES
    for resource_type in resource_types:
        for code in record.codes(resource_type, patient):
            element = code.element.split(".")[0]
            if element not in _ELEMENTS:
                continue
            display = " ".join((code.display or code.code).split())
            for kind in _kinds_of_code(code):
                yield VocabularyEntry(kind, display)


def _kinds_of_code(code: CodeCount) -> tuple[NameKind, ...]:
    system = code.system.rsplit("/", 1)[-1]
    if code.type == "Observation":
        return _kinds_of_observation(system)
    if code.type == "Medication":
        is_name = bool(code.display) or system.endswith("medication-name")
        kind: NameKind = "medication"
    elif code.type == "Specimen":
        is_name = bool(code.display) and not system.endswith("lab-fluid")
        kind = "specimen"
    elif code.type == "Procedure":
        is_name = system != "mimic-d-items" and code.element != "category"
        kind = "procedure"
    else:
        is_name = True
        kind = "diagnosis"
    if not is_name:
        return ()
    return (kind,)


def _kinds_of_observation(system: str) -> tuple[NameKind, ...]:
    if system in _KINDS_OF_SYSTEM:
        return _KINDS_OF_SYSTEM[system]
    if system.startswith("mimic-"):
        return ()
    return _ANY_OBSERVATION


def _care_unit_names(record: Record) -> Iterable[VocabularyEntry]:
    for location in record.search_all("Location"):
        name = location.get("name")
        if isinstance(name, str):
            yield VocabularyEntry("care_unit", " ".join(name.split()))
