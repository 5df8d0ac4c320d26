"""Several questions in one: where a question can be split, and when its parts may stand alone."""

from collections.abc import Callable, Iterator

from archqa.query.questions.everyday.asks import PAST, PERFECT, PRESENT
from archqa.query.questions.everyday.marks import Clause, Mark

_ENDS = frozenset("?.;!")
_SHARED = ("span", "position", "state", "still", "flag", "test", "extreme", "summary", "ever")
"""Marks that may be meant for both parts: "current problems and medicines"."""

_NOUNS = ("row", "concept", "name", "class", "person")
_OPENERS = frozenset({"wh", "field", "request", "exists"})
_AUXILIARIES = PRESENT | PAST | PERFECT


def parts_of(clause: Clause) -> Iterator[tuple[Clause, ...]]:
    """Ways to split a question: at the ends of sentences, and at "and" and commas."""
    at_ends = _split(clause, _is_end)
    if len(at_ends) > 1:
        yield at_ends
    at_joints = _split(clause, lambda mark: _is_end(mark) or _is_joint(mark))
    if len(at_joints) > 1:
        yield at_joints


def may_be_split(parts: tuple[Clause, ...]) -> bool:
    """Whether no word of one part may be meant for another: each part is a question of its own."""
    if all(opens_question(part) for part in parts[1:]):
        return True
    *others, last = parts
    if any(part.has(kind) for part in others for kind in _SHARED):
        return False
    return all(_stands_before_noun(last, mark) for kind in _SHARED for mark in last.of(kind))


def _stands_before_noun(part: Clause, mark: Mark) -> bool:
    """Whether a word belongs to the noun after it alone: "allergies and current medicines"."""
    nouns = [each.start for kind in _NOUNS for each in part.of(kind)]
    return bool(nouns) and mark.end <= min(nouns)


def opens_question(part: Clause) -> bool:
    """Whether a clause begins as a question or a request does."""
    first = next((mark for mark in part.marks if mark.kind != "sign"), None)
    if first is None:
        return False
    return first.kind in _OPENERS or part.tokens[first.start].text in _AUXILIARIES


def _is_end(mark: Mark) -> bool:
    return mark.kind == "sign" and mark.text in _ENDS


def _is_joint(mark: Mark) -> bool:
    return (mark.kind == "join" and mark.value == "and") or mark.text in {",", "&"}


def _split(clause: Clause, is_bound: Callable[[Mark], bool]) -> tuple[Clause, ...]:
    parts: list[list[Mark]] = [[]]
    for mark in clause.marks:
        if is_bound(mark):
            parts.append([])
        else:
            parts[-1].append(mark)
    return tuple(clause._replace(marks=tuple(part)) for part in parts if part)
