"""The names that occur in a record: labs, charted items, drugs, specimens, and so on, looked up by their words."""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from archqa.fhir import CodeCount, Record
from archqa.fhir.values.tokens import normalise_text
from archqa.query.grammar.text import lookup_key

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
_SYSTEMS: dict[str, tuple[NameKind, ...]] = {
    "mimic-d-labitems": ("lab",),
    "mimic-chartevents-d-items": ("vital",),
    "mimic-d-items": ("output",),
    "mimic-microbiology-test": ("microbiology_test",),
    "mimic-microbiology-organism": ("organism",),
    "mimic-microbiology-antibiotic": ("antibiotic",),
}
_ANY_OBSERVATION: tuple[NameKind, ...] = ("lab", "vital")
_TYPES = ("Observation", "Specimen", "Medication", "Procedure", "Condition")
_THEIRS = ("Observation", "Specimen", "Procedure", "Condition")


class VocabularyEntry(NamedTuple):
    """A name as the record has it. `said` is how it was looked up: exactly, or by a synonym."""

    kind: NameKind
    display: str
    said: Literal["exact", "synonym"] = "exact"


_REORDERED: frozenset[NameKind] = frozenset(
    {"lab", "medication", "specimen", "procedure", "diagnosis", "output"}
)


def sort_words(said: str) -> str:
    """ "urine sodium" and "sodium urine" alike."""
    return " ".join(sorted(said.split()))


class Vocabulary:
    """Names by the words they are made of."""

    def __init__(self, names: Iterable[VocabularyEntry]) -> None:
        self.by_key: dict[str, list[VocabularyEntry]] = defaultdict(list)
        for name in dict.fromkeys(names):
            if lookup_key(name.display):
                self.by_key[lookup_key(name.display)].append(name)
        for synonym in synonyms():
            if synonym.kind in {"route", "admission_source"}:
                self.by_key[synonym.said] += [
                    VocabularyEntry(synonym.kind, name) for name in synonym.names
                ]
        self._add_synonyms()
        self.by_sorted_words: dict[str, list[VocabularyEntry]] = defaultdict(list)
        for said, found in self.by_key.items():
            if " " in said:
                self.by_sorted_words[sort_words(said)] += [
                    name for name in found if name.kind in _REORDERED
                ]
        self.longest = max((found.count(" ") + 1 for found in self.by_key), default=1)
        self.single = frozenset(
            found for found in self.by_key if " " not in found and len(found) > 5
        )
        self.words = frozenset(
            word for found in self.by_key for word in found.split() if len(word) > 3
        )

    def of_kind(self, kind: NameKind) -> dict[str, list[str]]:
        """Keys and displays of one kind."""
        if kind not in self._by_kind:
            self._by_kind[kind] = {
                said: displays
                for said, names in self.by_key.items()
                if (displays := [name.display for name in names if name.kind == kind])
            }
        return self._by_kind[kind]

    def _add_synonyms(self) -> None:
        self._by_kind: dict[NameKind, dict[str, list[str]]] = {}
        for synonym in synonyms():
            targets = [
                name
                for target in synonym.names
                for name in self.by_key.get(lookup_key(target), [])
                if name.kind == synonym.kind and name.said == "exact"
            ]
            known = {
                name.kind for name in self.by_key.get(synonym.said, []) if name.said == "exact"
            }
            named = [target for target in targets if synonym.said in lookup_key(target.display)]
            targets = (
                named
                if len(named) < len(targets) and named and synonym.kind == "medication"
                else targets
            )
            if targets and synonym.kind not in known:
                self.by_key[synonym.said] += [target._replace(said="synonym") for target in targets]


class Synonym(NamedTuple):
    """What clinicians say, and what it may be called in a record."""

    kind: NameKind
    said: str
    names: tuple[str, ...]


@lru_cache
def synonyms() -> tuple[Synonym, ...]:
    """The general abbreviations and synonyms, from `data/synonyms.tsv`."""
    found = []
    for line in read_table("synonyms.tsv"):
        kind, sayings, names = line
        for said in sayings.split(","):
            found.append(
                Synonym(kind, lookup_key(said), tuple(name.strip() for name in names.split("|")))
            )  # type: ignore[arg-type]
    return tuple(found)


def read_table(name: str) -> list[list[str]]:
    """The lines of a table in `data`, without comments, split at tabs."""
    text = files("archqa.query.grammar").joinpath("data", name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [[cell.strip() for cell in re.split(r"\t+", line)] for line in lines]


class RecordVocabulary:
    """The vocabulary of a record, gathered when it is first needed, and who of its patients has which names."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._vocabulary: Vocabulary | None = None
        self._theirs: dict[str, frozenset[tuple[NameKind, str]]] = {}

    @property
    def vocabulary(self) -> Vocabulary:
        """All names of the record."""
        if self._vocabulary is None:
            self._vocabulary = Vocabulary([*_names(self._record, None), *_units(self._record)])
        return self._vocabulary

    def theirs(self, patient: str) -> frozenset[tuple[NameKind, str]]:
        """Kinds and folded names that occur in a patient's own observations, procedures and conditions."""
        if patient not in self._theirs:
            self._theirs[patient] = frozenset(
                (name.kind, normalise_text(name.display)) for name in _names(self._record, patient)
            )
        return self._theirs[patient]


_KEPT: "WeakKeyDictionary[Record, RecordVocabulary]" = WeakKeyDictionary()


def record_vocabulary(record: Record) -> RecordVocabulary:
    """The names of a record; kept as long as the record is open."""
    found = _KEPT.get(record)
    if found is None:
        found = _KEPT[record] = RecordVocabulary(record)
    return found


def _names(record: Record, patient: str | None) -> Iterable[VocabularyEntry]:
    for resource_type in _TYPES if patient is None else _THEIRS:
        for code in record.codes(resource_type, patient):
            if code.element.split(".")[0] in _ELEMENTS:
                for kind in _kinds(code):
                    yield VocabularyEntry(kind, " ".join((code.display or code.code).split()))


_ELEMENTS = {"code", "type", "identifier"}


def _kinds(code: CodeCount) -> tuple[NameKind, ...]:
    system = code.system.rsplit("/", 1)[-1]
    if code.type == "Observation":
        return _SYSTEMS.get(system, () if system.startswith("mimic-") else _ANY_OBSERVATION)
    if code.type == "Medication":
        return ("medication",) if code.display or system.endswith("medication-name") else ()
    if code.type == "Specimen":
        return () if system.endswith("lab-fluid") or not code.display else ("specimen",)
    if code.type == "Procedure":
        return () if system == "mimic-d-items" or code.element == "category" else ("procedure",)
    return ("diagnosis",)


def _units(record: Record) -> Iterable[VocabularyEntry]:
    for location in record.search_all("Location"):
        if isinstance(location.get("name"), str):
            yield VocabularyEntry("care_unit", " ".join(location["name"].split()))
