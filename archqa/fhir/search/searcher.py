"""Run a search: find the matches, sort them, cut out one page, add what is included.

Source: hl7.org/fhir/R4/search.html#sort, #revinclude, #errors.
"""

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from sqlite3 import Connection

from archqa.fhir.index import reference_graph
from archqa.fhir.index.blobs import ResourceReader
from archqa.fhir.index.sql import first_cell, sql_number_list
from archqa.fhir.profile import Profile
from archqa.fhir.record import Entry, FhirError, Page, operation_outcome
from archqa.fhir.request_budget import current_budget
from archqa.fhir.search.compartments import reference_elements
from archqa.fhir.search.filter_compiler import (
    INDEX_TABLES,
    CompiledFilter,
    FilterCompiler,
    with_schema,
)
from archqa.fhir.search.query import Include, Query, SortKey, entry_of
from archqa.fhir.search.value_clauses import SqlClause, joined_args
from archqa.fhir.values.search_parameters import Kind, parameters
from archqa.fhir.values.urls import build_search_url, with_count

MAX_INCLUDED = 10_000
"""Included resources of one page."""

_MAX_ITERATIONS = 6
"""Steps that `:iterate` follows."""

_INITIAL_ESTIMATE = 5000
"""Assumed size of the best driver before any is counted."""

_DRIVER_RATIO = 4
"""A driver is used if it finds at most so many times the resources of the smallest one."""

_GOOD_ENOUGH = 200
"""So few candidates are tested directly instead of counting another driver of one patient."""

_GOOD_ENOUGH_UNSCOPED = 20_000
"""The same if the other driver would read the rows of all patients."""

_MAX_CACHED_NUMBERS = 50_000
"""Numbers of a result that are cached, so that the next page need not search again."""

ResultKey = tuple[SqlClause, tuple[SortKey, ...]]
"""The key of a cached result: what matches, and its order."""

ReadLater = Callable[[Query, Sequence[int]], Iterator[Sequence[Entry]]]
"""Read the matches with these numbers, a few at a time."""

_SORT_VALUES = {
    Kind.TOKEN: "(SELECT coalesce(code, words) FROM term WHERE t = x.t)",
    Kind.DATE: "x.low_utc",
    Kind.STRING: "x.folded",
    Kind.URI: "(SELECT code FROM term WHERE t = x.t)",
    Kind.QUANTITY: "x.low",
    Kind.NUMBER: "x.low",
    Kind.REFERENCE: "(SELECT id FROM target WHERE t = x.t)",
}
"""The value that each kind sorts by (hl7.org/fhir/R4/search.html#sort)."""


class Searcher:
    """Run searches over one connection, with caches for totals and results."""

    def __init__(
        self,
        connection: Connection,
        profile: Profile,
        totals: dict[SqlClause, int],
        results: dict[ResultKey, "array[int] | None"],
        schemas: tuple[str, ...] = ("main",),
        read_later: ReadLater | None = None,
    ) -> None:
        self._connection = connection
        self._read_later = read_later
        self._schemas = schemas
        self._profile = profile
        self._reader = ResourceReader(connection)
        self._totals = totals
        self._results = results

    def run(self, query: Query) -> Page:
        """Return one page of a search. Raises `FhirError`."""
        compiler = FilterCompiler(self._connection, self._profile, self._schemas)
        where = self._where(query, compiler)
        page_size, is_streamed = self._page_size(query)
        numbers, has_next = self._page_numbers(
            query,
            compiler,
            where,
            page_size,
        )
        total = self._total(query, where, has_next)
        later = None
        if self._read_later is not None and is_streamed:
            later = self._read_later(query, numbers)
            numbers = ()
        entries = self.entries(query, numbers)
        count = page_size
        if len(entries) < len(numbers):  # The reply is full: the next page begins here.
            numbers = numbers[: len(entries)]
            count = len(entries)
            has_next = True
        warnings = list(query.ignored.remarks)
        notices = [*query.notices, *compiler.notices]
        if query.count is not None and query.count > page_size:
            notices.append(f"_count is at most {page_size}.")
        if query.includes or query.revincludes:
            included, is_cut = _find_included(self._connection, query, numbers)
            included_entries = self.entries(query, included, "include")
            if len(included_entries) < len(included):
                problem = "The included resources do not fit into one reply."
                raise FhirError(
                    f"{problem} Ask for fewer matches with _count.", 400, "too-costly"
                )
            entries += included_entries
            if is_cut:
                limit = f"More than {MAX_INCLUDED} resources would come with this page"
                warnings.append(f"{limit}; the others were left out.")
        entries += outcome_entries(
            warnings, notices if self._profile.extensions_enabled else ()
        )
        next_url = None
        if has_next:
            params = with_count(query.params, page_size)
            next_params = (*params, ("_offset", str(query.offset + count)))
            next_url = build_search_url(query.type, next_params)
        return Page(
            query=build_search_url(query.type, query.params),
            entries=tuple(entries),
            total=total,
            next=next_url,
            offset=query.offset,
            count=count,
            ignored=tuple(query.ignored.pairs),
            warned=tuple(query.ignored.warned),
            later=later,
        )

    def entries(
        self, query: Query, numbers: Iterable[int], mode: str = "match"
    ) -> list[Entry]:
        """Return the entries for these resources, as many as the reply has room for."""
        # The list of elements does not apply to included resources (search.html#elements).
        subset = query.subset if mode == "match" else replace(query.subset, elements=())
        resources = self._reader.fetch(numbers)
        return [entry_of(resource, subset, mode) for resource in resources]

    def cached_numbers(
        self, key: SqlClause, find: Callable[[], list[int]]
    ) -> list[int]:
        """Return the numbers that `find` finds, from the cache if the key was asked for before."""
        cached = self._results.get((key, ()))
        if cached is not None:
            return list(cached)
        numbers = find()
        if len(numbers) <= _MAX_CACHED_NUMBERS:
            self._results[key, ()] = array("q", numbers)
        return numbers

    def _page_size(self, query: Query) -> tuple[int, bool]:
        """Return the largest number of matches on the page, and whether it is sent in chunks.

        It is if it is larger than a reply may be.
        """
        size = self._profile.default_count if query.count is None else query.count
        budget = current_budget()
        if budget is None:
            return size, False
        may_stream = budget.may_stream and self._profile.max_count is None
        has_more_than_matches = query.includes or query.revincludes
        if size > budget.limits.page_size and may_stream and not has_more_than_matches:
            return size, True
        return min(size, budget.limits.page_size), False

    def _where(self, query: Query, compiler: FilterCompiler) -> SqlClause:
        """Return the condition on a resource `r` for all filters."""
        compiler.set_patient_scope(query.type, query.filters)
        filters = []
        for search_filter in query.filters:
            compiled = compiler.compile(query.type, search_filter)
            if search_filter is compiler.patient_filter:
                compiled = compiled._replace(is_patient_scope=True)
            filters.append(compiled)
        for patients in query.referenced_by_patients:
            filters.append(compiler.compile_referenced_by(query.type, patients))
        drivers = self._choose_drivers(filters)
        # A driver that reads the rows of one patient only makes the filter by patient redundant.
        if any(
            driver.patient_scoped and not driver.is_patient_scope for driver in drivers
        ):
            filters = [
                compiled for compiled in filters if not compiled.is_patient_scope
            ]
        sql = "SELECT k FROM type WHERE name = ?"
        type_id = first_cell(self._connection, sql, (query.type,)) or 0
        clauses = [SqlClause(f"r.type = {type_id}")]
        for compiled in filters:
            if compiled.driver is not None and compiled in drivers:
                driver = compiled.driver
                clauses.append(SqlClause(f"r.n IN ({driver.sql})", driver.args))
            else:
                clauses.append(compiled.predicate)
        return SqlClause(
            " AND ".join(clause.sql for clause in clauses), joined_args(clauses)
        )

    def _choose_drivers(self, filters: list[CompiledFilter]) -> list[CompiledFilter]:
        """Return the filter whose driver finds the fewest, and those that find hardly more."""
        candidates = [compiled for compiled in filters if compiled.driver is not None]
        candidates.sort(key=lambda compiled: compiled.driver_rank)
        if len(candidates) < 2:
            return candidates
        smallest = _INITIAL_ESTIMATE
        sizes: list[tuple[int, CompiledFilter]] = []
        for candidate in candidates:
            enough = _GOOD_ENOUGH if candidate.patient_scoped else _GOOD_ENOUGH_UNSCOPED
            if sizes and smallest <= enough:
                continue
            driver = candidate.driver
            assert driver is not None
            limit = _DRIVER_RATIO * smallest + 1
            sql = f"SELECT count(*) FROM (SELECT 1 FROM ({driver.sql}) LIMIT {limit})"
            sql = with_schema(sql, self._schemas[0])
            size = first_cell(self._connection, sql, driver.args)
            sizes.append((size, candidate))
            smallest = min(smallest, size)
        if len(sizes) == 1:
            (_, candidate) = sizes[0]
            return [candidate]
        max_size = _DRIVER_RATIO * smallest
        return [candidate for size, candidate in sizes if size <= max_size]

    def _page_numbers(
        self,
        query: Query,
        compiler: FilterCompiler,
        where: SqlClause,
        count: int,
    ) -> tuple[Sequence[int], bool]:
        """Return the numbers of one page, and whether there is a next one.

        A result that is not huge is cached as a whole.
        """
        if query.counts_only:
            return (), False
        key = (where, query.sort)
        if key not in self._results:
            numbers = self._matches(
                query,
                compiler,
                where,
                _MAX_CACHED_NUMBERS + 1,
                0,
            )
            is_huge = len(numbers) > _MAX_CACHED_NUMBERS
            self._results[key] = None if is_huge else numbers
        cached = self._results[key]
        if cached is None:
            numbers = self._matches(
                query,
                compiler,
                where,
                count + 1,
                query.offset,
            )
            return numbers[:count], len(numbers) > count
        self._totals.setdefault(where, len(cached))
        end = query.offset + count
        return cached[query.offset : end], end < len(cached)

    def _matches(
        self,
        query: Query,
        compiler: FilterCompiler,
        where: SqlClause,
        limit: int,
        offset: int,
    ) -> "array[int]":
        """Return the numbers of the matches, in order: 8 bytes for a match."""
        columns = ["r.n AS n"]
        order = []
        for index, key in enumerate(query.sort):
            columns.append(f"{_sort_value(query.type, compiler, key)} AS k{index}")
            direction = "DESC" if key.descending else "ASC"
            order.append(f"k{index} {direction} NULLS LAST")
        select = f"SELECT {', '.join(columns)} FROM here.resource r WHERE {where.sql}"
        selects = " UNION ALL ".join(
            with_schema(select, schema) for schema in self._schemas
        )
        sql = f"{selects} ORDER BY {', '.join([*order, 'n'])} LIMIT ? OFFSET ?"
        args = (*where.args * len(self._schemas), limit, offset)
        return array("q", (row[0] for row in self._connection.execute(sql, args)))

    def _total(
        self,
        query: Query,
        where: SqlClause,
        has_next: bool,
    ) -> int | None:
        """Return the number of matches; None if the profile tells it only on request."""
        if query.total == "none" and not query.counts_only:
            return None
        is_requested = query.counts_only or query.total in {"accurate", "estimate"}
        is_single_page = not has_next and query.offset == 0
        if not (self._profile.always_total or is_requested or is_single_page):
            return None
        if where not in self._totals:
            sql = f"SELECT count(*) FROM here.resource r WHERE {where.sql}"
            total = 0
            for schema in self._schemas:
                sql_of_schema = with_schema(sql, schema)
                total += first_cell(self._connection, sql_of_schema, where.args)
            self._totals[where] = total
        return self._totals[where]


def _sort_value(resource_type: str, compiler: FilterCompiler, key: SortKey) -> str:
    """Return the SQL to sort by: of several values the first in the direction of the sort."""
    parameter = key.parameter
    if parameter.name == "_id":
        return "r.id"
    if parameter.name == "_lastUpdated":
        return "r.updated"
    value = _SORT_VALUES[parameter.kind]
    if parameter.kind is Kind.DATE and key.descending:
        value = "x.high_utc"
    aggregate = "max" if key.descending else "min"
    table = INDEX_TABLES[parameter.kind]
    where = (
        f"x.n = r.n AND x.p IN ({compiler.element_ids_sql(resource_type, parameter)})"
    )
    return f"(SELECT {aggregate}({value}) FROM here.{table} x WHERE {where})"


def outcome_entries(warnings: Iterable[str], notices: Iterable[str]) -> list[Entry]:
    """Return the entry that says what was ignored or read in another way; none for nothing.

    `warnings` tell what a request asked for in vain, `notices` how it was read.
    """
    outcome = operation_outcome(warnings, "warning", "not-supported")
    outcome["issue"] += operation_outcome(notices, "information", "informational")[
        "issue"
    ]
    if not outcome["issue"]:
        return []
    return [
        Entry(
            "OperationOutcome",
            "",
            json.dumps(outcome),
            "outcome",
        )
    ]


def _find_included(
    connection: Connection,
    query: Query,
    match_numbers: Iterable[int],
) -> tuple[list[int], bool]:
    """Return the resources that `_include` and `_revinclude` add, in the record's order.

    The flag tells whether some were left out because there are more than `MAX_INCLUDED`.
    """
    matches = set(match_numbers)
    reached = set(matches)
    latest = sorted(matches)
    for step in range(_MAX_ITERATIONS):
        is_initial = step == 0
        new: set[int] = set()
        for include in query.includes:
            if is_initial or include.iterate:
                elements = _included_elements(connection, include)
                targets = reference_graph.targets_referenced_by(
                    connection, latest, elements
                )
                new |= reference_graph.resources_of_targets(
                    connection, targets, include.target
                )
        for include in query.revincludes:
            if is_initial or include.iterate:
                elements = _included_elements(connection, include)
                targets = reference_graph.targets_of_resources(connection, latest)
                new |= reference_graph.resources_referencing(
                    connection, targets, elements
                )
        latest = sorted(new - reached)
        reached |= new
        if not latest:
            break
    included = sorted(reached - matches)
    is_cut = len(included) > MAX_INCLUDED
    return included[:MAX_INCLUDED], is_cut


def _included_elements(connection: Connection, include: Include) -> str:
    """Return the numbers of the elements of an include, as SQL.

    `*` stands for every reference that can be searched by.
    """
    numbers = []
    for p, source_type, path in reference_elements(connection):
        if include.source and include.source != source_type:
            continue
        parameter = parameters(source_type).get(include.parameter)
        if not include.parameter:
            is_included = "[]" not in path
        else:
            is_reference = parameter is not None and parameter.kind is Kind.REFERENCE
            is_included = (
                is_reference and parameter is not None and path in parameter.elements
            )
        if is_included:
            numbers.append(p)
    return sql_number_list(numbers)
