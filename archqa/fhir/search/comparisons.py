"""One value of a search as a condition on a row of an index table, which is called `x`.

Source: hl7.org/fhir/R4/search.html#prefix, #number, #date, #string, #token, #reference, #quantity, #uri.
"""

import re
from decimal import Decimal
from typing import Any, NamedTuple

from archqa.fhir.outcome import FhirError
from archqa.fhir.values import dates
from archqa.fhir.values.dates import TimeRange
from archqa.fhir.values.references import parse_reference
from archqa.fhir.values.search_parameters import Kind, Parameter
from archqa.fhir.values.tokens import normalise_text
from archqa.fhir.values.urls import split_unescaped, unescape

_PREFIXED = re.compile(r"(eq|ne|gt|ge|lt|le|sa|eb|ap)?(.*)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_FARTHEST = 14 * 60 * dates.MINUTE
"""No wall clock is farther from UTC."""

_AFTER_ALL = "\U0010ffff"


class SqlClause(NamedTuple):
    """A piece of SQL with its arguments. Nothing of a request ever stands in the SQL itself."""

    sql: str
    args: tuple[Any, ...] = ()


def any_of(clauses: list[SqlClause]) -> SqlClause:
    """At least one holds."""
    return _joined(clauses, " OR ")


def all_of(clauses: list[SqlClause]) -> SqlClause:
    """Each holds."""
    return _joined(clauses, " AND ")


def _joined(clauses: list[SqlClause], word: str) -> SqlClause:
    if len(clauses) == 1:
        return clauses[0]
    sql = word.join(f"({clause.sql})" for clause in clauses)
    return SqlClause(f"({sql})", tuple(arg for clause in clauses for arg in clause.args))


def check_value(parameter: Parameter, value: str) -> None:
    """Raises `FhirError` for a value that its parameter cannot be compared with."""
    if parameter.kind is Kind.DATE:
        stretch_of(parameter, value)
    elif parameter.kind is Kind.NUMBER:
        number_clause(parameter, value)
    elif parameter.kind is Kind.QUANTITY:
        quantity_clause(parameter, value)
    elif parameter.kind is Kind.TOKEN:
        token_clause(value)


def date_clause(parameter: Parameter, value: str, *, wall_clock: bool, longest: int) -> SqlClause:
    """A date with its prefix. `longest` is the longest stretch that is indexed: it bounds where to look."""
    prefix, wanted = stretch_of(parameter, value)
    on_wall = wall_clock and not wanted.has_timezone
    low, high = ("low", "high") if on_wall else ("low_utc", "high_utc")
    first, after = (wanted.low, wanted.high) if on_wall else (wanted.low_utc, wanted.high_utc)
    if prefix == "ap":
        slack = abs(dates.utc_now_microseconds() - first) // 10
        first, after = first - slack, after + slack
    condition = _DATES[prefix].format(low=f"x.{low}", high=f"x.{high}")
    named = {"first": first, "after": after}
    args = tuple(named[name] for name in re.findall(r":(\w+)", condition))
    spare = 0 if on_wall else _FARTHEST
    bounds, more = [], []
    if prefix not in {"lt", "le", "eb", "ne"}:
        bounds.append("x.low >= ?")
        more.append(max(first - longest - spare, -(2**62)))
    if prefix not in {"gt", "ge", "sa", "ne"}:
        bounds.append("x.low <= ?")
        more.append(min(after + spare, 2**62))
    sql = " AND ".join([*bounds, f"({re.sub(r':[a-z]+', '?', condition)})"])
    return SqlClause(sql, (*more, *args))


_DATES = {
    "eq": "{low} >= :first AND {high} <= :after",
    "ne": "NOT ({low} >= :first AND {high} <= :after)",
    "gt": "{high} > :after",
    "lt": "{low} < :first",
    "ge": "{high} > :after OR ({low} >= :first AND {high} <= :after)",
    "le": "{low} < :first OR ({low} >= :first AND {high} <= :after)",
    "sa": "{low} >= :after",
    "eb": "{high} <= :first",
    "ap": "{low} < :after AND {high} > :first",
}


_FORM = "YYYY, YYYY-MM, YYYY-MM-DD or YYYY-MM-DDThh:mm:ss with or without a zone, after one of eq ne gt ge lt le sa eb ap"


def stretch_of(parameter: Parameter, value: str) -> tuple[str, TimeRange]:
    """The prefix of a date and what the date covers. Raises `FhirError`."""
    prefix, rest = _parts(value)
    found = dates.parse_time_range(unescape(rest).strip())
    if found is None:
        raise FhirError(f"{parameter.name}: not a date. Write {_FORM}.")
    return prefix, found


def _parts(value: str) -> tuple[str, str]:
    found = _PREFIXED.fullmatch(value.strip())
    return (found[1] or "eq", found[2]) if found else ("eq", value)


def number_clause(parameter: Parameter, value: str) -> SqlClause:
    """A number with its prefix; `5.4` means 5.35 up to 5.45 (search.html#number)."""
    prefix, rest = _parts(value)
    if not _NUMBER.fullmatch(rest.strip()):
        raise FhirError(
            f"{parameter.name}: not a number. Write 5.4, or gt5.4 (prefixes: eq ne gt ge lt le sa eb ap)."
        )
    exact = Decimal(rest.strip())
    exponent = exact.as_tuple().exponent
    half = Decimal(5).scaleb((exponent if isinstance(exponent, int) else 0) - 1)
    near = abs(exact) / 10
    named = {"v": exact, "a": exact - half, "b": exact + half, "c": exact - near, "d": exact + near}
    condition = _NUMBERS[prefix]
    args = tuple(float(named[name]) for name in re.findall(r":(\w)", condition))
    return SqlClause(re.sub(r":\w", "?", condition), args)


_NUMBERS = {
    "eq": "x.low >= :a AND x.high < :b",
    "ne": "NOT (x.low >= :a AND x.high < :b)",
    "gt": "x.high > :v",
    "lt": "x.low < :v",
    "ge": "x.high >= :v",
    "le": "x.low <= :v",
    "sa": "x.low > :v",
    "eb": "x.high < :v",
    "ap": "x.high >= :c AND x.low <= :d",
}


def quantity_clause(parameter: Parameter, value: str) -> SqlClause:
    """`number`, `number|system|code` or `number||code-or-unit`."""
    amount, *unit = split_unescaped(value, "|")
    clause = number_clause(parameter, amount)
    if not unit:
        return clause
    if len(unit) != 2:
        raise FhirError(f"{parameter.name}: write number, number|system|code or number||code.")
    system, code = (unescape(each).strip() for each in unit)
    units = (
        [SqlClause("(code = ? OR (words = ? AND display = ?))", (code, normalise_text(code), code))]
        if code
        else []
    )
    if system:
        units = [
            SqlClause("system = ?", (system,)),
            *([SqlClause("code = ?", (code,))] if code else []),
        ]
    if not units:
        return clause
    where = all_of(units)
    return all_of([clause, SqlClause(f"x.t IN (SELECT t FROM term WHERE {where.sql})", where.args)])


def string_clause(value: str, modifier: str) -> SqlClause:
    """A string: by its start, or `:exact`, or `:contains`."""
    plain = unescape(value)
    if modifier == "exact":
        return SqlClause("x.folded = ? AND x.exact = ?", (normalise_text(plain), plain))
    if modifier == "contains":
        return SqlClause("instr(x.folded, ?) > 0", (normalise_text(plain),))
    return SqlClause(
        "x.folded >= ? AND x.folded < ?",
        (normalise_text(plain), normalise_text(plain) + _AFTER_ALL),
    )


def word_clause(value: str) -> SqlClause:
    """A word of a string: at its start, or after a blank."""
    return SqlClause(
        "(substr(x.folded, 1, ?) = ? OR instr(x.folded, ?) > 0)", (len(value), value, f" {value}")
    )


def reference_clause(value: str, allowed: tuple[str, ...]) -> SqlClause:
    """What a reference names: an id, `Type/id`, a URL or `urn:uuid:…`. `allowed` types only; empty: any."""
    found = parse_reference(unescape(value).strip())
    if found is None or (found.type and allowed and found.type not in allowed):
        return SqlClause("0")
    types = (found.type,) if found.type else allowed
    if not types:
        return SqlClause("x.t IN (SELECT t FROM target WHERE id = ?)", (found.id,))
    marks = ", ".join("?" * (len(types) + 1))
    return SqlClause(
        f"x.t IN (SELECT t FROM target WHERE id = ? AND type IN ({marks}))", (found.id, *types, "")
    )


def token_clause(value: str, *, folded: bool = False) -> SqlClause:
    """A token as a condition on `term`: `code`, `system|code`, `|code` (no system) or `system|` (any code)."""
    parts = [unescape(each) for each in split_unescaped(value, "|")]
    if len(parts) > 2:
        raise FhirError(
            "A token is written code, system|code, |code or system|; write a | that is meant as \\|."
        )
    code = parts[-1].strip() if folded else parts[-1]
    same = SqlClause("code = ?", (code,))
    if folded:
        same = SqlClause("(folded = ? OR code = ?)", (normalise_text(code), normalise_text(code)))
    if len(parts) == 1:
        return same
    return all_of([same, SqlClause("(system = ? OR system IS NULL)", (parts[0],))])


def system_clause(value: str) -> SqlClause | None:
    """`system|`: any code of the system. Looked up row by row: such a system may have a hundred thousand codes."""
    parts = [unescape(each) for each in split_unescaped(value, "|")]
    if len(parts) != 2 or parts[1] or not parts[0]:
        return None
    return SqlClause("(SELECT system FROM term WHERE t = x.t) = ?", (parts[0],))
