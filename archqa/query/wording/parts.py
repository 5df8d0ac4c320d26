"""The answer to one query of a record as a part of an answer for people, and ages in words.

Ages are as exact as the recorded dates allow: `22 days (3 weeks)`, `70 or 71 years`.
"""

import calendar
from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple

from archqa.fhir import Resource
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import row_state, tentative_status
from archqa.query.kinds import KINDS, LISTS
from archqa.query.model import Query
from archqa.query.wording.absence import absent_part, row_flags, unsearched_text
from archqa.query.wording.allergies import with_denials
from archqa.query.wording.details import (
    MAX_LINES,
    Execute,
    Part,
    Says,
    Statement,
    lacks_what_is_asked,
    latest_first,
    with_visit_details,
)
from archqa.query.wording.rows import is_series, row_statements, row_text
from archqa.query.wording.summaries import (
    EXTREMES,
    LONGEST,
    elapsed_statements,
    failed_remarks,
    stay_statements,
    summary_statements,
    undecided_remarks,
)
from archqa.query.wording.support import Support
from archqa.query.wording.words import (
    MEASURED,
    asked_names,
    clean_name,
    computed_text,
    counted,
    denies,
    field_words,
    full_years,
    length_between,
    listed,
    row_words,
    sentence_case,
    short_words,
    subject,
)

_FULL_DATE = len("1971-08-28")
_SINCE = frozenset({"time", "elapsed", "age"})
_TIME_FACTS = frozenset({"age_at_time", "time_text"})
_SHOWN_OF_EXISTENCE = 8
"""Rows that are shown for a yes or no."""


class Person(NamedTuple):
    """Who the patient is in a sentence: `She`, `Her`."""

    subject: str = "The patient"
    possessive: str = "The patient's"


_PERSONS = {"female": Person("She", "Her"), "male": Person("He", "His")}


class PartWriter:
    """Writes the parts of an answer about one patient."""

    def __init__(
        self,
        patient: Resource,
        support: Support,
        execute: Execute | None,
        max_lines: int = MAX_LINES,
    ) -> None:
        self._max_lines = max_lines
        self._person = _PERSONS.get(str(patient.get("gender", "")), Person())
        self._birth_date = str(patient.get("birthDate") or "")
        self._support = support
        self._execute = execute

    def part(self, query: Query, result: QueryResult) -> Part:
        """Return the answer to a query. Raises as the record does."""
        rows = result.chosen
        if query.what == "patient":
            part = self._patient_part(query, result)
        elif query.against is not None:
            part = self._comparison(query, result)
        elif not rows:
            part = absent_part(query, result, self._support, self._execute)
        elif query.summary == "exists":
            part = self._existence(query, rows)
        elif query.summary != "each":
            part = self._summary(query, result)
        else:
            part = self._rows(query, rows)
        if query.what == "allergy" and rows and self._execute is not None:
            part = with_denials(part, query, rows, self._support, self._execute)
        return self._with_remarks(part, query, result)

    def _with_remarks(self, part: Part, query: Query, result: QueryResult) -> Part:
        """The part with its topic, its rows and what limits the answer."""
        rows = result.chosen
        topic = asked_names(query) or query.what
        if query.what == "patient":
            topic = query.returns
        elif query.what in MEASURED:
            topic = f"{asked_names(query)} result"
        remarks = list(part.remarks)
        for caveat in result.caveats:
            # Each line of a list has its own unit.
            if query.summary != "each" or caveat.kind != "mixed_units":
                remarks.append(caveat.text)
        if query.what in MEASURED:
            remarks += undecided_remarks(query, result)
            remarks += failed_remarks(query, result)
        remarks += [gap.remark for gap in result.gaps]
        if result.gaps and not part.is_found:
            message = unsearched_text(subject(query), result.gaps)
            part = part._replace(
                message=message, subject="", searched=(), is_unsearched=True
            )
        return part._replace(
            topic=topic,
            rows=(*part.rows, *rows),
            remarks=tuple(remarks),
            is_series=part.is_series and is_series(query, rows),
        )

    def facts(self, query: Query, result: QueryResult) -> Part:
        """Return the rows of a query without a yes or no, as what a declined question is about."""
        if query.what == "patient" and query.returns == "alive":
            query = query.model_copy(update={"returns": "death_time"})
        if query.summary == "exists" and result.chosen:
            query = _as_list(query)
            result = result.model_copy(update={"query": query})
        return self.part(query, result)._replace(verdict="")

    def _patient_part(self, query: Query, result: QueryResult) -> Part:
        statements = []
        for row in result.chosen:
            if text := self._patient_sentence(query, result, row):
                statements.append(Statement(text, (row,)))
        if statements:
            return Part(tuple(statements))
        message = f"No {_field_name(query)} is recorded."
        if query.returns == "death_time":
            message = "No death is recorded."
        return Part(is_found=False, message=message)

    def _patient_sentence(self, query: Query, result: QueryResult, row: Row) -> str:
        """What a row says of the patient in a sentence; empty if it does not say."""
        person = self._person
        field = query.returns
        if field in {"alive", "death_time"}:
            return self._life_sentence(query, row)
        if field == "age":
            return self._age_sentence(query, result, row)
        values = list(dict.fromkeys(row.fact(field)))
        if field not in LISTS["fields_as_recorded"]:
            values = list(dict.fromkeys(map(clean_name, values)))
        if not values:
            return ""
        if field == "birth_date":
            return f"{person.subject} was born on {values[0]}."
        if field == "sex":
            return f"{person.subject} is {values[0].lower()}."
        text = listed(values)
        if field == "marital_status":
            text = listed([value.lower() for value in values])
        verb = "is" if len(values) == 1 else "are recorded as"
        return f"{person.possessive} {_field_name(query)} {verb} {text}."

    def _life_sentence(self, query: Query, row: Row) -> str:
        """Whether the patient is alive, or has died: the answer to the one is not that to the other."""
        asks_alive = query.returns == "alive"
        death = self._death(row)
        if death and asks_alive:
            return f"No, {self._person.subject.lower()} {death}."
        if death and query.summary == "exists":
            return f"Yes, {self._person.subject.lower()} {death}."
        if death:
            return f"{self._person.subject} {death}."
        if asks_alive:
            return "Yes, as far as the record tells: no death is recorded."
        return "No, no death is recorded." if query.summary == "exists" else ""

    def _age_sentence(self, query: Query, result: QueryResult, row: Row) -> str:
        recorded = next(iter(row.fact("birth_date")), "")
        born = f" (born {recorded})" if recorded else ""
        if query.when.visit is not None and not result.answer.is_empty:
            age = f"was {result.answer.values[0]:.0f} years old"
            return f"{self._person.subject} {age} {query.when}{born}."
        if death := self._death(row):
            return f"{self._person.subject} {death}{born}."
        age = ""
        if query.now and not query.when.visit:
            age = age_text(recorded, query.now)
        elif not result.answer.is_empty:
            years = result.answer.values[0]
            about = "" if len(recorded) == _FULL_DATE else "about "
            age = f"{about}{years:.0f} years"
        return f"{self._person.subject} is {age} old{born}." if age else ""

    def _death(self, row: Row) -> str:
        """`died on 2011-07-17 at the age of 34 years`; empty without a death."""
        for death in row.fact("death_time"):
            day = death[:_FULL_DATE]
            text = f"died on {day}" if len(day) == _FULL_DATE else f"died in {day}"
            birth = next(iter(row.fact("birth_date")), "")
            age = age_text(birth, day)
            return f"{text} at the age of {age}" if age else text
        if row.fact("alive") == ("no",):
            return "is recorded as dead; the date is not recorded"
        return ""

    def _comparison(self, query: Query, result: QueryResult) -> Part:
        """The two sides of a comparison, and the difference or a yes or no."""
        value = result.answer.values[0] if result.answer.values else None
        statements: list[Statement] = []
        for side in ("own", "other"):
            rows = tuple(row for row in result.chosen if row.side == side)
            statements += self._side(_query_of_side(query, side), rows, result)
        if value is None and {row.side for row in result.chosen} == {"own", "other"}:
            return Part(tuple(statements), verdict="Cannot be decided: ")
        if value is None:
            message = f"There are no two values of {subject(query)} to compare."
            return Part(tuple(statements), is_found=False, message=message)
        if not isinstance(value, bool) and isinstance(value, int | float):
            difference = f"{computed_text(value)} {result.answer.unit}".rstrip()
            return Part(tuple(statements), verdict=f"Difference {difference}: ")
        if value:
            return Part(tuple(statements), verdict="Yes: ", says="yes")
        return Part(tuple(statements), verdict="No: ", says="no")

    def _side(
        self, query: Query, rows: tuple[Row, ...], result: QueryResult
    ) -> Sequence[Statement]:
        """One side of a comparison: its rows, or the number that summarises them."""
        if query.summary == "each" or not rows:
            return row_statements(_as_list(query), rows, self._support)
        of_side = result.model_copy(update={"rows": rows})
        return summary_statements(query, of_side, self._support).statements

    def _existence(self, query: Query, rows: Sequence[Row]) -> Part:
        if query.what in MEASURED:
            return self._measured_existence(query, rows)
        asserted: Sequence[Row] = [row for row in rows if not denies(row.name)]
        if not asserted:
            statements = row_statements(query, rows, self._support)
            return Part(
                statements, verdict="No: ", says="no", limit=_SHOWN_OF_EXISTENCE
            )
        asserted = with_visit_details(query, asserted, self._execute)
        now = datetime.fromisoformat(query.now) if query.now else None
        says: Says | None = None
        if query.state == "current" and all(
            row_state(query.what, row, now) == "unknown" for row in asserted
        ):
            verdict = "Recorded, but not whether it is still so: "
        elif query.what == "allergy" and all(
            row_state(query.what, row, now) == "ended" for row in asserted
        ):
            verdict = "No longer: "
        elif query.state == "current" and (doubt := _doubt(asserted)):
            verdict = doubt
        elif all(tentative_status(query.what, row) for row in asserted):
            verdict = "Recorded, but not confirmed: "
        else:
            verdict, says = "Yes: ", "yes"
        return Part(
            row_statements(query, asserted, self._support),
            verdict=verdict,
            says=says,
            limit=_SHOWN_OF_EXISTENCE,
        )

    def _measured_existence(self, query: Query, rows: Sequence[Row]) -> Part:
        """A yes or no from results: by the limit they pass, else by what their words assert."""
        newest = latest_first(rows)
        flags = list(row_flags(newest))
        positive: list[Row] = []
        others: list[Row] = []
        for row, flag in zip(newest, flags, strict=True):
            (positive if flag == "positive" else others).append(row)
        decisive = [*positive, *others]
        # Of what is high or low, the highest or lowest comes before the others.
        numbers = [row for row in decisive if row.value is not None]
        if query.flag in {"high", "low"} and numbers and is_series(query, rows):
            choose = max if query.flag == "high" else min
            extreme = choose(numbers, key=lambda row: row.value or 0)
            decisive = [extreme, *(row for row in decisive if row is not extreme)]
        statements = row_statements(query, decisive[::-1], self._support)[::-1]
        verdict, says = _measured_verdict(query, rows, flags)
        return Part(statements, verdict=verdict, says=says, limit=_SHOWN_OF_EXISTENCE)

    def _summary(self, query: Query, result: QueryResult) -> Part:
        summary = summary_statements(query, result, self._support)
        if summary.statements:
            return Part(summary.statements, remarks=summary.remarks, is_series=True)
        part = self._rows(query, result.chosen)
        text = f"No number is recorded for {subject(query)}."
        return part._replace(is_found=False, message=text, remarks=summary.remarks)

    def _rows(self, query: Query, rows: Sequence[Row]) -> Part:
        """Every row; where none says what is asked, the rows are shown as not answering."""
        rows = with_visit_details(query, rows, self._execute)
        statements: Sequence[Statement]
        if query.returns == "elapsed":
            statements = elapsed_statements(query, rows, self._support)
        elif query.returns == "length_of_stay":
            statements = stay_statements(query, rows, self._support)
        elif query.returns == "age":
            statements = age_statements(query, rows, self._support, self._birth_date)
        else:
            # The latest that says what is asked comes first.
            ordered = sorted(rows, key=lambda row: not lacks_what_is_asked(query, row))
            statements = row_statements(query, ordered, self._support, self._max_lines)
        extremes = LONGEST if query.returns == "length_of_stay" else EXTREMES
        verdict = f"{extremes[query.extreme]}: " if query.extreme else ""
        if query.returns in _SINCE and rows and not any(map(_says_when, rows)):
            verdict = "The onset is not recorded: "
        if (
            len(statements) > self._max_lines
            and query.what in MEASURED
            and not is_series(query, rows)
        ):
            statements = statements[::-1]
        part = Part(tuple(statements), verdict=verdict, is_series=True)
        if not all(lacks_what_is_asked(query, row) for row in rows):
            return part
        names = sentence_case(asked_names(query) or row_words(query.what).plural)
        message = f"{names}: {field_words()[query.returns].absent} is not recorded."
        return part._replace(is_found=False, message=message)


def _query_of_side(query: Query, side: str) -> Query:
    """The query for one side of its comparison, without the other one."""
    changes: dict[str, object] = {"against": None}
    against = query.against
    if side == "other" and against is not None:
        changes["when"] = against.when
        if against.names or against.concepts:
            changes |= {"names": against.names, "concepts": against.concepts}
    return query.model_copy(update=changes)


def _says_when(row: Row) -> bool:
    """Whether a row says when it was, and not only when it was recorded, or at which visit."""
    return not row.fact("dated_by") or not _TIME_FACTS.isdisjoint(row.facts)


def _doubt(rows: Sequence[Row]) -> str:
    """How an answer begins where all that speaks for a yes is uncertain; empty without doubt."""
    reasons = {row.currency.reason if row.currency else "" for row in rows}
    if reasons == {"never_ended"}:
        return "Not certain, since the order is old: "
    if reasons <= {"never_ended", "supply_over"}:
        return "Probably, but the supply has run out: "
    return ""


def _as_list(query: Query) -> Query:
    """The query for every row; of a kind without values, for their names or times."""
    fields = KINDS[query.what].returns
    wanted = (query.returns, "name", "time", "sex")
    returns = next(field for field in wanted if field in fields)
    return query.model_copy(update={"summary": "each", "per": None, "returns": returns})


def _measured_verdict(
    query: Query, rows: Sequence[Row], flags: Sequence[str]
) -> tuple[str, Says | None]:
    """How the answer to an existence begins, and whether it is a yes or a no."""
    if query.results or query.value or query.flag or query.extreme or query.grew:
        return "Yes: ", "yes"
    if not asked_names(query):
        return "Yes, recorded: ", "yes"
    if all(row.value is not None for row in rows):
        return "Yes, measured: ", "yes"
    if "positive" in flags:
        return "Yes: " if flags[0] == "positive" else "Yes, in the past: ", "yes"
    if set(flags) == {"negative"}:
        return "No: ", "no"
    if set(flags) <= {"negative", "past"}:
        if query.state == "current":
            return "No, not currently: ", "no"
        return "In the past: ", None
    return "As recorded: ", None


def _field_name(query: Query) -> str:
    """What of the patient is asked for: `phone number`."""
    return short_words("patient field").get(
        query.returns, query.returns.replace("_", " ")
    )


_DAYS_OF_NEWBORN = 28
_MONTHS_IN_MONTHS = 24
"""Below this age, months are told instead of years."""


def age_text(birth: str, at: str) -> str:
    """Return the age at a date; empty where a date is missing or lies before the birth.

    `birth` and `at` are FHIR dates of any precision. Of a date without day or month, every day in
    it counts: born in 1950, somebody who died in 2021 was 70 or 71 years old.
    """
    born, died = _days_of(birth), _days_of(at)
    if born is None or died is None or died[1] < born[0]:
        return ""
    youngest = max(0, full_years(born[1], died[0]))
    oldest = full_years(born[0], died[1])
    is_exact = born[0] == born[1] and died[0] == died[1]
    if is_exact and oldest * 12 < _MONTHS_IN_MONTHS:
        return _age_of_infant(born[0], died[0])
    if youngest == oldest:
        return counted(oldest, "year", "years")
    between = "or" if oldest - youngest == 1 else "to"
    return f"{youngest} {between} {oldest} years"


def age_statements(
    query: Query, rows: Sequence[Row], support: Support, birth: str
) -> list[Statement]:
    """Return the age at which each thing was, newest first; `birth` is a FHIR date or empty.

    Where a row has an age instead of a date, its own line says it.
    """
    statements = []
    for row in latest_first(rows):
        text = row_text(query, row, support)
        age = age_text(birth, support.date(row, row.time))
        if age and "age_at_time" not in row.facts:
            text = f"At the age of {age}: {text}"
        statements.append(Statement(text, (row,)))
    return statements


def _age_of_infant(born: date, at: date) -> str:
    days = (at - born).days
    if days < _DAYS_OF_NEWBORN:
        text = counted(days, "day", "days")
        weeks = days // 7
        return f"{text} ({counted(weeks, 'week', 'weeks')})" if weeks else text
    length = length_between(born, at)
    months = length.years * 12 + length.months
    if months < 3:
        return f"{days // 7} weeks"
    return f"{months} months"


def _days_of(text: str) -> tuple[date, date] | None:
    """The first and the last day that a FHIR date can mean; None if it is none."""
    parts = text[:10].split("-")
    try:
        year, *rest = map(int, parts)
        month = rest[0] if rest else None
        if len(rest) > 1:
            day = date(year, rest[0], rest[1])
            return day, day
        first = date(year, month or 1, 1)
        last_month = month or 12
        last_day = calendar.monthrange(year, last_month)[1]
        return first, date(year, last_month, last_day)
    except ValueError:
        return None
