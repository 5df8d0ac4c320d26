"""The limits of a query for the reference executor. The query is plain JSON; times are text.

The arithmetic of dates is SQLite's, as in the gold answers of FHIR-AgentBench.
"""

import sqlite3
from typing import Any

from tests.query.reference_rows import ReferenceRow

Json = dict[str, Any]

POSITIONS = {
    "first": 0,
    "second": 1,
    "third": 2,
    "third_to_last": -3,
    "second_to_last": -2,
    "last": -1,
}
_SHARED_CHARACTERS = {"same_time": 19, "same_day": 10, "same_month": 7}


def has_name(name: str, query_names: list[str]) -> bool:
    """Whether the full name is in the query, ignoring case and outer white space."""
    folded_names = [query_name.strip().lower() for query_name in query_names]
    return name.strip().lower() in folded_names


def passes_limits(row: ReferenceRow, query: Json) -> bool:
    """Whether a row passes the limits on its attributes and its value."""
    for field, limit in (
        ("specimen", "specimens"),
        ("route", "routes"),
        ("source", "admission_sources"),
    ):
        if query[limit] and not has_name(row.get(field, ""), query[limit]):
            return False
    if query["organisms"] and not _has_organism(row, query["organisms"]):
        return False
    if query["grew"] is not None and bool(row["organism"]) != query["grew"]:
        return False
    if not query["value"]:
        return True
    return row["value"] is not None and _passes_value_test(row["value"], query["value"])


def _has_organism(row: ReferenceRow, organisms: list[str]) -> bool:
    return any(has_name(name, organisms) for name in row.get("organism", []))


def _passes_value_test(value: float, test: Json) -> bool:
    number = test["number"]
    if test["comparison"] == "greater":
        return value > number
    if test["comparison"] == "less":
        return value < number
    if test["comparison"] == "at_least":
        return value >= number
    if test["comparison"] == "at_most":
        return value <= number
    return value == number


def with_extreme_value(
    extreme: str | None, rows: list[ReferenceRow]
) -> list[ReferenceRow]:
    """The rows with the smallest or largest value; all rows if neither is requested."""
    if extreme is None:
        return rows
    values = [row["value"] for row in rows if row["value"] is not None]
    if not values:
        return []
    extreme_value = max(values)
    if extreme == "minimum":
        extreme_value = min(values)
    return [row for row in rows if row["value"] == extreme_value]


def at_position(position: str | None, rows: list[ReferenceRow]) -> list[ReferenceRow]:
    """The rows of the n-th distinct time; all rows without a position."""
    if position is None:
        return rows
    times = sorted({row["time"] for row in rows if row["time"]})
    index = POSITIONS[position]
    if not -len(times) <= index < len(times):
        return []
    return [row for row in rows if row["time"] == times[index]]


def is_near(row: ReferenceRow, companion_row: ReferenceRow, companion: Json) -> bool:
    """Whether a row is near a row of the companion."""
    if row["ids"] == companion_row["ids"]:
        return False
    if companion["within"] == "same_visit" and not _share_visit(row, companion_row):
        return False
    length = _SHARED_CHARACTERS.get(companion["within"], 0)
    if length == 0 and companion["order"] == "any":
        return True
    time = row.get("start", row["time"])
    companion_time = companion_row["time"]
    if time is None or companion_time is None:
        return False
    if time[:length] != companion_time[:length]:
        return False
    if companion["order"] == "after":
        return bool(time > companion_time)
    if companion["order"] == "before":
        return bool(time < companion_time)
    return True


def _share_visit(row: ReferenceRow, companion_row: ReferenceRow) -> bool:
    visit = row["hospital_visit"]
    return bool(visit) and visit == companion_row["hospital_visit"]


def is_in_spans(time: str | None, spans: list[Json], now: str) -> bool:
    """Whether a time lies in all spans; no time lies in none."""
    return all(time is not None and _is_in_span(time, span, now) for span in spans)


def _is_in_span(time: str, span: Json, now: str) -> bool:
    today = now[:10]
    is_not_after_today = time[:10] <= today
    text = time.replace("T", " ")
    if span["ago"]:
        length = f"-{span['ago']['count']} {span['ago']['unit']}"
        moment = sqlite("SELECT datetime(?, ?)", f"{today} 00:00:00", length)
        return text >= moment and is_not_after_today
    span_text = _span_text(span, today)
    text = text[: len(span_text)]
    if span["relation"] == "in":
        return text == span_text
    if span["relation"] == "since":
        return text >= span_text and is_not_after_today
    if span["relation"] == "after":
        return text > span_text and is_not_after_today
    if span["relation"] == "until":
        return text <= span_text
    return text < span_text


def _span_text(span: Json, today: str) -> str:
    """`2131`, `2131-03`, `2131-03-05` or a time on that day."""
    if span["days_back"] is not None:
        text = sqlite("SELECT date(?, ?)", today, f"-{span['days_back']} day")
    elif span["months_back"] is not None:
        months = f"-{span['months_back']} month"
        text = sqlite("SELECT date(?, 'start of month', ?)", today, months)[:7]
    elif span["year"]:
        text = str(span["year"])
    else:
        text = str(int(today[:4]) - span["years_back"])
    if span["month"]:
        text += f"-{span['month']:02}"
    if span["day"]:
        text += f"-{span['day']:02}"
    if span["clock"]:
        text += f" {span['clock']}"
    return text


def sqlite(select: str, *parameters: str) -> str:
    """The single value of a SELECT statement."""
    with sqlite3.connect(":memory:") as connection:
        return str(connection.execute(select, parameters).fetchone()[0])
