"""What a clause names: concepts and names of the record, as limits of queries."""

from typing import Literal, NamedTuple

from archqa.query.questions.everyday.marks import Account, Clause, Mark
from archqa.terminology.concept import Concept

_BETWEEN = frozenset({"filler", "person_name"})


class NameLimit(NamedTuple):
    """Names and concepts of one query: rows that have any of them."""

    names: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()

    def united(self, other: "NameLimit") -> "NameLimit":
        """Rows that have any of both."""
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        return NameLimit(names, tuple(dict.fromkeys((*self.concepts, *other.concepts))))


class Named(NamedTuple):
    """The limits by name, one for each query, and how they are joined. No limits: nothing named."""

    limits: tuple[NameLimit, ...] = ()
    joined: Literal["and", "or"] = "and"

    def __bool__(self) -> bool:
        return bool(self.limits)

    @property
    def or_any(self) -> tuple[NameLimit, ...]:
        """The limits, or the one that limits nothing."""
        return self.limits or (NameLimit(),)


class Nameable(NamedTuple):
    """Which concepts and names of the record name the rows of one kind."""

    concepts: frozenset[str]
    rows: frozenset[str]

    def limit(self, mark: Mark) -> NameLimit | None:
        """The limit that a mark sets on such rows; None if it names something else."""
        concepts = tuple(each.name for each in self.concepts_of(mark))
        names = tuple(name.display for name in mark.names if name.kind in self.rows)
        if not concepts and not names:
            return None
        return NameLimit(names, concepts)

    def concepts_of(self, mark: Mark) -> tuple[Concept, ...]:
        """The concepts of a mark that name such rows."""
        return tuple(each for each in mark.concepts if each.kind in self.concepts)


def names_of(account: Account, nameable: Nameable) -> Named:
    """The names of rows, each a limit of its own; names joined by "or" make one limit.

    Several names must be joined by "and", "or" or commas; else only the first is used, and the
    others are left over.
    """
    marks = named_marks(account.clause, nameable)
    series = _first_series(account.clause, marks)
    account.use_marks(series)
    said = {nameable.limit(mark) for mark in series}
    account.use_marks(mark for mark in marks if nameable.limit(mark) in said)
    limits = [limit for mark in series if (limit := nameable.limit(mark))]
    if len(limits) > 1 and _has_or(account.clause, series):
        united = limits[0]
        for limit in limits[1:]:
            united = united.united(limit)
        return Named((united,))
    return Named(tuple(limits))


def use_for_before_names(account: Account, nameable: Nameable) -> None:
    """Note "for" right before a name as used: "a prescription for sumatriptan"."""
    starts = {mark.start for mark in named_marks(account.clause, nameable)}
    links = account.unused("link", "for")
    for place, mark in enumerate(account.clause.marks):
        following = [
            each for each in account.clause.marks[place + 1 :] if each.kind not in _BETWEEN
        ]
        if mark in links and following and following[0].start in starts:
            account.use_marks([mark])


def named_marks(clause: Clause, nameable: Nameable) -> tuple[Mark, ...]:
    """The marks that name such rows."""
    marks = clause.of("concept") + clause.of("name")
    named = [mark for mark in marks if nameable.limit(mark) is not None]
    return tuple(sorted(named, key=lambda mark: mark.start))


def _first_series(clause: Clause, marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """The first mark, and those that "and", "or" or a comma joins to it."""
    series = list(marks[:1])
    for mark in marks[1:]:
        if not _are_joined(clause, series[-1], mark):
            break
        series.append(mark)
    return tuple(series)


def _are_joined(clause: Clause, first: Mark, second: Mark) -> bool:
    between = [each for each in clause.marks if first.end <= each.start < second.start]
    joints = [each for each in between if each.kind == "join" or each.text in {",", "/", "&"}]
    others = [each for each in between if each not in joints]
    return bool(joints) and all(each.kind in _BETWEEN for each in others)


def _has_or(clause: Clause, series: tuple[Mark, ...]) -> bool:
    start, end = series[0].start, series[-1].end
    return any(start < mark.start < end for mark in clause.of("join", "or"))
