"""What came out: the answer, the rows it was made from, the resources it rests on, and what the reader should know."""

from collections.abc import Iterable
from typing import Literal

from archqa.core.value import FrozenModel
from archqa.query.execution.rows import Row
from archqa.query.model import Query

AnswerKind = Literal["yes_no", "count", "number", "time", "text"]
Scalar = bool | int | float | str | None


class Answer(FrozenModel):
    """The values of an answer. No values: nothing was found; a None: a figure of nothing.

    Times are text, `2133-12-31 02:00:00` on the wall clock. `periods` are the days, months or years that the values
    belong to (2133-12-31, 2133-12, 2133).
    """

    kind: AnswerKind
    values: tuple[Scalar, ...] = ()
    unit: str = ""
    periods: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is no value; a count of 0 and a no are values."""
        return all(value is None for value in self.values)


class QueryResult(FrozenModel):
    """The answer to a query, and what it rests on.

    `rows` are all rows that pass every limit but the order in time, oldest first; the `chosen` ones carry the answer.
    `evidence` are the resources of the chosen rows, by type. `searched` says what was looked through.
    """

    query: Query
    patient: str
    conventions: str
    answer: Answer
    rows: tuple[Row, ...] = ()
    evidence: dict[str, tuple[str, ...]] = {}
    warnings: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()

    @property
    def retrieved(self) -> dict[str, tuple[str, ...]]:
        """The resources that passed the final filter, by type."""
        return self.evidence

    @property
    def chosen(self) -> tuple[Row, ...]:
        """The rows that carry the answer."""
        return tuple(row for row in self.rows if row.chosen)


def collect_evidence(chosen: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """The resources of rows, by type. A mix counts only if every drug of it is among the rows."""
    rows = list(chosen)
    refs = dict.fromkeys(ref for row in rows for ref in row.refs)
    drugs: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.whole:
            drugs[row.refs[0], row.whole] = drugs.get((row.refs[0], row.whole), 0) + 1
            if drugs[row.refs[0], row.whole] == row.parts:
                refs[row.whole] = None
    found: dict[str, dict[str, None]] = {}
    for ref in refs:
        kind, _, name = ref.partition("/")
        found.setdefault(kind, {})[name] = None
    return {kind: tuple(names) for kind, names in sorted(found.items())}
