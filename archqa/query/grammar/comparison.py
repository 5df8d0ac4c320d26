"""The two sides of a comparison: "last measured on the first visit" against "first measured on the first visit"."""

import re
from typing import NamedTuple

from archqa.query.grammar.times import FoundSpan
from archqa.query.grammar.visits import FoundPosition, FoundVisit
from archqa.query.scope import When

Item = FoundVisit | FoundSpan | FoundPosition


class ComparisonSides(NamedTuple):
    """When the one side is, and when the other; None if only one is named."""

    own: When
    other: When | None


def split_sides(
    text: str,
    visits: list[FoundVisit],
    spans: list[FoundSpan],
    positions: list[FoundPosition],
    *,
    turned: bool,
) -> ComparisonSides:
    """Share what is said about time between two sides, in the order of the words; what one lacks it has from the other.

    The side named first is the own one; in "rose from the first to the last" (`turned`) the second is.
    """
    items: list[Item] = [*visits, *spans, *positions]
    items.sort(key=lambda each: each.start)
    split = _split(items)
    if split is None:
        return ComparisonSides(_when(items), None)
    own, other = items[:split], items[split:]
    found = ComparisonSides(_when(own, beside=other), _when(other, beside=own))
    if found.other is not None and _SECOND_FIRST.search(text) and "than" not in text:
        return ComparisonSides(found.other, found.own)
    if found.other is not None and turned and not _COMPARED.search(text):
        is_backwards = _FROM_TO.search(text) or _rank(found.own) < _rank(found.other)
        return ComparisonSides(found.other, found.own) if is_backwards else found
    return found


def _rank(when: When) -> int:
    order = ("first", "second", "third", "third_to_last", "second_to_last", "last")
    return order.index(when.position) if when.position else 0


_FROM_TO = re.compile(r"\bfrom\b.*\b(?:to|until)\b")
_SECOND_FIRST = re.compile(
    r"^\W*(?:when |as |in |if )?(?:compared|comparison|relative|with respect) (?:to|with)\b"
)
_COMPARED = re.compile(r"\b(?:compared|than|versus|vs|relative|against)\b")


def _split(items: list[Item]) -> int | None:
    """Where the second side begins: at the first thing that the first side has already."""
    for kind in (FoundPosition, FoundSpan, FoundVisit):
        places = [at for at, item in enumerate(items) if isinstance(item, kind)]
        if (
            kind is FoundSpan
            and len(places) == 2
            and any(isinstance(item, FoundPosition) for item in items)
        ):
            continue
        if len(places) >= 2:
            return _begin(items, places)
    return None


def _begin(items: list[Item], places: list[int]) -> int:
    """A visit or a date between the two belongs to the first side, unless the first side has one before it."""
    first, second = places[0], places[1]
    between = range(first + 1, second)
    before = {type(item) for item in items[:first]}
    for at in between:
        if type(items[at]) in before:
            return at
    seen: set[type] = set()
    for at in between:
        if type(items[at]) in seen and not isinstance(items[at], FoundSpan):
            return at
        seen.add(type(items[at]))
    return second


def _when(items: list[Item], beside: list[Item] | None = None) -> When:
    visits = [item.visit for item in items if isinstance(item, FoundVisit)]
    spans = [item.span for item in items if isinstance(item, FoundSpan)]
    positions = [item.position for item in items if isinstance(item, FoundPosition)]
    if beside and not visits and not spans:
        visits = [item.visit for item in beside if isinstance(item, FoundVisit)]
        spans = [item.span for item in beside if isinstance(item, FoundSpan)]
    return When(
        visit=visits[0] if visits else None,
        spans=tuple(spans),
        position=positions[0] if positions else None,
    )
