"""Clinical names in a question: the longest word sequences that the record's vocabulary has."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, get_args

from archqa.fhir.values.text import normalise_text
from archqa.query.questions.ehrsql.text import TextToken, tokenize
from archqa.query.questions.ehrsql.vocabulary import (
    NameKind,
    PatientNames,
    Vocabulary,
    VocabularyEntry,
    sort_words,
)

_NO_NAME = frozenset(
    ["other", "unknown", "last", "first", "h", "i", "l", "adde", "name", "blood", "plasma"]
)
_CULTURE = frozenset(["culture", "cultures", "cx", "screen", "swab", "stain", "smear", "lavage"])
_AFTER_SHORT_NAME = frozenset({"value", "values", "lab", "laboratory", "level", "result"})
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
    tokens = tokenize(text)
    candidates: list[Candidate] = []
    for index in range(len(tokens)):
        max_length = min(vocabulary.max_words, len(tokens) - index)
        for length in range(max_length, 0, -1):
            run = tokens[index : index + length]
            entries = _lookup(run, vocabulary)
            if entries and not _is_common_word(text, tokens, index, length):
                candidates += _entry_candidates(text, run, entries, patient_names)
    candidates = _resolve_quotes(text, _without_output_word(candidates, text))
    return [candidate for candidate in candidates if not _is_nested(candidate, candidates)]


def _lookup(run: list[TextToken], vocabulary: Vocabulary) -> list[VocabularyEntry]:
    phrase = " ".join(token.text for token in run)
    entries = vocabulary.by_key.get(phrase)
    if entries:
        return entries
    if not 1 < len(run) <= _MAX_REORDERED_WORDS:
        return []
    reordered = vocabulary.by_sorted_words.get(sort_words(phrase)) or []
    return [entry._replace(match_type="synonym") for entry in reordered]


def _is_common_word(text: str, tokens: list[TextToken], index: int, length: int) -> bool:
    if length > 1 or tokens[index].text not in _NO_NAME:
        return False
    return not _is_marked_as_name(text, tokens, index)


def _is_marked_as_name(text: str, tokens: list[TextToken], index: int) -> bool:
    """A single letter is a name in quotation marks, or before "value" or "lab test"."""
    token = tokens[index]
    if text[max(0, token.start - 1) : token.start] in {"'", '"'}:
        return True
    if index + 1 == len(tokens):
        return False
    next_word = tokens[index + 1].text
    if next_word == "test":
        return len(token.text) == 1
    return next_word in _AFTER_SHORT_NAME


def _resolve_quotes(text: str, candidates: list[Candidate]) -> list[Candidate]:
    """A quotation is a name as a whole: one of the record's, or the literal words."""
    for match in _QUOTED.finditer(text):
        if not text[: match.start()].endswith(("route ", "routes ", "result ")):
            candidates = _resolve_quote(match, candidates)
    return candidates


def _resolve_quote(match: re.Match[str], candidates: list[Candidate]) -> list[Candidate]:
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
        return remaining + _literal_candidates(match)
    for candidate in whole:
        # A quoted name counts as at least two words.
        word_count = max(candidate.word_count, 2)
        remaining.append(candidate._replace(word_count=word_count))
    return remaining


def _literal_candidates(match: re.Match[str]) -> list[Candidate]:
    names = (match["name"],)
    start, end = match.span()
    candidates = []
    for kind in get_args(NameKind):
        candidates.append(Candidate(kind, names, start, end, 2, "literal"))
    return candidates


def _is_nested(candidate: Candidate, candidates: Iterable[Candidate]) -> bool:
    """Whether a longer candidate of the same kind covers it."""
    return any(_covers(cover, candidate) for cover in candidates)


def _covers(cover: Candidate, candidate: Candidate) -> bool:
    if cover.kind != candidate.kind:
        return False
    if not candidate.lies_within(cover.start, cover.end):
        return False
    cover_length = cover.end - cover.start
    return cover_length > candidate.end - candidate.start


def _entry_candidates(
    text: str,
    run: list[TextToken],
    entries: Iterable[VocabularyEntry],
    patient_names: PatientNames,
) -> Iterator[Candidate]:
    displays_by_group: dict[tuple[NameKind, MatchType], list[str]] = defaultdict(list)
    for entry in entries:
        group = (entry.kind, entry.match_type)
        displays_by_group[group].append(entry.display)
    has_culture_word = any(token.text in _CULTURE for token in run)
    for (kind, match_type), group_displays in displays_by_group.items():
        displays, start, end = _as_written(text, run[0].start, run[-1].end, group_displays)
        own_displays = _own_displays(kind, displays, patient_names)
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


def _own_displays(kind: NameKind, displays: list[str], patient_names: PatientNames) -> list[str]:
    """The displays that occur in the patient's own resources."""
    own_displays = []
    for display in displays:
        if (kind, normalise_text(display)) in patient_names:
            own_displays.append(display)
    return own_displays


def _as_written(text: str, start: int, end: int, displays: list[str]) -> tuple[list[str], int, int]:
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
