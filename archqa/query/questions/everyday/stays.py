"""The stay or visit during which rows of another kind are wanted: "during her last ICU stay"."""

from typing import NamedTuple

from archqa.query.model import Companion
from archqa.query.questions.everyday.marks import Account, Clause, Mark
from archqa.query.scope import Position, Span, Visit, When

_KINDS = {"inpatient": "hospital", "icu": "icu"}
_PREPOSITIONS = frozenset({"in", "on", "at", "from", "of", "for", "during", "throughout"})


class Stay(NamedTuple):
    """A visit of the query's own, or a companion that a visit of some date is."""

    visit: Visit | None = None
    companion: Companion | None = None


def stay_of(account: Account) -> Stay:
    """The stay that limits the rows; none if no stay is named, or one that cannot be expressed."""
    marks = _marks_of_stay(account.clause)
    if not marks:
        return Stay()
    stay = _stay(marks)
    if stay is not None:
        account.use_marks(marks)
    return stay or Stay()


def _marks_of_stay(clause: Clause) -> tuple[Mark, ...]:
    """A preposition, its position, span and class, and the noun of a visit or stay."""
    places = [place for place, mark in enumerate(clause.marks) if _is_visit(mark)]
    if not places:
        return ()
    first = places[0]
    while first > 0 and _belongs_to_stay(clause.marks[first - 1]):
        first -= 1
    marks = clause.marks[first : places[-1] + 1]
    before = clause.marks[first - 1] if first else None
    is_opened = any(_opens(mark) or mark.kind in {"position", "span"} for mark in marks)
    is_opened = is_opened or (before is not None and before.value == "during")
    if not is_opened or not all(_is_visit(mark) or _belongs_to_stay(mark) for mark in marks):
        return ()
    return (before, *marks) if before is not None and before.value == "during" else marks


def _is_visit(mark: Mark) -> bool:
    return mark.kind in {"class", "stay"} or (mark.kind == "row" and mark.value == "encounter")


def _belongs_to_stay(mark: Mark) -> bool:
    if mark.kind == "state":
        return mark.value == "current"
    return mark.kind in {"filler", "position", "span", "person_name"}


def _opens(mark: Mark) -> bool:
    """Whether a mark begins with a preposition, as "in the hospital" does by itself."""
    return mark.text.split(" ")[0] in _PREPOSITIONS


def _stay(marks: tuple[Mark, ...]) -> Stay | None:
    classes = {mark.value for mark in marks if mark.kind == "class"}
    positions = [mark.value for mark in marks if mark.kind == "position"]
    spans = tuple(span for mark in marks for span in mark.spans)
    if classes - _KINDS.keys() or len(classes) > 1 or len(positions) > 1:
        return None
    kind = _KINDS[classes.pop()] if classes else ""
    position: Position | None = positions[0] if positions else None  # type: ignore[assignment]
    is_any_icu = kind == "icu" and position is None and not _is_current(marks)
    if spans or not kind or is_any_icu:
        return _companion(kind, position, spans)
    return _visit(kind, position, marks)


def _companion(kind: str, position: Position | None, spans: tuple[Span, ...]) -> Stay | None:
    """A stay by its date, any stay in intensive care, or an office visit by its position."""
    if kind == "icu":
        when = When(spans=spans, position=position)
        return Stay(companion=Companion(what="icu_stay", within="stay", when=when))
    if not (spans or position):
        return None
    what = "hospital_visit" if kind else "encounter"
    when = When(spans=spans, position=position)
    return Stay(companion=Companion(what=what, within="same_visit", when=when))


def _is_current(marks: tuple[Mark, ...]) -> bool:
    return any(mark.kind == "state" for mark in marks)


def _visit(kind: str, position: Position | None, marks: tuple[Mark, ...]) -> Stay | None:
    is_current = _is_current(marks)
    is_this = any(word in {"this", "these"} for mark in marks for word in mark.text.split())
    if position is not None and not is_current:
        return Stay(visit=Visit(kind=kind, which=position))
    if is_current or is_this:
        return Stay(visit=Visit(kind=kind, which="current"))
    return None
