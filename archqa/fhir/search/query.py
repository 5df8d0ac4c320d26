"""A search as a value: what is filtered, how it is sorted, what comes with it, and in which form.

Source: hl7.org/fhir/R4/search.html. `read` finds every mistake of a search before it complains.
"""

from dataclasses import dataclass

from archqa.fhir.values.search_parameters import Parameter

MOST_VALUES = 2000
"""Values of one parameter, parted by commas."""


@dataclass(frozen=True)
class Filter:
    """One parameter of a search. Values are alternatives; escapes are still in them.

    With `chain`, the resource referred to (of type `chain_type`) must pass that filter; with `has`, a resource of type
    `chain_type` that refers to this one by `parameter` must.
    """

    parameter: Parameter
    values: tuple[str, ...] = ()
    modifier: str = ""
    chain_type: str = ""
    chain: "Filter | None" = None
    has: bool = False


@dataclass(frozen=True)
class SortKey:
    """One key of `_sort`."""

    parameter: Parameter
    descending: bool


@dataclass(frozen=True)
class Include:
    """One `_include` or `_revinclude`: `source:parameter:target`. Any may be empty: all of them."""

    source: str
    parameter: str
    target: str
    iterate: bool


@dataclass(frozen=True)
class Query:
    """A search of one type. `count` None: as the profile has it; `reach`: what these patients' records refer to."""

    type: str
    filters: tuple[Filter, ...] = ()
    reach: tuple[tuple[str, ...], ...] = ()
    sort: tuple[SortKey, ...] = ()
    includes: tuple[Include, ...] = ()
    revincludes: tuple[Include, ...] = ()
    count: int | None = None
    offset: int = 0
    elements: tuple[str, ...] = ()
    summary: str = "false"
    total: str = ""
    notices: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    """As asked, without the place of the page: what the link to the next page repeats."""
