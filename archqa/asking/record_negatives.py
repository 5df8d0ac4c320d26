"""A no that rests on results: none is marked high, none reaches a number, none is positive."""

from collections.abc import Iterator, Sequence

from archqa.asking.answer import Status
from archqa.asking.record_lines import row_statements
from archqa.asking.record_measured import value_text
from archqa.asking.record_names import asserts, row_label
from archqa.asking.record_numbers import counted
from archqa.asking.record_statements import Part, Statement, by_label, latest_first
from archqa.asking.record_subjects import subject
from archqa.asking.record_summaries import span_text
from archqa.asking.record_support import Support
from archqa.query.execution.rows import Row
from archqa.query.model import Query

_SHOWN = 5


def negative_part(query: Query, plain: Query, rows: Sequence[Row], support: Support) -> Part:
    """Return what results say that do not pass a flag, a value test or words of a query.

    `plain` is the query without that limit, `rows` are what it finds.
    """
    if query.flag != plain.flag:
        return _not_flagged(query, plain, rows)
    if query.value != plain.value:
        return _beyond_value(query, plain, rows, support)
    return _other_results(plain, rows, support)


def _not_flagged(query: Query, plain: Query, rows: Sequence[Row]) -> Part:
    """Results of which none is marked so; those without mark and range could not be judged."""
    marked = [row for row in rows if row.facts.get("flag")]
    if not marked:
        return _never_flagged(query, plain, rows)
    statements = []
    for label, group in by_label(rows, lambda row: row_label(query, row)):
        judged = [row for row in group if row.facts.get("flag")]
        others = [row for row in group if not row.facts.get("flag")]
        none = "not" if len(judged) == 1 else "none"
        text = f"{label}, {_results(judged)}, {none} marked {query.flag}: {_range(judged)}"
        if not judged:
            text = (
                f"{label}, {_results(others)} without a mark or reference range: {_range(others)}"
            )
        elif others:
            text += f"; {_results(others)} without a mark or reference range: {_range(others)}"
        statements.append(Statement(text, tuple(latest_first(group))))
    verdict = "No: " if query.summary == "exists" else ""
    return Part(tuple(statements), verdict=verdict)


def _never_flagged(query: Query, plain: Query, rows: Sequence[Row]) -> Part:
    """Results without marks and ranges: whether one is high or low is not known."""
    missing = f"{subject(plain)} is marked {query.flag}"
    verb = "was" if len(rows) == 1 else "were"
    text = f"No {missing}: {_results(rows)} {verb} searched, none with a mark or reference range."
    labels = {row_label(query, row) for row in rows}
    if len(labels) == 1:
        text = f"{text[:-1]} ({_range(rows)})."
    return Part(status=Status.NOT_FOUND, message=text, rows=tuple(rows))


def _results(rows: Sequence[Row]) -> str:
    return counted(len(rows), "result", "results")


def _range(rows: Sequence[Row]) -> str:
    """The lowest and highest of the values, and the time that they cover."""
    numbers = sorted((row for row in rows if row.value is not None), key=lambda row: row.value or 0)
    span = span_text(rows)
    if not numbers:
        return span
    low, high = value_text(numbers[0]), value_text(numbers[-1])
    values = low if low == high else f"{low} to {high}"
    return f"{values}, {span}" if span else values


def _beyond_value(query: Query, plain: Query, rows: Sequence[Row], support: Support) -> Part:
    """The values that come nearest to the number that none reaches."""
    test = query.value
    numbers = [row for row in rows if row.value is not None]
    if test is None or not numbers:
        return Part(status=Status.NOT_FOUND, message=f"No number is recorded for {subject(plain)}.")
    is_lower = test.comparison in {"less", "at_most"}
    nearest = (min if is_lower else max)(row.value or 0 for row in numbers)
    if test.comparison == "equal":
        nearest = min(
            (row.value or 0 for row in numbers), key=lambda value: abs(value - test.number)
        )
    decisive = [row for row in numbers if row.value == nearest]
    told = row_statements(plain, decisive[-1:], support)[0].text
    what = counted(len(numbers), "result", "results")
    text = f"None of {what} is {test}; the nearest is {told}"
    verdict = "No: " if query.summary == "exists" else ""
    if verdict:
        text = f"none{text[4:]}"
    return Part((Statement(text, tuple(decisive)),), verdict=verdict)


def _other_results(plain: Query, rows: Sequence[Row], support: Support) -> Part:
    """Results in other words than those asked for: a negative one is a no."""
    statements = row_statements(plain, rows, support)
    told = [*row_flags(rows)]
    verdict = "No: " if told and all(each == "negative" for each in told) else ""
    return Part(tuple(reversed(statements)), verdict=verdict, limit=_SHOWN)


def row_flags(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what each result in words asserts: negative, past, positive, or nothing."""
    for row in rows:
        flags = row.facts.get("flag", ())
        if row.facts.get("organism") and not row.text:
            yield "" if asserts(" ".join(row.facts["organism"])) == "negative" else "positive"
        elif "negative" in flags or "positive" in flags:
            yield "negative" if "negative" in flags else "positive"
        else:
            yield asserts(row.text)
