"""`Observation/$lastn`: the latest observations of each code.

Source: hl7.org/fhir/R4/observation-operation-lastn.html.

Observations that share a coding are of one group, also through others; without codings, those of
the same text. An observation without an effective time counts as the oldest. Groups are of one
subject each, although R4 thinks of requests about a single subject.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import replace
from sqlite3 import Connection
from typing import NamedTuple

from archqa.fhir.index.reference_graph import sql_number_list, sql_parts
from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.record import Page
from archqa.fhir.search.query import Query
from archqa.fhir.search.query_parser import QueryParser
from archqa.fhir.search.result_parameters import parse_whole_number
from archqa.fhir.search.searcher import Searcher
from archqa.fhir.values.search_parameters import Kind, parameters
from archqa.fhir.values.urls import Params

PATH = "Observation/$lastn"

Code = tuple[str, ...]
"""System and code of a coding, or a text alone."""

_NO_CODE: Code = ()

Time = tuple[int, int]
"""End and start of an effective time, in microseconds of UTC."""

_Terms = tuple[str, tuple[int, ...]]
"""The subject of an observation, and the numbers of its terms."""

_NO_TIME: Time = (-(2**63), -(2**63))


class LastRequest(NamedTuple):
    """A request: which observations, and how many of each code."""

    query: Query
    max: int


def parse_last_request(params: Params, profile: Profile, lenient: bool | None) -> LastRequest:
    """Return the request of these parameters. Raises `FhirError` with every mistake."""
    mistakes: list[str] = []
    own = [value for name, value in params if name == "max"]
    search = [(name, value) for name, value in params if name != "max"]
    per_group = _parse_max(own, mistakes)
    mistakes += _missing_parameters(search)
    query = Query("Observation")
    try:
        query = QueryParser("Observation", profile, lenient).parse(search)
    except FhirError as error:
        mistakes += error.diagnostics
    if mistakes:
        raise FhirError(mistakes)
    link_params = (*(("max", value) for value in own), *query.params)
    return LastRequest(replace(query, path=PATH, params=link_params), per_group)


def _parse_max(values: list[str], mistakes: list[str]) -> int:
    if not values:
        return 1
    try:
        per_group = parse_whole_number("max", values[0])
    except FhirError:
        per_group = 0
    if per_group < 1 or len(values) > 1:
        mistakes.append("max is one whole number from 1.")
    return per_group


def _missing_parameters(params: Params) -> list[str]:
    names = {_base_name(name) for name, value in params if value.strip()}
    mistakes = []
    if names.isdisjoint({"patient", "subject"}):
        mistakes.append("$lastn needs a patient or subject.")
    if not any(name == "category" or "code" in name.split("-") for name in names):
        mistakes.append("$lastn needs a category or a code.")
    if "_sort" in names:
        mistakes.append("$lastn takes no _sort: it returns the latest first.")
    return mistakes


def _base_name(name: str) -> str:
    """Return the parameter without a chain or modifier; empty if it asks for what is missing."""
    head = name.partition(".")[0]
    base, _, modifier = head.partition(":")
    return "" if modifier == "missing" else base


def last_observations(connection: Connection, searcher: Searcher, request: LastRequest) -> Page:
    """Return one page of the latest observations of each code. Raises `FhirError`."""
    query = request.query
    matches, notices = searcher.all_matches(replace(query, sort=()))
    numbers = _choose(connection, matches, request.max)
    start = query.offset
    end = start + searcher.page_size(query)
    on_page = [] if query.counts_only else numbers[start:end]
    has_next = bool(on_page) and end < len(numbers)
    total = None if query.total == "none" and not query.counts_only else len(numbers)
    return searcher.page(query, on_page, has_next, total, notices)


def _choose(connection: Connection, matches: list[int], per_group: int) -> list[int]:
    """Return the latest matches of each group, the latest of all first."""
    times = _effective_times(connection, matches)
    chosen = []
    for group in _groups(connection, matches):
        ordered = sorted((times.get(n, _NO_TIME) for n in group), reverse=True)
        # All observations of the last time that is in are returned (ties).
        oldest = ordered[min(per_group, len(ordered)) - 1]
        chosen += [n for n in group if times.get(n, _NO_TIME) >= oldest]
    return sorted(chosen, key=lambda n: (times.get(n, _NO_TIME), -n), reverse=True)


def _effective_times(connection: Connection, numbers: Iterable[int]) -> dict[int, Time]:
    """Return the latest effective time of each observation that has any."""
    elements = _element_numbers(connection, Kind.DATE, "date")
    times: dict[int, Time] = {}
    for part in sql_parts(numbers):
        where = f"n IN ({part}) AND p IN ({elements})"
        rows = connection.execute(f"SELECT n, high_utc, low_utc FROM date WHERE {where}")
        for n, high, low in rows:
            times[n] = max(times.get(n, _NO_TIME), (high, low))
    return times


def _groups(connection: Connection, numbers: list[int]) -> Iterable[list[int]]:
    translations = _Translations()
    groups: dict[Hashable, list[int]] = defaultdict(list)
    same_terms = _by_subject_and_terms(connection, numbers)
    codes = _codes(connection, {t for _, terms in same_terms for t in terms})
    keys: dict[_Terms, Hashable] = {}
    for subject, terms in same_terms:
        own = [(subject, code) for code in _decisive([codes[t] for t in terms])]
        keys[subject, terms] = own[0]
        translations.equate(own)
    for subject_and_terms, members in same_terms.items():
        groups[translations.representative(keys[subject_and_terms])] += members
    return groups.values()


def _by_subject_and_terms(connection: Connection, numbers: list[int]) -> dict[_Terms, list[int]]:
    """Return the observations by subject and terms: few combinations of many observations."""
    elements = _element_numbers(connection, Kind.TOKEN, "code")
    terms: dict[int, tuple[int, ...]] = {}
    for part in sql_parts(numbers):
        where = f"n IN ({part}) AND p IN ({elements})"
        for n, t in connection.execute(f"SELECT DISTINCT n, t FROM token WHERE {where}"):
            terms[n] = (*terms.get(n, ()), t)
    subjects = _subjects(connection, numbers)
    observations: dict[_Terms, list[int]] = defaultdict(list)
    for n in numbers:
        observations[subjects.get(n, ""), terms.get(n, ())].append(n)
    return observations


def _codes(connection: Connection, terms: Iterable[int]) -> dict[int, Code]:
    """Return what each term names: system and code, or a text alone."""
    codes: dict[int, Code] = {}
    for part in sql_parts(terms):
        columns = "SELECT t, system, code, display FROM term"
        for t, system, code, display in connection.execute(f"{columns} WHERE t IN ({part})"):
            codes[t] = (display or "",) if code is None else (system or "", code)
    return codes


def _decisive(codes: list[Code]) -> list[Code]:
    """Return the codings of an observation, or its text if it has none."""
    codings: list[Code] = [code for code in codes if len(code) == 2]
    return codings or codes or [_NO_CODE]


def _subjects(connection: Connection, numbers: Iterable[int]) -> dict[int, str]:
    elements = _element_numbers(connection, Kind.REFERENCE, "subject")
    subjects: dict[int, str] = {}
    for part in sql_parts(numbers):
        where = f"x.n IN ({part}) AND x.p IN ({elements})"
        sql = f"SELECT x.n, g.id FROM reference x JOIN target g ON g.t = x.t WHERE {where}"
        subjects.update(connection.execute(sql).fetchall())
    return subjects


def _element_numbers(connection: Connection, kind: Kind, name: str) -> str:
    """Return the numbers of the elements of a parameter, as SQL."""
    paths = parameters("Observation")[name].elements
    sql = "SELECT p, path FROM element WHERE type = 'Observation' AND kind = ?"
    rows = connection.execute(sql, (kind.value,)).fetchall()
    return sql_number_list(p for p, path in rows if path in paths)


class _Translations:
    """Codes that mean the same, directly or through others (union-find)."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}

    def equate(self, codes: list[tuple[str, Code]]) -> None:
        """Note that these codes mean the same."""
        first = self.representative(codes[0])
        for code in codes[1:]:
            self._parents[self.representative(code)] = first

    def representative(self, code: Hashable) -> Hashable:
        """Return the code that stands for all that mean the same."""
        path = []
        while (parent := self._parents.get(code, code)) != code:
            path.append(code)
            code = parent
        self._parents.update(dict.fromkeys(path, code))
        return code
