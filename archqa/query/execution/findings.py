"""The result of a query: the answer, its rows, the supporting resources and warnings."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Literal, NamedTuple

from archqa.core.value import FrozenModel
from archqa.query.execution.rows import Row
from archqa.query.model import Query


class SearchStep(NamedTuple):
    """One limit of a search, in words, and the number of rows that it left."""

    limit: str
    remaining: int


CaveatKind = Literal["dated_later", "mixed_units", "other"]
"""dated_later: rows are left out, since they are dated after the question; mixed_units: the values
of an answer have different units."""


class Caveat(NamedTuple):
    """What the reader of an answer should know, and of which kind it is."""

    text: str
    kind: CaveatKind = "other"


class Gap(NamedTuple):
    """Resources of a type in which there may be rows that could not be read; `reason` is a clause."""

    type: str
    reason: str

    @property
    def remark(self) -> str:
        """What the reader of an answer should know: one sentence."""
        return f"{self.reason[0].upper()}{self.reason[1:]}: rows may be missing from this answer."


AnswerKind = Literal["yes_no", "count", "number", "time", "text"]
Scalar = bool | int | float | str | None


class Answer(FrozenModel):
    """The values of an answer. No values: no rows. A None: a number that has no value.

    `names`: of a measurement of several parts, the part that each value belongs to.
    Times are text on the local clock, `2133-12-31 02:00:00`. `periods` are the days, months or
    years that the values belong to (2133-12-31, 2133-12, 2133).
    """

    kind: AnswerKind
    values: tuple[Scalar, ...] = ()
    unit: str = ""
    periods: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is no value; a count of 0 and a "no" are values."""
        return all(value is None for value in self.values)


class QueryResult(FrozenModel):
    """The answer to a query and its support.

    `rows` are the rows that pass every limit except the position in time, oldest first; the answer
    rests on the `chosen` ones. `evidence` maps resource types to the ids of the chosen rows.
    `searched` says what was searched, `steps` how many rows each limit left, in its order.
    `left_out` are rows that pass the limits but are no facts: not done, refuted, cancelled.
    `undecided` are rows whose value is a bound, a range or no number, so that they may pass the
    limit of a value, or exceed the extreme that the answer is.
    `gaps` are the types of resources that may have further rows, which could not be read.
    """

    query: Query
    patient: str
    conventions: str
    answer: Answer
    rows: tuple[Row, ...] = ()
    evidence: dict[str, tuple[str, ...]] = {}
    caveats: tuple[Caveat, ...] = ()
    searched: tuple[str, ...] = ()
    steps: tuple[SearchStep, ...] = ()
    left_out: tuple[Row, ...] = ()
    undecided: tuple[Row, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The caveats as text."""
        return tuple(caveat.text for caveat in self.caveats)

    @property
    def retrieved(self) -> dict[str, tuple[str, ...]]:
        """The resources that passed the final filter, by type."""
        return self.evidence

    @property
    def chosen(self) -> tuple[Row, ...]:
        """The rows that the answer rests on."""
        return tuple(row for row in self.rows if row.chosen)


def collect_evidence(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """The supporting resources of rows: ids by type.

    A mixture counts only if every drug of it is among the rows of the order.
    """
    refs: list[str] = []
    complete_mixtures: list[str] = []
    drug_counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        refs += row.refs
        if row.mixture_ref:
            order_and_mixture = (row.refs[0], row.mixture_ref)
            drug_counts[order_and_mixture] += 1
            if drug_counts[order_and_mixture] == row.ingredient_count:
                complete_mixtures.append(row.mixture_ref)
    ids_by_type: dict[str, dict[str, None]] = defaultdict(dict)
    for ref in (*refs, *complete_mixtures):
        resource_type, _, resource_id = ref.partition("/")
        ids_by_type[resource_type][resource_id] = None
    return {name: tuple(ids) for name, ids in sorted(ids_by_type.items())}
