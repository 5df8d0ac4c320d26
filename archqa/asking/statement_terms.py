"""What a yes/no question asks for, under one name however it is written, and its opposites.

The terminology (`archqa.notes.concepts`) groups by topic: "fever" holds chills, "swelling" legs.
That is too wide to say yes or no, so these words mean the same or, where said so, a kind of it.
"""

import re
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from archqa.asking.word_patterns import whole_word_pattern
from archqa.core.tables import read_rows


class Relation(StrEnum):
    """How the words of a text relate to a term."""

    SAME = "same"
    NARROWER = "narrower"
    OPPOSITE = "opposite"


class Term(NamedTuple):
    """What can be asked for; `kind` is the letter of `data/statements.tsv`."""

    name: str
    kind: str
    patterns: tuple[tuple[Relation, re.Pattern[str]], ...]


class TermMention(NamedTuple):
    """Characters of a text that name a term; `end` is exclusive."""

    term: Term
    relation: Relation
    start: int
    end: int

    def moved(self, offset: int) -> "TermMention":
        """Return the mention as of a text in which it stands `offset` characters later."""
        return self._replace(start=self.start + offset, end=self.end + offset)


@cache
def load_terms() -> tuple[Term, ...]:
    """Return the terms in the order of the file."""
    terms = []
    for name, kind, same, narrower, opposite in read_rows("asking/data/statements.tsv", 5):
        forms = {
            Relation.SAME: same,
            Relation.NARROWER: narrower,
            Relation.OPPOSITE: opposite,
        }
        compiled = [(relation, whole_word_pattern(text)) for relation, text in forms.items()]
        patterns = tuple((relation, pattern) for relation, pattern in compiled if pattern)
        terms.append(Term(name, kind, patterns))
    return tuple(terms)


def find_terms(text: str) -> list[TermMention]:
    """Return the mentions of all terms in order, without those inside a longer one."""
    mentions = [mention for term in load_terms() for mention in find_term(term, text)]
    outer = [mention for mention in mentions if not _is_inside_another(mention, mentions)]
    return sorted(outer, key=lambda mention: mention.start)


def find_term(term: Term, text: str) -> list[TermMention]:
    """Return the mentions of one term; an opposite hides what it contains ("not nontender")."""
    mentions = []
    for relation, pattern in term.patterns:
        for match in pattern.finditer(text):
            mentions.append(TermMention(term, relation, match.start(), match.end()))
    opposites = [mention for mention in mentions if mention.relation is Relation.OPPOSITE]
    return [mention for mention in mentions if not _is_inside_another(mention, opposites)]


def body_parts(text: str) -> frozenset[str]:
    """Return the names of the parts of the body and the sides that a text names."""
    return frozenset(name for name, pattern in _body_part_patterns() if pattern.search(text))


def body_part_spans(text: str) -> list[tuple[int, int]]:
    """Return the characters of each name of a part of the body or a side."""
    return [
        match.span() for _, pattern in _body_part_patterns() for match in pattern.finditer(text)
    ]


@cache
def _body_part_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    patterns = []
    for name, forms in read_rows("asking/data/body_parts.tsv", 2):
        pattern = whole_word_pattern(forms)
        if pattern is not None:
            patterns.append((name, pattern))
    return tuple(patterns)


def _is_inside_another(mention: TermMention, mentions: list[TermMention]) -> bool:
    for other in mentions:
        contains = other.start <= mention.start and mention.end <= other.end
        if contains and _rank(other) > _rank(mention):
            return True
    return False


def _rank(mention: TermMention) -> tuple[int, bool]:
    """Return what ranks mentions of the same words: the longer, then what is not an opposite."""
    return mention.end - mention.start, mention.relation is not Relation.OPPOSITE
