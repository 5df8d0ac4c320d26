"""A parsed search: filters, order, included resources, and the form of the result.

Source: hl7.org/fhir/R4/search.html.
"""

from dataclasses import dataclass

from archqa.fhir.values.search_parameters import Parameter

MAX_VALUES = 2000
"""Comma-separated values of one parameter."""


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
    elements: tuple[str, ...] = ()
    summary: str = "false"
    total: str = ""
    notices: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    """The parameters of the request without `_offset`: the link to the next page repeats them."""
