"""Search values as SQL conditions on a row of an index table, which is called `x`.

Source: hl7.org/fhir/R4/search.html#prefix, #number, #date, #string, #token, #reference, #quantity,
#uri.
"""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from archqa.fhir.index.sql import sql_marks
from archqa.fhir.record import FhirError
from archqa.fhir.values import dates
from archqa.fhir.values.dates import TimeRange
from archqa.fhir.values.references import parse_reference
from archqa.fhir.values.search_parameters import Kind, Parameter
from archqa.fhir.values.text import normalise_text
from archqa.fhir.values.urls import split_unescaped, unescape

_PREFIXED = re.compile(r"(eq|ne|gt|ge|lt|le|sa|eb|ap)?(.*)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_MAX_UTC_OFFSET = 14 * 60 * dates.MINUTE
"""No wall clock differs more from UTC."""

_LAST_CHARACTER = "\U0010ffff"
_AFTER_SLASH = chr(ord("/") + 1)
_MAX_URL_PARTS = 50
_PREFIXES = "eq ne gt ge lt le sa eb ap"


class SqlClause(NamedTuple):
    """A piece of SQL with its arguments. No text of a request ever stands in the SQL itself."""

    sql: str
    args: tuple[Any, ...] = ()


def any_of(clauses: list[SqlClause]) -> SqlClause:
    """Combine clauses of which at least one must hold."""
    return _combine(clauses, " OR ")


def all_of(clauses: list[SqlClause]) -> SqlClause:
    """Combine clauses that must all hold."""
    return _combine(clauses, " AND ")


def _combine(clauses: list[SqlClause], operator: str) -> SqlClause:
    """Combine clauses by an operator of SQL, in brackets."""
    if len(clauses) == 1:
        return clauses[0]
    sql = operator.join(f"({clause.sql})" for clause in clauses)
    return SqlClause(f"({sql})", joined_args(clauses))


def joined_args(clauses: list[SqlClause]) -> tuple[Any, ...]:
    """Return the arguments of all clauses, in order."""
    args: list[Any] = []
    for clause in clauses:
        args.extend(clause.args)
    return tuple(args)


def _named_args(template: str, values: Mapping[str, Any]) -> SqlClause:
    """Replace the `:name`s of a template by `?` with the values of these names."""
    args = tuple(values[name] for name in re.findall(r":([a-z_]+)", template))
    return SqlClause(re.sub(r":[a-z_]+", "?", template), args)


def check_value(parameter: Parameter, value: str) -> None:
    """Raise `FhirError` for a value that its parameter cannot be compared with."""
    if parameter.kind is Kind.DATE:
        _parse_prefixed_date(parameter, value)
    elif parameter.kind in {Kind.NUMBER, Kind.QUANTITY}:
        amount_clause(parameter, value)
    elif parameter.kind is Kind.TOKEN:
        token_clause(value)
    elif parameter.kind is Kind.COMPOSITE:
        for half, half_value in zip(
            parameter.halves, split_halves(parameter, value), strict=True
        ):
            check_value(half, half_value)


def split_halves(parameter: Parameter, value: str) -> list[str]:
    """Return the values of a composite's halves, still with escapes. Raises `FhirError`."""
    values = split_unescaped(value, "$")
    if len(values) != len(parameter.halves) or not all(part.strip() for part in values):
        form = "$".join(_FORMS[half.kind] for half in parameter.halves)
        raise FhirError(
            f"{parameter.name} is written {form}; write a $ that is meant as \\$."
        )
    return values


_FORMS = {
    Kind.TOKEN: "code",
    Kind.QUANTITY: "number",
    Kind.DATE: "date",
    Kind.STRING: "text",
    Kind.REFERENCE: "Type/id",
}
"""What a half of a composite is called in an error message."""


_DATE_CONDITIONS = {
    "eq": "{low} >= :start AND {high} <= :end",
    "ne": "NOT ({low} >= :start AND {high} <= :end)",
    "gt": "{high} > :end",
    "lt": "{low} < :start",
    "ge": "{high} > :end OR ({low} >= :start AND {high} <= :end)",
    "le": "{low} < :start OR ({low} >= :start AND {high} <= :end)",
    "sa": "{low} >= :end",
    "eb": "{high} <= :start",
    "ap": "{low} < :end AND {high} > :start",
}


def date_clause(
    parameter: Parameter,
    value: str,
    *,
    wall_clock: bool,
    max_duration: int,
) -> SqlClause:
    """Compare dates with a prefixed date.

    `max_duration` is the longest range in the index; it limits the rows to look at.
    """
    prefix, time_range = _parse_prefixed_date(parameter, value)
    if wall_clock and not time_range.has_timezone:
        start, end = time_range.low, time_range.high
        columns = {"low": "x.low", "high": "x.high"}
        max_offset = 0
    else:
        start, end = time_range.low_utc, time_range.high_utc
        columns = {"low": "x.low_utc", "high": "x.high_utc"}
        max_offset = _MAX_UTC_OFFSET
    if prefix == "ap":
        slack = abs(dates.utc_now_microseconds() - start) // 10
        start -= slack
        end += slack
    # Limits of the indexed column `low`, which hold for every match.
    clauses = []
    if prefix not in {"lt", "le", "eb", "ne"}:
        lowest = max(start - max_duration - max_offset, dates.EARLIEST)
        clauses.append(SqlClause("x.low >= ?", (lowest,)))
    if prefix not in {"gt", "ge", "sa", "ne"}:
        highest = min(end + max_offset, dates.LATEST)
        clauses.append(SqlClause("x.low <= ?", (highest,)))
    template = _DATE_CONDITIONS[prefix].format(**columns)
    clauses.append(_named_args(template, {"start": start, "end": end}))
    return all_of(clauses)


def _parse_prefixed_date(parameter: Parameter, value: str) -> tuple[str, TimeRange]:
    """Return the prefix of a date and what the date covers. Raises `FhirError`."""
    prefix, text = _split_prefix(value)
    time_range = dates.parse_time_range(unescape(text).strip())
    if time_range is None:
        forms = (
            "YYYY, YYYY-MM, YYYY-MM-DD or YYYY-MM-DDThh:mm:ss with or without a zone"
        )
        help_text = f"Write {forms}, after one of {_PREFIXES}."
        raise FhirError(f"{parameter.name}: not a date. {help_text}")
    return prefix, time_range


def _split_prefix(value: str) -> tuple[str, str]:
    match = _PREFIXED.fullmatch(value.strip())
    assert match is not None  # The second group matches any text.
    return match[1] or "eq", match[2]


_NUMBER_CONDITIONS = {
    "eq": "x.low >= :rounded_low AND x.high < :rounded_high",
    "ne": "NOT (x.low >= :rounded_low AND x.high < :rounded_high)",
    "gt": "x.high > :exact",
    "lt": "x.low < :exact",
    "ge": "x.high >= :exact",
    "le": "x.low <= :exact",
    "sa": "x.low > :exact",
    "eb": "x.high < :exact",
    "ap": "x.high >= :near_low AND x.low <= :near_high",
}


def amount_clause(parameter: Parameter, value: str) -> SqlClause:
    """Compare with a number, or of a quantity with `number|system|code` or `number||code-or-unit`.

    `5.4` means 5.35 up to 5.45 (search.html#number).
    """
    if parameter.kind is Kind.NUMBER:
        return _number_clause(parameter, value)
    number, *unit = split_unescaped(value, "|")
    amount = _number_clause(parameter, number)
    if not unit:
        return amount
    if len(unit) != 2:
        raise FhirError(
            f"{parameter.name}: write number, number|system|code or number||code."
        )
    system, code = (unescape(part).strip() for part in unit)
    if not system and not code:
        return amount
    if not system:  # The code may also be the unit's text.
        where = [
            SqlClause(
                "(code = ? OR (words = ? AND display = ?))",
                (code, normalise_text(code), code),
            )
        ]
    else:
        where = [SqlClause("system = ?", (system,))]
        if code:
            where.append(SqlClause("code = ?", (code,)))
    return all_of([amount, term_clause(all_of(where))])


def _number_clause(parameter: Parameter, value: str) -> SqlClause:
    prefix, text = _split_prefix(value)
    if not _NUMBER.fullmatch(text.strip()):
        help_text = f"Write 5.4, or gt5.4 (prefixes: {_PREFIXES})."
        raise FhirError(f"{parameter.name}: not a number. {help_text}")
    exact = Decimal(text.strip())
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int)  # The pattern excludes NaN and Infinity.
    if math.isinf(float(exact)):
        raise FhirError(f"{parameter.name}: the number is too large.")
    rounding = Decimal(5).scaleb(exponent - 1)
    tenth = abs(exact) / 10
    limits = {
        "exact": float(exact),
        "rounded_low": float(exact - rounding),
        "rounded_high": float(exact + rounding),
        "near_low": float(exact - tenth),
        "near_high": float(exact + tenth),
    }
    return _named_args(_NUMBER_CONDITIONS[prefix], limits)


def term_clause(where: SqlClause) -> SqlClause:
    """Return the condition that the term of a row passes a condition."""
    return SqlClause(f"x.t IN (SELECT t FROM term WHERE {where.sql})", where.args)


def string_clause(value: str, modifier: str) -> SqlClause:
    """Compare with the start of a string; or all of it (`exact`), or a part (`contains`)."""
    plain = unescape(value)
    folded = normalise_text(plain)
    if modifier == "exact":
        return SqlClause("x.folded = ? AND x.exact = ?", (folded, plain))
    if modifier == "contains":
        return SqlClause("instr(x.folded, ?) > 0", (folded,))
    return SqlClause(
        "x.folded >= ? AND x.folded < ?", (folded, folded + _LAST_CHARACTER)
    )


def word_clause(prefix: str) -> SqlClause:
    """Compare with the start of any word of a string."""
    return SqlClause(
        "(substr(x.folded, 1, ?) = ? OR instr(x.folded, ?) > 0)",
        (len(prefix), prefix, f" {prefix}"),
    )


def uri_clause(value: str, modifier: str) -> SqlClause:
    """Compare with a URI; `below` also finds what its path leads to, `above` what leads to it."""
    uri = unescape(value).strip()
    if modifier == "below":
        start = uri.rstrip("/")
        where = SqlClause(
            "code IN (?, ?) OR (code > ? AND code < ?)",
            (uri, start, f"{start}/", f"{start}{_AFTER_SLASH}"),
        )
    elif modifier == "above":
        uris = uris_above(uri)
        where = SqlClause(f"code IN ({sql_marks(uris)})", tuple(uris))
    else:
        where = SqlClause("code = ?", (uri,))
    return term_clause(all_of([SqlClause("system IS NULL"), where]))


def uris_above(uri: str) -> list[str]:
    """Return a URL and those that its path begins with, with and without the last slash.

    Raises `FhirError` for a URI that is no URL, or has too many parts.
    """
    scheme, separator, path = uri.partition("://")
    parts = path.rstrip("/").split("/")
    if not separator:
        raise FhirError(
            ":above and :below are for URLs such as http://…, not for other URIs."
        )
    if len(parts) > _MAX_URL_PARTS:
        raise FhirError(
            f"A URL may have {_MAX_URL_PARTS} parts here.", 400, "too-costly"
        )
    uris = [uri]
    for length in range(1, len(parts) + 1):
        start = f"{scheme}://{'/'.join(parts[:length])}"
        uris += [start, f"{start}/"]
    return uris


def reference_clause(value: str, allowed_types: tuple[str, ...]) -> SqlClause:
    """Compare with a reference: an id, `Type/id`, a URL or `urn:uuid:…`. No types means any."""
    target = parse_reference(unescape(value).strip())
    if target is None:
        return SqlClause("0")
    if target.type and allowed_types and target.type not in allowed_types:
        return SqlClause("0")
    types = (target.type,) if target.type else allowed_types
    if not types:
        return SqlClause("x.t IN (SELECT t FROM target WHERE id = ?)", (target.id,))
    return SqlClause(
        f"x.t IN (SELECT t FROM target WHERE id = ? AND type IN ({sql_marks(types)}, ''))",
        (target.id, *types),
    )


def token_clause(value: str, *, ignore_case: bool = False) -> SqlClause:
    """Return a condition on `term` for `code`, `system|code`, `|code` (no system) or `system|`."""
    parts = [unescape(part) for part in split_unescaped(value, "|")]
    if len(parts) > 2:
        forms = "code, system|code, |code or system|"
        raise FhirError(f"A token is written {forms}; write a | that is meant as \\|.")
    code = parts[-1]
    same_code = SqlClause("code = ?", (code,))
    if ignore_case:
        folded = normalise_text(code)
        same_code = SqlClause("(folded = ? OR code = ?)", (folded, folded))
    if len(parts) == 1:
        return same_code
    system = parts[0]
    same_system = SqlClause("(system = ? OR system IS NULL)", (system,))
    return all_of([same_code, same_system])


def system_clause(value: str) -> SqlClause | None:
    """Return a condition for `system|` (any code of the system), None for other tokens.

    Compared row by row: such a system may have a hundred thousand codes.
    """
    parts = [unescape(part) for part in split_unescaped(value, "|")]
    if len(parts) != 2:
        return None
    system, code = parts
    if code or not system:
        return None
    return SqlClause("(SELECT system FROM term WHERE t = x.t) = ?", (system,))
