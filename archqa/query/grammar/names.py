"""Clinical names in a question: the longest runs of words that the record's vocabulary knows."""

import re
from collections.abc import Iterable
from typing import NamedTuple, get_args

from archqa.fhir.values.tokens import normalise_text
from archqa.query.grammar.text import TextToken, tokenize
from archqa.query.grammar.vocabulary import NameKind, Vocabulary, VocabularyEntry, sort_words

_NO_NAME = frozenset(
    ["other", "unknown", "last", "first", "h", "i", "l", "adde", "name", "blood", "plasma"]
)
_CULTURE = frozenset(["culture", "cultures", "cx", "screen", "swab", "stain", "smear", "lavage"])
_REORDERED = 8
_WEIGHT = {"exact": 2.5, "synonym": 2.0, "literal": 1.0}


class Candidate(NamedTuple):
    """What a run of words may name. `said`: exact, synonym (or the same words reordered), or literal (no such name)."""

    kind: NameKind
    names: tuple[str, ...]
    start: int
    end: int
    words: int
    said: str
    theirs: bool = False
    has_culture_word: bool = False

    @property
    def weight(self) -> float:
        """How much the words speak for this kind: longer, exact names and those of the patient's own record more."""
        return _WEIGHT[self.said] + min(0.8 * (self.words - 1), 4.0) + (0.7 if self.theirs else 0.0)

    def overlaps(self, start: int, end: int) -> bool:
        """Whether it shares a character with a stretch."""
        return self.start < end and start < self.end


def find_candidates(
    text: str, vocabulary: Vocabulary, theirs: frozenset[tuple[NameKind, str]]
) -> list[Candidate]:
    """Every name of every kind, only the longest where one of a kind holds another."""
    found: list[Candidate] = []
    said = tokenize(text)
    for at in range(len(said)):
        for length in range(min(vocabulary.longest, len(said) - at), 0, -1):
            run = said[at : at + length]
            said_here = " ".join(word.text for word in run)
            names = vocabulary.by_key.get(said_here) or []
            if not names and 1 < length <= _REORDERED:
                turned = vocabulary.by_sorted_words.get(sort_words(said_here)) or []
                names = [name._replace(said="synonym") for name in turned]
            if names and not (
                length == 1 and run[0].text in _NO_NAME and not _is_named(text, said, at)
            ):
                found += _candidates(text, run, names, theirs)
    found = _quoted(text, without_output(found, text))
    return [each for each in found if not any(_holds(other, each) for other in found)]


def _quoted(text: str, found: list[Candidate]) -> list[Candidate]:
    """What stands in quotation marks is a name as a whole: one of the record's, or the literal words."""
    for match in _QUOTED.finditer(text):
        start, end = match.span()
        if text[:start].endswith(("route ", "routes ", "result ")):
            continue
        whole = [each for each in found if each.start <= start + 1 and each.end >= end - 1]
        found = [each for each in found if each in whole or not each.overlaps(start, end)]
        literal = [
            Candidate(kind, (match["name"],), start, end, 2, "literal")
            for kind in get_args(NameKind)
        ]
        found += [each._replace(words=max(each.words, 2)) for each in whole] or literal
        found = [each for each in found if each not in whole or each.words > 1]
    return found


_QUOTED = re.compile(
    r"""(?<!\w)(?P<mark>['"])(?P<name>[^'"]{1,120}|(?!(?P=mark)).+?)(?P=mark)(?!\w)"""
)


def _is_named(text: str, said: list[TextToken], at: int) -> bool:
    """A single letter is a name where "value" or "lab test" follows, or in quotation marks."""
    if text[max(0, said[at].start - 1) : said[at].start] in {"'", '"'}:
        return True
    follows = said[at + 1].text if at + 1 < len(said) else ""
    return follows in {"value", "values", "lab", "laboratory", "level", "result"} or (
        follows == "test" and len(said[at].text) == 1
    )


def _holds(one: Candidate, other: Candidate) -> bool:
    longer = one.end - one.start > other.end - other.start
    return one.kind == other.kind and longer and one.start <= other.start and one.end >= other.end


def _candidates(
    text: str,
    run: list[TextToken],
    names: Iterable[VocabularyEntry],
    theirs: frozenset[tuple[NameKind, str]],
) -> list[Candidate]:
    start, end = run[0].start, run[-1].end
    found = []
    grouped: dict[tuple[NameKind, str], list[str]] = {}
    for name in names:
        grouped.setdefault((name.kind, name.said), []).append(name.display)
    for (kind, said), displays in grouped.items():
        displays, place = _as_written(text, start, end, displays)
        own = any((kind, normalise_text(display)) in theirs for display in displays)
        if said == "synonym" and own:
            displays = [
                display for display in displays if (kind, normalise_text(display)) in theirs
            ]
        cultured = bool(_CULTURE & {word.text for word in run})
        found.append(Candidate(kind, tuple(displays), *place, len(run), said, own, cultured))
    return found


def _as_written(
    text: str, start: int, end: int, displays: list[str]
) -> tuple[list[str], tuple[int, int]]:
    """Of the names with these words, the one with these signs, too, and where it stands; else all of them."""
    once = {normalise_text(display): display for display in displays}
    for folded in sorted(once, key=len, reverse=True):
        at = text.find(folded, max(0, start - 3), end + 3)
        if at >= 0:
            return [once[folded]], (min(at, start), max(at + len(folded), end))
    return list(once.values()), (start, end)


def non_overlapping(candidates: Iterable[Candidate], kind: NameKind) -> list[Candidate]:
    """The names of a kind that do not overlap, the longest and surest first, in the order of the words."""
    picked: list[Candidate] = []
    for each in sorted(
        (one for one in candidates if one.kind == kind),
        key=lambda one: (one.start - one.end, one.said != "exact", one.start),
    ):
        if not any(each.overlaps(other.start, other.end) for other in picked):
            picked.append(each)
    return sorted(picked, key=lambda one: one.start)


def without_output(candidates: list[Candidate], text: str) -> list[Candidate]:
    """ "TF residual output": where "TF residual" is a name, too, "output" is the question's own word."""
    found = []
    for each in candidates:
        shorter = text[each.start : each.end].removesuffix(" output")
        other = any(
            one.kind == "output"
            and one.start == each.start
            and one.end == each.start + len(shorter)
            for one in candidates
        )
        if not (each.kind == "output" and other and len(shorter) < each.end - each.start):
            found.append(each)
    return found
