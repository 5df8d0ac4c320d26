"""A question among sentences that ask nothing: "My new doctor wants a list. What am I taking?"."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from archqa.query.questions.everyday.clauses import opens_question
from archqa.query.questions.everyday.marks import Clause, Mark
from archqa.query.questions.everyday.reading import Reading, Understood

_ENDS = frozenset("?.!;")
_REFERRING = frozenset(
    {"it", "its", "they", "them", "their", "that", "those", "these", "this", "then", "there"}
    | {"one", "ones", "same", "such", "both", "other", "others", "else", "also", "too"}
)
"""Words that may mean what another sentence says."""

DECIDING = frozenset({"not", "no", "never", "only", "except", "but", "without", "mean", "instead"})
_LIMITING = frozenset(
    {"span", "test", "position", "newest", "extreme", "summary", "state", "still", "flag", "class"}
    | {"judgement", "outcome", "trend", "per", "stay", "field", "wh"}
)
"""Kinds of marks that may limit what another sentence asks."""


_FEWEST_WORDS = 4
"""Fewer words are no sentence: they may belong to the question."""


class _Sentence(NamedTuple):
    clause: Clause
    sign: str


def read_beside_background(
    clause: Clause, question: str, read: Callable[[Clause], Reading]
) -> Understood | None:
    """The reading of the one sentence that asks, with the others as left out; else None.

    A sentence is left out only if it neither asks nor limits anything, and nothing in the question
    refers to it.
    """
    sentences = list(_sentences(clause))
    asking = [each for each in sentences if not _is_background(each)]
    if len(sentences) < 2 or len(asking) != 1 or asking[0].clause.words & _REFERRING:
        return None
    reading = read(asking[0].clause)
    if not isinstance(reading, Understood):
        return None
    others = [each for each in sentences if each is not asking[0]]
    return reading._replace(left_out=tuple(_text(question, each) for each in others))


def _sentences(clause: Clause) -> Iterator[_Sentence]:
    marks: list[Mark] = []
    for mark in clause.marks:
        if mark.kind == "sign" and mark.text in _ENDS:
            if marks:
                yield _Sentence(clause._replace(marks=tuple(marks)), mark.text)
            marks = []
        else:
            marks.append(mark)
    if marks:
        yield _Sentence(clause._replace(marks=tuple(marks)), "")


def _is_background(sentence: _Sentence) -> bool:
    clause = sentence.clause
    if sentence.sign == "?" or opens_question(clause) or clause.has("request"):
        return False
    if clause.words & DECIDING or any(mark.kind in _LIMITING for mark in clause.marks):
        return False
    has_unknown = any(mark.kind == "unknown" for mark in clause.marks)
    return has_unknown and len(clause.words) >= _FEWEST_WORDS


def _text(question: str, sentence: _Sentence) -> str:
    """The words of a sentence as they were typed."""
    clause = sentence.clause
    first, last = clause.marks[0], clause.marks[-1]
    return question[clause.tokens[first.start].start : clause.tokens[last.end - 1].end]
