"""Rows of a patient's record as a model is shown them, each under its mark `r5`."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime

from archqa.agents.chart_answer import ShownSource
from archqa.asking.answer import Answer, Evidence
from archqa.asking.record_displays import clean_name
from archqa.asking.record_grammar import PatientQueries, answer_by_grammar
from archqa.asking.record_measured import flag_text, value_text
from archqa.asking.record_names import row_status
from archqa.asking.record_numbers import date_text, full_years
from archqa.core.question import RecordQuestion
from archqa.fhir import Resolver, project
from archqa.fhir.values.text import normalise_text
from archqa.query import CannotExecute, Query
from archqa.query.called_concepts import concepts_called, with_concept_names
from archqa.query.execution.rows import Row
from archqa.query.kinds import KINDS

_MAX_ROWS = 40
_MAX_RESOURCE_CHARACTERS = 4_000
_IDENTIFYING = frozenset({"identifier", "contact", "address", "phone", "email", "patient_name"})
"""Facts about the person that are shown only where they are asked for."""

_TOLD_OTHERWISE = frozenset(
    {"status", "status_detail", "flag", "reference_range", "kind", "panel", "alive"}
)


class ShownRecord:
    """A patient's record, and the lines of it that were shown to a model, by mark."""

    def __init__(self, queries: PatientQueries, now: datetime) -> None:
        self.shown: dict[str, ShownSource] = {}
        self._queries = queries
        self._now = now
        self._marks: dict[tuple[tuple[str, ...], str], str] = {}
        self._evidence: dict[str, Evidence] = {}

    @property
    def patient_id(self) -> str:
        """The id of the patient."""
        return str(self._queries.patient.get("id", ""))

    def answered(self, question: str) -> list[str]:
        """Return what the grammar answers, its lines under marks. Raises as the record does."""
        asked = RecordQuestion(id="asked", question=question, patient_fhir_id=self.patient_id)
        answer = answer_by_grammar(asked, self._now, self._queries)
        self._evidence |= {line.id: line for line in answer.evidence}
        lines = [f"Status: {answer.status}"]
        if answer.query:
            lines.append(f"Read as: {answer.query}")
        if answer.message:
            lines.append(answer.message)
        for line in answer.lines:
            lines.append(self._shown(line.citations, line.text, _latest(answer, line.citations)))
        return [*lines, *(f"Remark: {remark}" for remark in answer.remarks)]

    def listed(self, kind: str, words: str = "", since: str = "", until: str = "") -> list[str]:
        """Return the rows of a kind, latest first, that have these words or mean the same concept.

        Raises as the record does, and `KeyError` for an unknown kind.
        """
        plural = KINDS[kind].plural
        rows = self._rows(kind, words)
        within = [row for row in rows if _is_between(row, since, until)]
        ordered = sorted(within, key=lambda row: row.local_time or datetime.min, reverse=True)
        lines = [f"{len(ordered)} of {len(self._all(kind))} {plural}:"]
        lines += [self._row_line(kind, row, with_person=True) for row in ordered[:_MAX_ROWS]]
        hidden = len(ordered) - _MAX_ROWS
        return [*lines, f"({hidden} earlier ones are not shown)"] if hidden > 0 else lines

    def resource(self, mark: str) -> list[str]:
        """Return all that the resources of a mark say; empty for a mark that was not shown."""
        source = self.shown.get(mark.strip("[] "))
        if source is None:
            return []
        lines = []
        for name in source.ids[:3]:
            resource_type, _, resource_id = name.partition("/")
            resource = self._queries.record.get(resource_type, resource_id)
            if resource is not None:
                projected = project(resource, Resolver(self._queries.record))
                text = json.dumps(projected, ensure_ascii=False)[:_MAX_RESOURCE_CHARACTERS]
                lines.append(self._shown((name,), text, source.date))
        return lines

    def patient_line(self) -> str:
        """Return sex, birth date, age, language and the like, without what identifies the person."""
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
        return self._found({"what": kind})

    def _found(self, fields: dict[str, object]) -> Sequence[Row]:
        """Return what a query finds, with reasons, and what is no fact: planned, denied, cancelled."""
        kind = KINDS[str(fields["what"])]
        if "reason" in kind.returns:
            fields = {**fields, "returns": "reason"}
        query = Query.model_validate({**fields, "summary": "count"})
        result = self._queries(with_concept_names(query))
        return (*result.rows, *result.left_out)

    def _rows(self, kind: str, words: str) -> list[Row]:
        """Return the rows that have all the words, and those of the concept that they name."""
        if not words.strip():
            return list(self._all(kind))
        wanted = set(normalise_text(words).split())
        rows = [row for row in self._all(kind) if wanted <= _words(row)]
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

    def _row_line(self, kind: str, row: Row, *, with_person: bool = False) -> str:
        hidden: frozenset[str] = frozenset() if with_person else _IDENTIFYING
        name = clean_name(row.name) or KINDS[kind].singular
        parts = [name, value_text(row), flag_text(row)]
        for fact in [each for each in row.facts if each not in _TOLD_OTHERWISE | hidden]:
            parts.append(_fact_text(row, fact, name))
        if kind == "patient" and row.local_time:
            parts.append(f"age {full_years(row.local_time.date(), self._now.date())}")
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
        self.shown[mark] = ShownSource(mark, key[0], text, date, title)
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


def _words(row: Row) -> set[str]:
    facts = [value for values in row.facts.values() for value in values]
    displays = [coding.display for coding in row.codings]
    return set(normalise_text(" ".join((*row.names, *displays, row.text, *facts))).split())


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
