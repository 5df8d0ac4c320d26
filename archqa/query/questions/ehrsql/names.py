"""Clinical names: those of a record, and the longest word sequences of a question that name them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, cast, get_args
from weakref import WeakKeyDictionary

from archqa.core.tables import read_rows, split_cell
from archqa.fhir import CodeCount, Record
from archqa.fhir.values.text import normalise_text
from archqa.query.questions.lexer import Token, letters_and_numbers, lookup_key
from archqa.terminology.cues import names_by_code
from archqa.terminology.words import word_list

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
        # Routes and admission sources are codes, which no record lists as names.
        for synonym in synonyms():
            if synonym.kind in {"route", "admission_source"}:
                for name in synonym.names:
                    self.by_key[synonym.phrase].append(
                        VocabularyEntry(synonym.kind, name)
                    )
        for synonym in synonyms():
            entries = self._synonym_entries(synonym)
            if entries and not self._exact_entries(synonym.phrase, synonym.kind):
                self.by_key[synonym.phrase] += entries
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

    def _exact_entries(self, key: str, kind: NameKind) -> list[VocabularyEntry]:
        entries = self.by_key.get(key, [])
        return [
            entry
            for entry in entries
            if entry.kind == kind and entry.match_type == "exact"
        ]

    def _synonym_entries(self, synonym: Synonym) -> list[VocabularyEntry]:
        entries = []
        for name in synonym.names:
            for entry in self._exact_entries(lookup_key(name), synonym.kind):
                entries.append(entry._replace(match_type="synonym"))
        if synonym.kind != "medication":
            return entries
        same_wording = [
            entry for entry in entries if synonym.phrase in lookup_key(entry.display)
        ]
        return same_wording or entries

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
        kind_of_rows = names_by_code("kind of code system").get(system)
        if kind_of_rows == "susceptibility":
            return ("antibiotic",)
        if kind_of_rows is not None:
            return (cast("NameKind", kind_of_rows),)
        if system.startswith("mimic-"):
            return ()
        return _ANY_OBSERVATION
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
    return (kind,) if is_name else ()


def _care_unit_names(record: Record) -> Iterable[VocabularyEntry]:
    for location in record.search_all("Location"):
        name = location.get("name")
        if isinstance(name, str):
            yield VocabularyEntry("care_unit", " ".join(name.split()))


_NO_NAME = word_list("no name alone")
_CULTURE = word_list("culture word")
_AFTER_SHORT_NAME = word_list("after a short name")
_MAX_REORDERED_WORDS = 8
MatchType = Literal["exact", "synonym"]
_WEIGHT = {"exact": 2.5, "synonym": 2.0, "literal": 1.0}
_QUOTED = re.compile(
    r"""(?<!\w)(?P<mark>['"])(?P<name>[^'"]{1,120}|(?!(?P=mark)).+?)(?P=mark)(?!\w)"""
)


class Candidate(NamedTuple):
    """Names that a word sequence may mean.

    match_type: exact, synonym (or the same words reordered), or literal (no such name).
    """

    kind: NameKind
    names: tuple[str, ...]
    start: int
    end: int
    word_count: int
    match_type: Literal["exact", "synonym", "literal"]
    in_patient_record: bool = False
    has_culture_word: bool = False

    @property
    def weight(self) -> float:
        """Evidence for this kind: greater for long, exact names of the patient's own record."""
        length_bonus = min(0.8 * (self.word_count - 1), 4.0)
        weight = _WEIGHT[self.match_type] + length_bonus
        if self.in_patient_record:
            weight += 0.7
        return weight

    def overlaps(self, candidate: "Candidate") -> bool:
        """Whether both share a character."""
        return self.overlaps_span(candidate.start, candidate.end)

    def overlaps_span(self, start: int, end: int) -> bool:
        """Whether it shares a character with a span."""
        return self.start < end and start < self.end

    def lies_within(self, start: int, end: int) -> bool:
        """Whether a span covers it."""
        return start <= self.start and self.end <= end

    def overlaps_any(self, candidates: Iterable["Candidate"]) -> bool:
        """Whether it shares a character with one of the candidates."""
        return any(self.overlaps(candidate) for candidate in candidates)


def find_candidates(
    text: str, vocabulary: Vocabulary, patient_names: PatientNames
) -> list[Candidate]:
    """Every name of every kind, but of one kind none within a longer one."""
    tokens = letters_and_numbers(text)
    candidates: list[Candidate] = []
    for index in range(len(tokens)):
        max_length = min(vocabulary.max_words, len(tokens) - index)
        for length in range(max_length, 0, -1):
            run = tokens[index : index + length]
            phrase = " ".join(token.text for token in run)
            entries = vocabulary.by_key.get(phrase, [])
            if not entries and 1 < len(run) <= _MAX_REORDERED_WORDS:
                reordered = vocabulary.by_sorted_words.get(sort_words(phrase), [])
                entries = [entry._replace(match_type="synonym") for entry in reordered]
            if entries and not _is_common_word(text, tokens, index, length):
                candidates += _entry_candidates(text, run, entries, patient_names)
    candidates = _resolve_quotes(text, _without_output_word(candidates, text))
    return [
        candidate for candidate in candidates if not _is_nested(candidate, candidates)
    ]


def _is_common_word(text: str, tokens: list[Token], index: int, length: int) -> bool:
    if length > 1 or tokens[index].text not in _NO_NAME:
        return False
    # A single letter is a name in quotation marks, or before "value" or "lab test".
    token = tokens[index]
    if text[max(0, token.start - 1) : token.start] in {"'", '"'}:
        is_marked_as_name = True
    elif index + 1 == len(tokens):
        is_marked_as_name = False
    else:
        next_word = tokens[index + 1].text
        if next_word == "test":
            is_marked_as_name = len(token.text) == 1
        else:
            is_marked_as_name = next_word in _AFTER_SHORT_NAME
    return not is_marked_as_name


def _resolve_quotes(text: str, candidates: list[Candidate]) -> list[Candidate]:
    """A quotation is a name as a whole: one of the record's, or the literal words."""
    for match in _QUOTED.finditer(text):
        if not text[: match.start()].endswith(("route ", "routes ", "result ")):
            start, end = match.span()
            whole = []
            remaining = []
            for candidate in candidates:
                if candidate.start <= start + 1 and candidate.end >= end - 1:
                    whole.append(candidate)
                    if candidate.word_count > 1:
                        remaining.append(candidate)
                elif not candidate.overlaps_span(start, end):
                    remaining.append(candidate)
            if not whole:
                candidates = remaining + _literal_candidates(match)
            else:
                for candidate in whole:
                    # A quoted name counts as at least two words.
                    word_count = max(candidate.word_count, 2)
                    remaining.append(candidate._replace(word_count=word_count))
                candidates = remaining
    return candidates


def _literal_candidates(match: re.Match[str]) -> list[Candidate]:
    return [
        Candidate(kind, (match["name"],), *match.span(), 2, "literal")
        for kind in get_args(NameKind)
    ]


def _is_nested(candidate: Candidate, candidates: Iterable[Candidate]) -> bool:
    """Whether a longer candidate of the same kind covers it."""
    length = candidate.end - candidate.start
    for cover in candidates:
        is_longer = cover.kind == candidate.kind and cover.end - cover.start > length
        if is_longer and candidate.lies_within(cover.start, cover.end):
            return True
    return False


def _entry_candidates(
    text: str,
    run: list[Token],
    entries: Iterable[VocabularyEntry],
    patient_names: PatientNames,
) -> Iterator[Candidate]:
    displays_by_group: dict[tuple[NameKind, MatchType], list[str]] = defaultdict(list)
    for entry in entries:
        group = (entry.kind, entry.match_type)
        displays_by_group[group].append(entry.display)
    has_culture_word = any(token.text in _CULTURE for token in run)
    for (kind, match_type), group_displays in displays_by_group.items():
        displays, start, end = _as_written(
            text, run[0].start, run[-1].end, group_displays
        )
        own_displays = [
            display
            for display in displays
            if (kind, normalise_text(display)) in patient_names
        ]
        if match_type == "synonym" and own_displays:
            displays = own_displays
        yield Candidate(
            kind=kind,
            names=tuple(displays),
            start=start,
            end=end,
            word_count=len(run),
            match_type=match_type,
            in_patient_record=bool(own_displays),
            has_culture_word=has_culture_word,
        )


def _as_written(
    text: str, start: int, end: int, displays: list[str]
) -> tuple[list[str], int, int]:
    """Of displays with these words, the one with the same signs and its span; else all of them."""
    display_of = {normalise_text(display): display for display in displays}
    for folded in sorted(display_of, key=len, reverse=True):
        offset = text.find(folded, max(0, start - 3), end + 3)
        if offset >= 0:
            start = min(offset, start)
            end = max(offset + len(folded), end)
            return [display_of[folded]], start, end
    return list(display_of.values()), start, end


def non_overlapping(candidates: Iterable[Candidate], kind: NameKind) -> list[Candidate]:
    """The names of a kind that do not overlap, preferring long and exact ones, in text order."""
    of_kind = [candidate for candidate in candidates if candidate.kind == kind]
    selected: list[Candidate] = []
    for candidate in sorted(of_kind, key=_preference):
        if not candidate.overlaps_any(selected):
            selected.append(candidate)
    return sorted(selected, key=lambda candidate: candidate.start)


def _preference(candidate: Candidate) -> tuple[int, bool, int]:
    is_inexact = candidate.match_type != "exact"
    return candidate.start - candidate.end, is_inexact, candidate.start


def _without_output_word(candidates: list[Candidate], text: str) -> list[Candidate]:
    """ "TF residual output": where "TF residual" is a name, too, "output" is no part of it."""
    output_spans = set()
    for candidate in candidates:
        if candidate.kind == "output":
            output_spans.add((candidate.start, candidate.end))
    remaining = []
    for candidate in candidates:
        phrase = text[candidate.start : candidate.end]
        shorter_end = candidate.start + len(phrase.removesuffix(" output"))
        has_output_word = candidate.kind == "output" and shorter_end < candidate.end
        if has_output_word and (candidate.start, shorter_end) in output_spans:
            continue
        remaining.append(candidate)
    return remaining
