"""A clinical question as a typed query: what, which, when, and what to return.

    visit = Visit(kind="hospital", which="last")
    query = Query(what="lab", names=("Glucose",), when=When(visit=visit, position="first"))
    query_text(query)  ->  "The value of the first lab result 'Glucose' during the last hospital visit."

The embedded parser or a model only writes the query; `execute` computes the answer and the
resources that support it. Every `what` goes with every sensible `returns` and `summary`.
"""

import datetime
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from archqa.core.value import FrozenModel
from archqa.errors import CallerError
from archqa.query.kinds import KINDS
from archqa.query.kinds import ReturnedField as ReturnedField
from archqa.query.kinds import RowKind as RowKind
from archqa.query.scope import When
from archqa.query.values import Comparison

Aggregation = Literal[
    "each",
    "count",
    "count_distinct",
    "exists",
    "minimum",
    "maximum",
    "average",
    "sum",
    "change",
]
"""How the values become an answer. each: every value, texts once; exists: yes or no; change: the
last value minus the first."""

State = Literal["current", "ended"]
"""current: by status and dates at the time of the question. ended: stopped, resolved, completed."""

Flag = Literal["high", "low", "abnormal", "normal", "positive", "negative"]
"""What a result's interpretation says, else its reference range. abnormal: high or low or marked;
positive and negative: by the interpretation, or an answer in words."""

VisitClass = Literal["ambulatory", "emergency", "inpatient", "icu", "virtual", "home"]
"""The class of an encounter (v3 ActEncounterCode: AMB, EMER, IMP and ACUTE, VR, HH); icu by place."""

Relation = Literal["difference", "greater", "less", "equal"]

NUMERIC_FIELDS = frozenset({"value", "dose", "length_of_stay", "elapsed", "age"})
"""Fields that can be summed and compared; times have a minimum and a maximum, too."""

MEASUREMENT_KINDS = frozenset({"lab", "vital", "output"})
MICROBIOLOGY = frozenset({"microbiology_test", "organism", "susceptibility"})
_NAMED = frozenset(kind.what for kind in KINDS.values() if kind.named)
_RESULTS = frozenset(kind.what for kind in KINDS.values() if "flag" in kind.returns)
TIME_FIELDS = frozenset({"time", "end_time", "birth_date", "death_time"})

KINDS_BY_LIMIT: dict[str, frozenset[str]] = {
    "specimens": MICROBIOLOGY | {"lab", "observation"},
    "organisms": MICROBIOLOGY,
    "routes": frozenset({"medication", "administration", "immunization"}),
    "admission_sources": frozenset({"hospital_visit", "encounter"}),
    "grew": frozenset({"microbiology_test"}),
    "names": _NAMED,
    "concepts": _NAMED,
    "state": frozenset(kind.what for kind in KINDS.values() if kind.has_state),
    "flag": _RESULTS,
    "classes": frozenset({"encounter", "hospital_visit", "icu_stay"}),
    "reasons": frozenset(
        kind.what for kind in KINDS.values() if "reason" in kind.returns
    ),
}
"""The limits that go with some kinds of rows only, and with which."""


class ValueTest(FrozenModel):
    """Only rows whose value stands so to a number."""

    comparison: Comparison
    number: float

    def __str__(self) -> str:
        comparison = self.comparison.replace("_", " ")
        if self.comparison in {"greater", "less"}:
            comparison = f"{comparison} than"
        return f"{comparison} {self.number:g}"


class Against(FrozenModel):
    """The other side of a comparison: the same rows at another time, or other names.

    A difference is the query's own side minus this one; greater: the query's own side is greater than this one.
    """

    relation: Relation
    names: tuple[str, ...] = ()
    """Empty: the same names as the query's."""

    concepts: tuple[str, ...] = ()
    """Concepts in place of names."""

    when: When = When()


class Companion(FrozenModel):
    """Only rows that stand near rows of another kind: drugs ordered after a diagnosis within the same visit."""

    what: RowKind
    names: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    within: Literal[
        "same_time", "same_day", "same_month", "same_visit", "stay", "ever"
    ] = "same_visit"
    """stay: between the start and the end of the companion."""

    order: Literal["any", "after", "before"] = "any"
    """after: the query's rows come after the companion's."""

    when: When = When()


class Query(FrozenModel):
    """A question about one patient. Lists mean any of; an empty list or null means no such limit."""

    what: RowKind
    names: tuple[str, ...] = ()
    """Names as the record has them; several: any of them."""

    concepts: tuple[str, ...] = ()
    """Names of archqa's own concepts, such as hemoglobin A1c or statin: rows with one of their codes,
    whatever the display says. With names: either suffices.
    """

    state: State | None = None
    """Only what is current, or has ended, when the question is asked."""

    flag: Flag | None = None
    """Only results that are marked so."""

    classes: tuple[VisitClass, ...] = ()
    """Encounters: of which class."""

    reasons: tuple[str, ...] = ()
    """Only rows given or done for one of these, by name or concept."""

    specimens: tuple[str, ...] = ()
    """Results: what was tested, such as URINE."""

    organisms: tuple[str, ...] = ()
    """Susceptibilities: of which organisms."""

    routes: tuple[str, ...] = ()
    """Medications: route codes, such as PO."""

    admission_sources: tuple[str, ...] = ()
    """Hospital visits: admitted through, such as EMERGENCY ROOM."""

    results: tuple[str, ...] = ()
    """Results in words, such as R for a susceptibility."""

    value: ValueTest | None = None
    grew: bool | None = None
    """Microbiology tests: only those with (without) an organism."""

    extreme: Literal["minimum", "maximum"] | None = None
    """Only the rows with the smallest (largest) value of all that pass the other limits."""

    companion: Companion | None = None
    newest: int | None = Field(default=None, ge=2, le=50)
    """Only the rows of the latest so many times."""

    when: When = When()
    returns: ReturnedField = "value"
    summary: Aggregation = "each"
    per: Literal["day", "month", "year"] | None = None
    """One summary for each day and so on."""

    unit: Literal["minute", "hour", "day", "week", "month", "year"] | None = None
    """Of elapsed time and lengths of stay; null: days."""

    against: Against | None = None
    """For a comparison of, or a change between, two times."""

    now: str | None = None
    """The clock of the question, such as 2133-12-31T23:59:00."""

    @model_validator(mode="before")
    @classmethod
    def _return_what_rows_have(cls, fields: Any) -> Any:
        """Without a field, rows that have no value return their name, else their time."""
        if not isinstance(fields, dict) or "returns" in fields:
            return fields
        kind = KINDS.get(str(fields.get("what")))
        if kind is None or fields.get("summary") in {"count", "exists"}:
            return fields
        for name in ("value", "name", "time"):
            if name in kind.returns:
                return {**fields, "returns": name}
        return fields

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        mistakes = []
        fields = KINDS[self.what].returns
        if self.summary not in {"count", "exists"} and self.returns not in fields:
            listed = ", ".join(sorted(fields))
            mistakes.append(f"a {self.what} has no {self.returns}; it has {listed}")
        mistakes += self._summary_mistakes()
        for limit, kinds in KINDS_BY_LIMIT.items():
            has_limit = getattr(self, limit) not in {(), None}
            if has_limit and self.what not in kinds:
                mistakes.append(f"{limit} does not go with {self.what}")
        has_length = self.returns == "length_of_stay"
        if self.extreme and not has_length and fields.isdisjoint({"value", "dose"}):
            mistakes.append(
                f"a {self.what} has no value that could be extreme: use a position, or return length_of_stay"
            )
        if self.newest and (self.summary in {"count", "exists"} or self.when.position):
            mistakes.append("the newest rows are neither counted nor at one position")
        if self.now is not None:
            try:
                datetime.datetime.fromisoformat(self.now)
            except ValueError:
                mistakes.append(
                    f"now: {self.now!r} is no time such as 2133-12-31T23:59:00"
                )
        if mistakes:
            raise ValueError("; ".join(mistakes))
        return self

    def _summary_mistakes(self) -> list[str]:
        mistakes = []
        comparable = self.returns in NUMERIC_FIELDS | TIME_FIELDS
        if self.summary in {"average", "sum"} and self.returns not in NUMERIC_FIELDS:
            mistakes.append(
                f"{self.returns} is no number: there is no {self.summary} of it"
            )
        if self.summary == "change" and self.returns != "value":
            mistakes.append("a change is one of the value")
        if self.summary == "change" and self.against:
            mistakes.append("a change compares by itself: no against")
        if self.summary in {"minimum", "maximum"} and not comparable:
            mistakes.append(f"{self.returns} has no {self.summary}")
        if self.per and self.summary not in {
            "minimum",
            "maximum",
            "average",
            "sum",
            "count",
        }:
            mistakes.append("per needs a minimum, maximum, average, sum or count")
        if self.per and self.what == "patient":
            mistakes.append("a patient has no time: no per")
        if self.against and (self.per or self.summary in {"exists", "count_distinct"}):
            mistakes.append("against compares single numbers: no per, no exists")
        return mistakes


class CannotExecute(CallerError):
    """A query has no meaning for this record. The message addresses the author of the query."""
