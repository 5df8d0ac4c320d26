"""Runs a search: finds what matches, puts it in order, cuts out one page, adds what comes with it."""

import json
import sqlite3
from array import array
from collections.abc import Iterable

from archqa.fhir.index.blobs import BlobReader
from archqa.fhir.outcome import operation_outcome
from archqa.fhir.profile import Profile
from archqa.fhir.record import Entry, Page
from archqa.fhir.search.comparisons import SqlClause
from archqa.fhir.search.conditions import INDEX_TABLES, CompiledFilter, FilterCompiler, with_schema
from archqa.fhir.search.includes import MAX_INCLUDED, find_included
from archqa.fhir.search.query import Query, SortKey
from archqa.fhir.search.summaries import subset_resource
from archqa.fhir.values.search_parameters import Kind
from archqa.fhir.values.urls import build_search_url

_ENOUGH = 5000
"""A driver that finds more than four times as many is never counted to its end."""

_FEW = 200
"""Candidates that are tested one by one rather than looking for a better driver."""

_MANY = 20_000
"""The same where the other driver would look at the rows of all patients."""

_KEPT = 50_000
"""Numbers of a result that are kept, so that going from page to page finds nothing anew."""


ResultKey = tuple[SqlClause, tuple[SortKey, ...]]
"""What tells one result from another: what matches, and its order."""


class Searcher:
    """Runs searches over one connection."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        profile: Profile,
        totals: dict[SqlClause, int],
        results: dict[ResultKey, "array[int] | None"],
        schemas: tuple[str, ...] = ("main",),
    ) -> None:
        self._connection = connection
        self._schemas = schemas
        self._profile = profile
        self._reader = BlobReader(connection)
        self._totals = totals
        self._results = results

    def run(self, query: Query) -> Page:
        """One page of a search. Raises `FhirError`."""
        matcher = FilterCompiler(self._connection, self._profile, self._schemas)
        where = self._where(query, matcher)
        count = self._profile.default_count if query.count is None else query.count
        numbers, more = self._page(query, matcher, where, count)
        total = self._total(query, where, more)
        entries = self._entries(query, numbers, "match")
        also, cut = (
            find_included(self._connection, query, numbers)
            if query.includes or query.revincludes
            else ([], False)
        )
        entries += self._entries(query, also, "include")
        notices = [*query.notices, *matcher.notices]
        if cut:
            notices.append(
                f"More than {MAX_INCLUDED} resources would come with this page; the others were left out."
            )
        next_page = (*query.params, ("_offset", str(query.offset + count))) if more else None
        return Page(
            query=build_search_url(query.type, query.params),
            entries=(*entries, *_notices(notices if self._profile.helpful else [])),
            total=total,
            next=build_search_url(query.type, next_page) if next_page else None,
            offset=query.offset,
            count=count,
        )

    def _where(self, query: Query, matcher: FilterCompiler) -> SqlClause:
        matcher.scope(query.filters)
        matches = [matcher.match(query.type, each) for each in query.filters]
        matches += [matcher.reach(query.type, patients) for patients in query.reach]
        quick = self._quick(matches)
        # Rows of one patient only are looked at: whether the resource is theirs need not be tested again.
        if any(match.patient_scoped and not match.is_patient_scope for match in quick):
            matches = [match for match in matches if not match.is_patient_scope]
        k = self._connection.execute("SELECT k FROM type WHERE name = ?", (query.type,)).fetchone()
        clauses = [SqlClause(f"r.type = {k[0] if k else 0}")]
        for match in matches:
            driver = match.driver if match in quick else None
            clauses.append(
                SqlClause(f"r.n IN ({driver.sql})", driver.args) if driver else match.test
            )
        return SqlClause(
            " AND ".join(each.sql for each in clauses),
            tuple(arg for each in clauses for arg in each.args),
        )

    def _quick(self, matches: list[CompiledFilter]) -> list[CompiledFilter]:
        """The matches to begin with: that whose driver finds the fewest, and those that find hardly more."""
        drivers = sorted(
            (match for match in matches if match.driver is not None),
            key=lambda each: each.driver_rank,
        )
        if len(drivers) < 2:
            return drivers
        best = _ENOUGH
        counted: list[tuple[int, CompiledFilter]] = []
        for match in drivers:
            if not counted or best > (_FEW if match.patient_scoped else _MANY):
                number = self._estimate(match, 4 * best + 1)
                counted.append((number, match))
                best = min(best, number)
        return [match for number, match in counted if number <= 4 * best or len(counted) == 1]

    def _estimate(self, match: CompiledFilter, most: int) -> int:
        """How many the driver finds, as far as `most`."""
        assert match.driver is not None
        find = f"SELECT count(*) FROM (SELECT 1 FROM ({match.driver.sql}) LIMIT {most})"
        return int(
            self._connection.execute(
                with_schema(find, self._schemas[0]), match.driver.args
            ).fetchone()[0]
        )

    def _page(
        self, query: Query, matcher: FilterCompiler, where: SqlClause, count: int
    ) -> tuple[list[int], bool]:
        """The numbers of one page, and whether there is another. A result that is not huge is found once and kept."""
        if query.summary == "count":
            return [], False
        key = (where, query.sort)
        if key not in self._results:
            found = self._numbers(query, matcher, where, _KEPT + 1, 0)
            self._results[key] = array("q", found) if len(found) <= _KEPT else None
        kept = self._results[key]
        end = query.offset + count
        if kept is not None:
            self._totals.setdefault(where, len(kept))
            return list(kept[query.offset : end]), end < len(kept)
        numbers = self._numbers(query, matcher, where, count + 1, query.offset)
        return numbers[:count], len(numbers) > count

    def _numbers(
        self, query: Query, matcher: FilterCompiler, where: SqlClause, most: int, offset: int
    ) -> list[int]:
        """The numbers of what matches, in order."""
        keys = [self._key(query.type, matcher, key) for key in query.sort]
        values = "".join(f", {value} AS k{at}" for at, (value, _) in enumerate(keys))
        each = f"SELECT r.n AS n{values} FROM here.resource r WHERE {where.sql}"
        every = " UNION ALL ".join(with_schema(each, schema) for schema in self._schemas)
        by = ", ".join([*(f"k{at} {way} NULLS LAST" for at, (_, way) in enumerate(keys)), "n"])
        args = (*where.args * len(self._schemas), most, offset)
        return [
            row[0]
            for row in self._connection.execute(f"{every} ORDER BY {by} LIMIT ? OFFSET ?", args)
        ]

    def _key(self, resource_type: str, matcher: FilterCompiler, key: SortKey) -> tuple[str, str]:
        """What to sort by, and which way: of several values the first that counts in that direction."""
        way, pick = ("DESC", "max") if key.descending else ("ASC", "min")
        if key.parameter.name in {"_id", "_lastUpdated"}:
            return ("r.id" if key.parameter.name == "_id" else "r.updated"), way
        kind, numbers = key.parameter.kind, matcher.element_ids_sql(resource_type, key.parameter)
        value = "x.high_utc" if kind is Kind.DATE and key.descending else _VALUE[kind]
        return (
            f"(SELECT {pick}({value}) FROM here.{INDEX_TABLES[kind]} x WHERE x.n = r.n AND x.p IN ({numbers}))",
            way,
        )

    def _total(self, query: Query, where: SqlClause, more: bool) -> int | None:
        if query.total == "none" and query.summary != "count":
            return None
        asked = query.total in {"accurate", "estimate"} or query.summary == "count"
        if not self._profile.always_total and not asked and (more or query.offset):
            return None
        if where not in self._totals:
            find = f"SELECT count(*) FROM here.resource r WHERE {where.sql}"
            each = [
                self._connection.execute(with_schema(find, schema), where.args)
                for schema in self._schemas
            ]
            self._totals[where] = sum(int(found.fetchone()[0]) for found in each)
        return self._totals[where]

    def _entries(self, query: Query, numbers: list[int], mode: str) -> list[Entry]:
        found = self.resources(numbers)
        if not query.elements and query.summary in {"false", "count"}:
            return [Entry(kind, name, text, mode) for kind, name, text in found]
        elements = query.elements if mode == "match" else ()
        return [
            Entry(kind, name, subset_resource(text, kind, elements, query.summary), mode)
            for kind, name, text in found
        ]

    def resources(self, numbers: Iterable[int]) -> list[tuple[str, str, str]]:
        """Type, id and JSON text of the resources with these numbers, in this order."""
        wanted = list(numbers)
        marks = ", ".join(map(str, wanted))
        find = f"SELECT r.n, k.name, r.id, r.d, r.body FROM resource r JOIN type k ON k.k = r.type WHERE r.n IN ({marks})"
        rows = {
            n: (kind, name, self._reader.decompress(d, body))
            for n, kind, name, d, body in self._connection.execute(find)
        }
        return [rows[n] for n in wanted]


_VALUE = {
    Kind.TOKEN: "(SELECT coalesce(code, words) FROM term WHERE t = x.t)",
    Kind.DATE: "x.low_utc",
    Kind.STRING: "x.folded",
    Kind.URI: "x.exact",
    Kind.QUANTITY: "x.low",
    Kind.NUMBER: "x.low",
    Kind.REFERENCE: "(SELECT id FROM target WHERE t = x.t)",
}
"""What each kind sorts by (hl7.org/fhir/R4/search.html#sort)."""


def _notices(notices: list[str]) -> list[Entry]:
    if not notices:
        return []
    text = json.dumps(operation_outcome(notices, "information", "informational"))
    return [Entry("OperationOutcome", "", text, "outcome")]
