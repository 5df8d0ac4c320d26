"""A question in free words without the words that carry nothing, as the grammar reads it."""

from datetime import date
from typing import NamedTuple

from archqa.query.everyday import Understood, Vocabulary
from archqa.query.everyday.marking import mark
from archqa.query.everyday.marks import Clause, Mark
from archqa.query.everyday.reader import read_marked, resolved
from archqa.query.everyday.tokens import plain
from archqa.query.paraphrase.harmless_words import is_harmless
from archqa.query.paraphrase.skeleton import factors_of, skeleton_of
from archqa.query.paraphrase.wording import Wording, wording_of

LEFT_OUT = "left out"
"""The value of a mark that was made a filler."""


class Reduction(NamedTuple):
    """What the grammar reads without the words that it does not know, and the whole wording."""

    reading: Understood | None
    wording: Wording

    @property
    def skeleton(self) -> str:
        """The skeleton of the reading; empty without one."""
        return skeleton_of(self.reading) if self.reading else ""

    @property
    def text(self) -> str:
        """The question with stand-ins for its names, as the network reads it."""
        return " ".join(self.wording.words)

    @property
    def clues(self) -> tuple[str, ...]:
        """What else the network is told: marks, words, kinds of names, and the reading's parts."""
        wording = self.wording
        clues = [item.key for item in wording.items]
        clues += [f"text:{word}" for word in wording.words]
        clues += [f"slot:{kind}" for kind in wording.kinds]
        parts = factors_of(self.skeleton) if self.reading else ("none",)
        return tuple(dict.fromkeys([*clues, *(f"reading:{part}" for part in parts)]))


def reduce_question(question: str, vocabulary: Vocabulary, today: date | None) -> Reduction | None:
    """The reduced question; None if a word that the grammar does not know may decide."""
    clause = mark(question, vocabulary, today)
    unknown = clause.of("unknown")
    if not unknown or not all(is_harmless(each.text) for each in unknown):
        return None
    return _reduced(clause, question, vocabulary)


def reduce_all(question: str, vocabulary: Vocabulary, today: date | None) -> Reduction:
    """The question without any unknown word, deciding or not: what the network is trained on."""
    return _reduced(mark(question, vocabulary, today), question, vocabulary)


def _reduced(clause: Clause, question: str, vocabulary: Vocabulary) -> Reduction:
    reading = read_marked(without_unknown(clause), vocabulary)
    understood = reading if isinstance(reading, Understood) else None
    return Reduction(understood, wording_of(resolved(clause), plain(question)))


def without_unknown(clause: Clause) -> Clause:
    """The clause with fillers in place of unknown words."""
    return clause._replace(marks=tuple(map(_left_out, clause.marks)))


def _left_out(mark: Mark) -> Mark:
    return mark._replace(kind="filler", value=LEFT_OUT) if mark.kind == "unknown" else mark
