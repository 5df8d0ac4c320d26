"""The two sides of a comparison: "last on the first visit" against "first on the first visit"."""

import re
from typing import NamedTuple

from archqa.query.questions.ehrsql.times import FoundSpan
from archqa.query.questions.ehrsql.visits import FoundPosition, FoundVisit
from archqa.query.scope import When

TimeItem = FoundVisit | FoundSpan | FoundPosition

_POSITION_ORDER = ("first", "second", "third", "third_to_last", "second_to_last", "last")
_FROM_TO = re.compile(r"\bfrom\b.*\b(?:to|until)\b")
_OPPOSITE_FIRST = re.compile(
    r"^\W*(?:when |as |in |if )?(?:compared|comparison|relative|with respect) (?:to|with)\b"
)
_COMPARED = re.compile(r"\b(?:compared|than|versus|vs|relative|against)\b")


class ComparisonSides(NamedTuple):
    """The time of the query's own side and of the opposite one; None if only one is named."""

    own: When
    opposite: When | None


def split_sides(
    text: str,
    visits: list[FoundVisit],
    spans: list[FoundSpan],
    positions: list[FoundPosition],
    *,
    is_change: bool,
) -> ComparisonSides:
    """Divide visits, spans and positions between two sides, in text order.

    A side without a visit or span takes that of the opposite one. The side named first is the own
    one; in a change "from the first to the last" it is the later one.
    """
    items: list[TimeItem] = [*visits, *spans, *positions]
    items.sort(key=lambda item: item.start)
    boundary = _find_boundary(items)
    if boundary is None:
        return ComparisonSides(_when(items, []), None)
    before = items[:boundary]
    after = items[boundary:]
    named_first = _when(before, after)
    named_last = _when(after, before)
    if _is_opposite_first(text, named_first, named_last, is_change=is_change):
        return ComparisonSides(named_last, named_first)
    return ComparisonSides(named_first, named_last)


def _is_opposite_first(text: str, named_first: When, named_last: When, *, is_change: bool) -> bool:
    if _OPPOSITE_FIRST.search(text) and "than" not in text:
        return True
    if not is_change or _COMPARED.search(text):
        return False
    return bool(_FROM_TO.search(text)) or _rank(named_first) < _rank(named_last)


def _rank(when: When) -> int:
    if when.position is None:
        return 0
    return _POSITION_ORDER.index(when.position)


def _find_boundary(items: list[TimeItem]) -> int | None:
    """Where the later side begins: at the first kind of item that the earlier side has already."""
    has_position = any(isinstance(item, FoundPosition) for item in items)
    for kind in (FoundPosition, FoundSpan, FoundVisit):
        indices = []
        for index, item in enumerate(items):
            if isinstance(item, kind):
                indices.append(index)
        if kind is FoundSpan and len(indices) == 2 and has_position:
            continue
        if len(indices) >= 2:
            return _boundary_between(items, indices[0], indices[1])
    return None


def _boundary_between(items: list[TimeItem], start: int, end: int) -> int:
    """Items between the two belong to the earlier side, unless it has one of that kind."""
    earlier_kinds = set(map(type, items[:start]))
    for index in range(start + 1, end):
        kind = type(items[index])
        if kind in earlier_kinds:
            return index
    kinds_between: set[type] = set()
    for index in range(start + 1, end):
        kind = type(items[index])
        if kind in kinds_between and kind is not FoundSpan:
            return index
        kinds_between.add(kind)
    return end


def _when(items: list[TimeItem], opposite_items: list[TimeItem]) -> When:
    positions = [item.position for item in items if isinstance(item, FoundPosition)]
    scope_items = items
    if len(positions) == len(items):
        scope_items = opposite_items
    visits = [item.visit for item in scope_items if isinstance(item, FoundVisit)]
    spans = [item.span for item in scope_items if isinstance(item, FoundSpan)]
    return When(
        visit=next(iter(visits), None),
        spans=tuple(spans),
        position=next(iter(positions), None),
    )
