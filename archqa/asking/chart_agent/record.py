"""Rows of a patient's record as a model is shown them, each under its mark `r5`."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import SequenceMatcher
from itertools import chain

from archqa.agents.chart_answer import ShownSource
from archqa.asking.answer import Answer, Evidence, Status
from archqa.asking.chart_agent.personal import (
    PERSONAL_DETAILS,
    asked_details,
    without_personal_details,
)
from archqa.asking.record import PatientQueries, answer_by_grammar
from archqa.asking.record_displays import clean_name
from archqa.asking.record_measured import flag_text, value_text
from archqa.asking.record_names import row_status
from archqa.asking.record_numbers import date_text, full_years
from archqa.fhir import Resolver, project
from archqa.fhir.values.text import normalise_text
from archqa.query import CannotExecute, Query
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.named_rows import concepts_called, with_concept_names
from archqa.query.execution.rows import Row
from archqa.query.kinds import KINDS

_MAX_ROWS = 40
_MAX_RESOURCE_CHARACTERS = 4_000
_MAX_NAMES = 10
"""Names of rows that are told where no row has a word."""
_MIN_BEGINNING = 3
"""Letters of a word that stand for all words which begin with them."""
_MIN_DETAIL = 4
"""Characters of a personal detail below which other text may well have the same ones."""

NOT_READ = "The question could not be read, so nothing was searched. list_record lists rows."
NOT_COMPUTED = "Rows on what the question names; no rule could read whether they answer it:"
DETAILS_HIDDEN = (
    "(of identifiers, contacts, address and name of the patient, only what the question asks for "
    "is shown)"
)
_TYPE_AFTER_VALUE = re.compile(r" \([^()]*\)$")
"""An identifier has its type behind it: `1869658 (Medical Record Number)`."""

_DOSAGE_FACTS = ("dose", "frequency", "dosage")
_TOLD_OTHERWISE = frozenset(
    {"status", "status_detail", "flag", "reference_range", "kind", "panel", "alive"}
)


class ShownRecord:
    """A patient's record, and the lines of it that were shown to a model, by mark.

    What identifies or reaches the patient is shown as far as the question asks for it.
    """

    def __init__(self, queries: PatientQueries, now: datetime, question: str) -> None:
        self.shown: dict[str, ShownSource] = {}
        self._queries = queries
        self._now = now
        self._asked = asked_details(question)
        self._hidden = PERSONAL_DETAILS - self._asked.details
        self._marks: dict[tuple[tuple[str, ...], str], str] = {}
        self._evidence: dict[str, Evidence] = {}

    @property
    def patient_id(self) -> str:
        """The id of the patient."""
        return str(self._queries.patient.get("id", ""))

    def found(self, question: str) -> list[str]:
        """Return what the grammar finds; what it cannot read or declines to judge is not told.

        Raises as the record does.
        """
        answer = self._answer(question)
        if _is_read(answer):
            return self._answer_lines(answer)
        return [NOT_COMPUTED, *self._fact_lines(answer)] if answer.lines else []

    def answered(self, question: str) -> list[str]:
        """Return what the grammar answers, or that it cannot read the question. Raises as above."""
        answer = self._answer(question)
        if _is_read(answer):
            return self._answer_lines(answer)
        return [NOT_COMPUTED, *self._fact_lines(answer)] if answer.lines else [NOT_READ]

    def _answer(self, question: str) -> Answer:
        answer = answer_by_grammar(question, self._queries)
        self._evidence |= {line.id: line for line in answer.evidence}
        return answer

    def _answer_lines(self, answer: Answer) -> list[str]:
        """Return how a question was read, so that a misreading is seen, and what was found."""
        read = [f"Read as: {answer.query}"] if answer.query else []
        message = [answer.message] if answer.message else []
        remarks = [f"Remark: {remark}" for remark in answer.remarks]
        return [*read, *message, *self._fact_lines(answer), *remarks]

    def _fact_lines(self, answer: Answer) -> list[str]:
        hidden = self._hidden_details()
        lines = []
        for line in answer.lines:
            if any(detail in line.text.casefold() for detail in hidden):
                lines.append(DETAILS_HIDDEN)
            else:
                date = _latest(answer, line.citations)
                lines.append(self._shown(line.citations, line.text, date))
        return lines

    def _hidden_details(self) -> set[str]:
        """Return the values of the personal details that the question does not ask for."""
        values = chain.from_iterable(map(self._personal_values, {*self._hidden, "identifier"}))
        hidden = {value.casefold() for value in values if len(value) >= _MIN_DETAIL}
        return hidden - self._asked_identifiers()

    def hidden_words(self) -> frozenset[str]:
        """Return names, numbers and addresses of the patient that the question does not ask for."""
        name = "patient_name"
        names = self._personal_values(name) if name in self._hidden else ()
        parts = {part.strip(".,") for value in names for part in value.split()}
        return frozenset(self._hidden_details() | {part for part in parts if len(part) > 1})

    def _personal_values(self, detail: str) -> Iterator[str]:
        for row in self._queried("patient"):
            for value in row.facts.get(detail, ()):
                yield _TYPE_AFTER_VALUE.sub("", value)

    def _without_details(self, row: Row) -> Row:
        """Return the row of the patient without the details that the question does not ask for."""
        facts = {name: row.facts[name] for name in row.facts if name not in self._hidden}
        if "identifier" in facts:
            asked = self._asked_identifiers()
            kept = [each for each in facts["identifier"] if each.split(" (")[0].casefold() in asked]
            facts["identifier"] = tuple(kept)
        return replace(row, facts=facts)

    def _asked_identifiers(self) -> set[str]:
        identifiers = self._asked.identifiers(self._queries.patient.get("identifier", ()))
        return {str(each.get("value", "")).casefold() for each in identifiers}

    def listed(self, kind: str, words: str = "", since: str = "", until: str = "") -> list[str]:
        """Return the rows of a kind, latest first, that have these words or mean the same concept.

        A word stands for all that begin with it. Raises as the record does, and `KeyError` for an
        unknown kind.
        """
        rows = _latest_first(self._rows(kind, words))
        within = [row for row in rows if _is_between(row, since, until)]
        if not rows and words.strip():
            return self._none_called(kind, words)
        lines = [f"{len(within)} of {len(self._all(kind))} {KINDS[kind].plural}:"]
        if rows and not within:
            lines = [f"{lines[0]} {_other_times(rows)}"]
        lines += [self._row_line(kind, row) for row in within[:_MAX_ROWS]]
        hidden = len(within) - _MAX_ROWS
        if hidden > 0:
            lines.append(f"({hidden} earlier ones are not shown)")
        lines += self._later(kind)
        return [*lines, DETAILS_HIDDEN] if kind == "patient" and self._hidden else lines

    def _later(self, kind: str) -> Iterator[str]:
        """Yield how many rows of a kind are left out, since they are dated after the question."""
        for caveat in self._result({"what": kind}).caveats:
            if caveat.kind == "dated_later":
                yield caveat.text

    def _none_called(self, kind: str, words: str) -> list[str]:
        """Return that no row has these words, and the names of rows that are nearest to them."""
        rows = self._all(kind)
        if not rows:
            return [f"The record has no {KINDS[kind].plural}."]
        names = _nearest_names(words, rows)
        told = f"No row of {len(rows)} {KINDS[kind].plural} has these words; other names: "
        return [told + "; ".join(names)]

    def resource(self, mark: str) -> list[str]:
        """Return all that the resources of a mark say; empty for a mark that was not shown.

        A row that is read keeps its mark.
        """
        source = self.shown.get(mark.strip("[] "))
        if source is None:
            return []
        return [line for name in source.ids[:3] for line in self._read(source, name)]

    def _read(self, source: ShownSource, name: str) -> Iterator[str]:
        """Yield the line of one resource of a row, under the row's mark if it has no other."""
        resource_type, _, resource_id = name.partition("/")
        resource = self._queries.record.get(resource_type, resource_id)
        if resource is None:
            return
        known = without_personal_details(resource, self._asked)
        projected = project(known, Resolver(self._queries.record))
        details = json.dumps(projected, ensure_ascii=False)[:_MAX_RESOURCE_CHARACTERS]
        own = source if source.ids == (name,) else self._source_of(name, details, source.date)
        self.shown[own.mark] = own._replace(details=details)
        yield f"[{own.mark}] {details}"
        if resource_type == "Patient" and self._hidden:
            yield DETAILS_HIDDEN

    def _source_of(self, name: str, details: str, date: str) -> ShownSource:
        """Return the source of one of several resources that make a row."""
        evidence = None if name.startswith("Patient/") else self._evidence.get(name)
        text = evidence.text if evidence and evidence.text else details
        self._shown((name,), text, date)
        return self.shown[self._marks[((name,), text)]]

    def patient_line(self) -> str:
        """Return sex, birth date, age, language and the like, and the personal details asked for."""
        return ", ".join(self._row_line("patient", row) for row in self._all("patient"))

    def evidence(self, name: str, source: ShownSource) -> Evidence:
        """Return a resource as evidence, in the words in which it was shown.

        Of several that make one line, each has its own words.
        """
        own = self._evidence.get(name)
        if own is not None and own.text and len(source.ids) > 1:
            return own
        resource_type = name.partition("/")[0]
        return Evidence(
            id=name, kind="resource", text=source.text, source=resource_type, date=source.date
        )

    def _all(self, kind: str) -> Sequence[Row]:
        rows = self._queried(kind)
        return [self._without_details(row) for row in rows] if kind == "patient" else rows

    def _queried(self, kind: str) -> Sequence[Row]:
        return self._found({"what": kind})

    def _found(self, fields: dict[str, object]) -> Sequence[Row]:
        """Return what a query finds, with reasons, and what is no fact: planned, denied, cancelled."""
        result = self._result(fields)
        return (*result.rows, *result.left_out)

    def _result(self, fields: dict[str, object]) -> QueryResult:
        kind = KINDS[str(fields["what"])]
        if "reason" in kind.returns:
            fields = {**fields, "returns": "reason"}
        query = Query.model_validate({**fields, "summary": "count"})
        return self._queries(with_concept_names(query))

    def _rows(self, kind: str, words: str) -> list[Row]:
        """Return the rows that have all the words, and those of the concept that they name."""
        if not words.strip():
            return list(self._all(kind))
        wanted = _words_of(words)
        rows = [row for row in self._all(kind) if _has_words(_words(row), wanted)]
        known = {(row.refs, row.name) for row in rows}
        meant = self._of_concept(kind, words)
        return [*rows, *(row for row in meant if (row.refs, row.name) not in known)]

    def _of_concept(self, kind: str, words: str) -> Sequence[Row]:
        if not concepts_called(words):
            return ()
        try:
            return self._found({"what": kind, "concepts": (words,)})
        except (CannotExecute, ValueError):  # No rows of the kind have such a concept.
            return ()

    def _row_line(self, kind: str, row: Row) -> str:
        name = clean_name(row.name) or KINDS[kind].singular
        parts = [name, value_text(row), flag_text(row)]
        for fact in [each for each in row.facts if each not in _TOLD_OTHERWISE]:
            parts.append(_fact_text(row, fact, name))
        if kind == "patient" and row.local_time:
            parts.append(f"age {full_years(row.local_time.date(), self._now.date())}")
        if kind == "medication" and not _has_dosage(row):
            parts.append("no dosage given")
        parts += (_end_text(row), _status_text(row))
        has_date = row.local_time is not None and kind != "patient"  # A birth date dates nothing.
        date = date_text(row.local_time) if row.local_time and has_date else ""
        return self._shown(row.refs[:1], ", ".join(filter(None, parts)), date)

    def _shown(self, names: Iterable[str], text: str, date: str) -> str:
        """Return a line under its mark, the same one each time that it is shown."""
        key = (tuple(dict.fromkeys(names)), text)
        mark = self._marks.setdefault(key, f"r{len(self._marks) + 1}")
        kinds = dict.fromkeys(name.partition("/")[0] for name in key[0])
        title = f"the record ({', '.join(kinds)})" if kinds else "the record"
        self.shown.setdefault(mark, ShownSource(mark, key[0], text, date, title))
        return f"[{mark}] {date}: {text}" if date else f"[{mark}] {text}"


def _fact_text(row: Row, fact: str, name: str) -> str:
    """Return a fact under its name; empty where the name of the row says it."""
    values = dict.fromkeys(clean_name(value) for value in row.facts[fact] if value)
    told = [value for value in values if value.casefold() not in name.casefold()]
    return f"{fact.replace('_', ' ')} {'; '.join(told)}" if told else ""


def _end_text(row: Row) -> str:
    """Return the end, if it is another day than the start."""
    if row.local_end is None or date_text(row.local_end) == date_text(
        row.local_time or datetime.min
    ):
        return ""
    return f"until {date_text(row.local_end)}"


def _status_text(row: Row) -> str:
    """Return the status, and how sure or how firm it is: confirmed, an order, a plan."""
    details = ", ".join(row.facts.get("status_detail", ()))
    status = row_status(row)
    if not status:
        return ""
    return f"status {status} ({details})" if details else f"status {status}"


def _is_read(answer: Answer) -> bool:
    """Whether the grammar took a question for one of the record."""
    return answer.status in (Status.ANSWERED, Status.NOT_FOUND)


def _has_dosage(row: Row) -> bool:
    return row.value is not None or any(row.facts.get(fact) for fact in _DOSAGE_FACTS)


def _words(row: Row) -> set[str]:
    facts = [value for values in row.facts.values() for value in values]
    displays = [coding.display for coding in row.codings]
    return _words_of(" ".join((*row.names, *displays, row.text, *facts)))


def _words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", normalise_text(text)))


def _has_words(words: set[str], wanted: set[str]) -> bool:
    return all(one in words or _begins_any(one, words) for one in wanted)


def _begins_any(beginning: str, words: set[str]) -> bool:
    if len(beginning) < _MIN_BEGINNING or not beginning.isalpha():
        return False
    return any(word.startswith(beginning) for word in words)


def _nearest_names(words: str, rows: Iterable[Row]) -> list[str]:
    """Return the names of rows that are most like these words, of equal ones the most frequent."""
    counts = Counter(clean_name(row.name) for row in rows if row.name)
    wanted = _words_of(words)
    likeness = {name: _likeness(wanted, _words_of(name)) for name in counts}
    return sorted(counts, key=lambda name: (-likeness[name], -counts[name]))[:_MAX_NAMES]


def _likeness(wanted: set[str], words: set[str]) -> float:
    """Return how much alike the two most similar words are, in tenths: closer is no likeness."""
    ratios = [SequenceMatcher(None, one, word).ratio() for one in wanted for word in words]
    return round(max(ratios, default=0.0), 1)


def _latest_first(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row.local_time or datetime.min, reverse=True)


def _other_times(rows: Sequence[Row]) -> str:
    """Return how many rows lie at other times, and when the latest is."""
    latest = rows[0].local_time
    date = f", the latest on {date_text(latest)}" if latest else ""
    return f"{len(rows)} at other times{date}"


def _is_between(row: Row, since: str, until: str) -> bool:
    """Whether a row lies between two dates as precise as they are written; one undated always."""
    if row.local_time is None:
        return True
    start = date_text(row.local_time)
    end = date_text(row.local_end) if row.local_end else start
    return (not since or end[: len(since)] >= since) and (not until or start[: len(until)] <= until)


def _latest(answer: Answer, citations: Iterable[str]) -> str:
    """Return the latest date of what a line cites."""
    cited = set(citations)
    return max((line.date[:10] for line in answer.evidence if line.id in cited), default="")
