"""Two runs of the same cases: what the paired test says, and which cases and sentences they part on."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from archqa.core.case import Case
from archqa.errors import ArchqaError
from archqa.report.axis import Axis, Tick
from archqa.report.material import Material
from archqa.report.note_view import cited_in
from archqa.report.scoreboard import case_score_name
from archqa.runs.scoring import compare_runs

WIDTH = 320
_SURE = 0.05


class Tested(NamedTuple):
    """One score of both runs and the paired test of their difference (the second minus the first)."""

    name: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    sure: bool


class Parted(NamedTuple):
    """One case on which the runs part: both scores, their places on the strip, and the citations of one run only."""

    id: str
    place: int
    first: float | None
    second: float | None
    change: float
    at_first: float | None
    at_second: float | None
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


class Differences(NamedTuple):
    """The comparison; `why_untested` is empty where the paired test could be made."""

    tested: tuple[Tested, ...]
    why_untested: str
    by_case: str
    parted: tuple[Parted, ...]
    alike: int
    ticks: tuple[Tick, ...]


def differences(first: Material, second: Material, key: Path | None) -> Differences:
    """What changes from the first run to the second, the greatest changes first."""
    tested, why = _tested(first, second, key)
    axis = Axis(0, first.top, 6, WIDTH - 6)
    found = list(_parted(first, second, axis))
    parted = [each for each in found if each.change or each.only_first or each.only_second]
    parted.sort(key=lambda each: (-abs(each.change), each.place))
    name = case_score_name(first)
    return Differences(tested, why, name, tuple(parted), len(found) - len(parted), axis.ticks())


def _tested(first: Material, second: Material, key: Path | None) -> tuple[tuple[Tested, ...], str]:
    try:
        found = compare_runs(second.run.path, first.run.path, key=key, method="paired-bootstrap")
    except ArchqaError as error:
        return (), str(error).splitlines()[0]
    ours, theirs = ((each.scores or {}).get("scores", {}) for each in (first, second))
    return tuple(
        Tested(name, ours[name], theirs[name], each.difference, each.low, each.high, each.p_value, each.p_value < _SURE)
        for name, each in found.items()
        if name in ours and name in theirs
    ), ""


def _parted(first: Material, second: Material, axis: Axis) -> Iterator[Parted]:
    name = case_score_name(first)
    for place, item in enumerate(first.run.cases):
        one, other = (each.per_case.get(item.id, {}).get(name) for each in (first, second))
        ours, theirs = (cited_in(each.run.record_of(item.id)) for each in (first, second))
        order = item.in_note_order if isinstance(item, Case) else lambda ids: tuple(sorted(ids))
        yield Parted(
            id=item.id,
            place=place,
            first=one,
            second=other,
            change=(other or 0.0) - (one or 0.0),
            at_first=None if one is None else axis(one),
            at_second=None if other is None else axis(other),
            only_first=order(ours - theirs),
            only_second=order(theirs - ours),
        )
