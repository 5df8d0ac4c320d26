"""The answer to one query of a record as a part of an answer for people."""

from collections.abc import Sequence
from datetime import datetime

from archqa.asking.answer import Status
from archqa.asking.record_absence import absent_part
from archqa.asking.record_details import lacks_what_is_asked
from archqa.asking.record_displays import sentence_case
from archqa.asking.record_lengths import elapsed_statements, stay_statements
from archqa.asking.record_lines import row_statements
from archqa.asking.record_measured import is_series
from archqa.asking.record_names import MEASURED, denies, field_words, row_words
from archqa.asking.record_negatives import row_flags
from archqa.asking.record_numbers import computed_text
from archqa.asking.record_patient import missing_field, patient_statements
from archqa.asking.record_statements import MAX_LINES, Execute, Part, Statement, latest_first
from archqa.asking.record_subjects import asked_names, subject
from archqa.asking.record_summaries import summary_statements
from archqa.asking.record_support import Support
from archqa.asking.record_visits import with_visit_details
from archqa.fhir import Resource
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import row_state, tentative_status
from archqa.query.kinds import KINDS
from archqa.query.model import Query

_EXTREME_WORDS = {"minimum": "Lowest", "maximum": "Highest"}
_SHOWN_OF_EXISTENCE = 8
"""Rows that are shown for a yes or no."""


class PartWriter:
    """Writes the parts of an answer about one patient."""

    def __init__(self, patient: Resource, support: Support, execute: Execute | None) -> None:
        self._patient = patient
        self._support = support
        self._execute = execute

    def part(self, query: Query, result: QueryResult) -> Part:
        """Return the answer to a query. Raises as the record does."""
        part = self._part(query, result)
        remarks = list(part.remarks)
        for caveat in result.caveats:
            # Each line of a list has its own unit.
            if query.summary != "each" or caveat.kind != "mixed_units":
                remarks.append(caveat.text)
        return part._replace(
            topic=_topic(query),
            rows=(*part.rows, *result.chosen),
            remarks=tuple(remarks),
            is_series=part.is_series and is_series(query, result.chosen),
        )

    def facts(self, query: Query, result: QueryResult) -> Part:
        """Return the rows of a query without a yes or no, as what a declined question is about."""
        if query.what == "patient" and query.returns == "alive":
            query = query.model_copy(update={"returns": "death_time"})
        part = self.part(query, result)
        if query.summary != "exists":
            return part._replace(verdict="")
        plain = as_list(query)
        if result.chosen:
            part = self.part(plain, result.model_copy(update={"query": plain}))
        return part._replace(verdict="")

    def _part(self, query: Query, result: QueryResult) -> Part:
        if query.what == "patient":
            return self._patient_part(query, result)
        if query.against is not None:
            return self._comparison(query, result)
        rows = result.chosen
        if not rows:
            return absent_part(query, result, self._support, self._execute)
        if query.summary == "exists":
            return self._existence(query, rows)
        if query.summary != "each":
            return self._summary(query, result)
        return self._rows(query, rows)

    def _patient_part(self, query: Query, result: QueryResult) -> Part:
        statements = patient_statements(query, result, self._patient)
        if statements:
            return Part(tuple(statements))
        message = f"No {missing_field(query)} is recorded."
        if query.returns == "death_time":
            message = "No death is recorded."
        return Part(status=Status.NOT_FOUND, message=message)

    def _summary(self, query: Query, result: QueryResult) -> Part:
        summary = summary_statements(query, result, self._support)
        if summary.statements:
            return Part(summary.statements, remarks=summary.remarks, is_series=True)
        part = self._rows(query, result.chosen)
        text = f"No number is recorded for {subject(query)}."
        return part._replace(status=Status.NOT_FOUND, message=text, remarks=summary.remarks)

    def _rows(self, query: Query, rows: Sequence[Row]) -> Part:
        """Every row; where none says what is asked, the rows are shown as not answering."""
        rows = with_visit_details(query, rows, self._execute)
        if query.returns == "elapsed":
            statements = elapsed_statements(query, rows, self._support)
        elif query.returns == "length_of_stay":
            statements = stay_statements(query, rows, self._support)
        else:
            statements = row_statements(query, _telling_last(query, rows), self._support)
        verdict = f"{_EXTREME_WORDS[query.extreme]}: " if query.extreme else ""
        if len(statements) > MAX_LINES and query.what in MEASURED and not is_series(query, rows):
            statements.reverse()
        part = Part(tuple(statements), verdict=verdict, is_series=True)
        if not all(lacks_what_is_asked(query, row) for row in rows):
            return part
        names = sentence_case(asked_names(query) or row_words(query.what).plural)
        message = f"{names}: {field_words()[query.returns].absent} is not recorded."
        return part._replace(status=Status.NOT_FOUND, message=message)

    def _existence(self, query: Query, rows: Sequence[Row]) -> Part:
        if query.what in MEASURED:
            return self._measured_existence(query, rows)
        denials = [row for row in rows if denies(row.name)]
        if len(denials) == len(rows):
            statements = row_statements(query, rows, self._support)
            return Part(tuple(statements), verdict="No: ", limit=_SHOWN_OF_EXISTENCE)
        asserted = [row for row in rows if not denies(row.name)]
        asserted = list(with_visit_details(query, asserted, self._execute))
        statements = row_statements(query, asserted, self._support)
        verdict = "Yes: "
        if query.state == "current" and self._is_state_unknown(query, asserted):
            verdict = "Recorded, but not whether it is still so: "
        elif all(tentative_status(query.what, row) for row in asserted):
            verdict = "Recorded, but not confirmed: "
        return Part(tuple(statements), verdict=verdict, limit=_SHOWN_OF_EXISTENCE)

    def _is_state_unknown(self, query: Query, rows: Sequence[Row]) -> bool:
        now = datetime.fromisoformat(query.now) if query.now else None
        return all(row_state(query.what, row, now) == "unknown" for row in rows)

    def _measured_existence(self, query: Query, rows: Sequence[Row]) -> Part:
        """A yes or no from results: by the limit they pass, else by what their words assert."""
        decisive_last = list(reversed(_extreme_first(query, _decisive_first(rows))))
        statements = reversed(row_statements(query, decisive_last, self._support))
        verdict = _measured_verdict(query, rows)
        return Part(tuple(statements), verdict=verdict, limit=_SHOWN_OF_EXISTENCE)

    def _comparison(self, query: Query, result: QueryResult) -> Part:
        """The two sides of a comparison, and the difference or a yes or no."""
        value = result.answer.values[0] if result.answer.values else None
        plain = as_list(query.model_copy(update={"against": None}))
        statements: list[Statement] = []
        for side in ("own", "other"):
            rows = [row for row in result.chosen if row.side == side]
            statements += row_statements(plain, rows, self._support)
        if value is None:
            message = f"There are no two values of {subject(query)} to compare."
            return Part(tuple(statements), Status.NOT_FOUND, message=message)
        verdict = "Yes: " if value else "No: "
        if not isinstance(value, bool) and isinstance(value, int | float):
            verdict = f"Difference {computed_text(value)} {result.answer.unit}".rstrip() + ": "
        return Part(tuple(statements), verdict=verdict)


def _topic(query: Query) -> str:
    if query.what == "patient":
        return query.returns
    if query.what in MEASURED:
        return f"{asked_names(query)} result"
    return asked_names(query) or query.what


def as_list(query: Query) -> Query:
    """Return the query for every row; of a kind without values, for their names or times."""
    fields = KINDS[query.what].returns
    wanted = (query.returns, "name", "time", "sex")
    returns = next(field for field in wanted if field in fields)
    return query.model_copy(update={"summary": "each", "per": None, "returns": returns})


def _telling_last(query: Query, rows: Sequence[Row]) -> list[Row]:
    """Rows that do not say what is asked before those that do: the latest comes first."""
    return sorted(rows, key=lambda row: not lacks_what_is_asked(query, row))


def _decisive_first(rows: Sequence[Row]) -> list[Row]:
    """Positive results before others, each newest first."""
    newest = latest_first(rows)
    flags = list(row_flags(newest))
    positive = [row for row, flag in zip(newest, flags, strict=True) if flag == "positive"]
    others = [row for row, flag in zip(newest, flags, strict=True) if flag != "positive"]
    return [*positive, *others]


def _extreme_first(query: Query, rows: Sequence[Row]) -> list[Row]:
    """Of what is high or low, the highest or lowest before the others."""
    numbers = [row for row in rows if row.value is not None]
    if query.flag not in {"high", "low"} or not numbers or not is_series(query, rows):
        return list(rows)
    choose = max if query.flag == "high" else min
    extreme = choose(numbers, key=lambda row: row.value or 0)
    return [extreme, *(row for row in rows if row is not extreme)]


def _measured_verdict(query: Query, rows: Sequence[Row]) -> str:
    """What the results say of an existence; empty where their words assert neither."""
    if query.results or query.value or query.flag or query.extreme or query.grew:
        return "Yes: "
    if not asked_names(query):
        return "Yes, recorded: "
    if all(row.value is not None for row in rows):
        return "Yes, measured: "
    flags = list(row_flags(latest_first(rows)))
    if "positive" in flags:
        return "Yes: " if flags[0] == "positive" else "Yes, in the past: "
    if all(flag == "negative" for flag in flags):
        return "No: "
    if all(flag in {"negative", "past"} for flag in flags):
        return "No, not currently: " if query.state == "current" else "In the past: "
    return ""
