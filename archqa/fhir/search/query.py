"""A parsed search: filters, order, included resources, and the form of the result.

Source: hl7.org/fhir/R4/search.html.
"""

from dataclasses import dataclass, field

from archqa.fhir.search.summaries import WHOLE, Subset
from archqa.fhir.search.unsupported import Handling, Ignored
from archqa.fhir.values.search_parameters import Kind, Parameter

MAX_VALUES = 2000
"""Comma-separated values of one parameter."""

MAX_COMPARISONS = 1000
"""Values of all parameters together, apart from ids and codes, which are looked up at once.

Each becomes a condition in SQL; SQLite takes a second to compile a thousand of them, a minute for
ten thousand, and cannot be interrupted meanwhile.
"""

COMPOSITE_COMPARISONS = 10
"""A value of a composite counts as so many comparisons: each is a search of its own in SQL."""

MAX_SORT_KEYS = 20

MAX_CHAIN_STEPS = 3
"""References that a chain follows, in either direction."""

MAX_STEP_RESOURCES = 200_000
"""Resources that a step of a chain may find, apart from its first and last: they are in memory."""


@dataclass(frozen=True)
class Filter:
    """One parameter of a search. `values` are alternatives, still with escapes.

    With `chain`, the referenced resource (of type `chain_type`) must pass that filter. With
    `is_reverse_chain`, a resource of `chain_type` that refers here by `parameter` must pass it.
    """

    parameter: Parameter
    values: tuple[str, ...] = ()
    modifier: str = ""
    chain_type: str = ""
    chain: "Filter | None" = None
    is_reverse_chain: bool = False

    @property
    def comparisons(self) -> int:
        """The number of values that become conditions of their own."""
        if self.chain is not None:
            return self.chain.comparisons
        if self.parameter.kind is Kind.COMPOSITE:
            return COMPOSITE_COMPARISONS * len(self.values)
        if self.parameter.kind is not Kind.TOKEN or self.modifier == "text":
            return len(self.values)
        return sum(value.endswith("|") for value in self.values)


@dataclass(frozen=True)
class SortKey:
    """One key of `_sort`."""

    parameter: Parameter
    descending: bool


@dataclass(frozen=True)
class Include:
    """One `_include` or `_revinclude`: `source:parameter:target`. An empty part means any."""

    source: str
    parameter: str
    target: str
    iterate: bool


@dataclass(frozen=True)
class Query:
    """A search of one type.

    `count` None means the profile's default. `referenced_by_patients` limits the search to what
    the records of these patients refer to.
    """

    type: str
    filters: tuple[Filter, ...] = ()
    referenced_by_patients: tuple[tuple[str, ...], ...] = ()
    sort: tuple[SortKey, ...] = ()
    includes: tuple[Include, ...] = ()
    revincludes: tuple[Include, ...] = ()
    count: int | None = None
    offset: int = 0
    subset: Subset = WHOLE
    total: str = ""
    notices: tuple[str, ...] = ()
    ignored: Ignored = field(default_factory=lambda: Ignored(Handling.REFUSE))
    params: tuple[tuple[str, str], ...] = ()
    """The parameters of the request without `_offset`: the link to the next page repeats them."""

    @property
    def counts_only(self) -> bool:
        """Whether the total is all that is asked for: `_summary=count` or `_count=0`."""
        return self.subset.summary == "count" or self.count == 0
