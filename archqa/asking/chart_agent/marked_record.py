"""Rows of a patient's record as a model is shown them, each under its mark `r5`.

Details that identify or reach the patient are shown only where the question asks for them.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import SequenceMatcher
from itertools import product
from typing import Any, NamedTuple

from archqa.agents.chart_answer import ShownSource
from archqa.asking.answer import Answer, Evidence, Status
from archqa.asking.record import PatientQueries, answer_by_grammar
from archqa.core.tables import read_rows
from archqa.fhir import Resolver, project
from archqa.fhir.values.text import normalise_text
from archqa.query import CannotExecute, Query
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.named_rows import concepts_called, with_concept_names
from archqa.query.execution.rows import Row
from archqa.query.kinds import KINDS
from archqa.query.wording.rows import flag_text, value_text
from archqa.query.wording.words import (
    DRUGS,
    clean_name,
    date_text,
    drug_status,
    full_years,
    row_status,
)
from archqa.terminology.words import word_list

_MAX_ROWS = 40
_MAX_RESOURCE_CHARACTERS = 4_000
_MAX_NAMES = 10
"""Names of rows that are told where no row has a word."""
_MIN_LIKENESS = 0.8
"""Of two words that one may have been typed for the other: a letter of five is wrong or missing."""
_MIN_BEGINNING = 3
"""Letters of a word that stand for all words which begin with them."""
_MIN_DETAIL = 4
"""Characters of a personal detail below which other text may well have the same ones."""

NOT_READ = (
    "The question could not be read, so nothing was searched. list_record lists rows."
)
NOT_COMPUTED = (
    "Rows on what the question names; no rule could read whether they answer it:"
)
DETAILS_HIDDEN = (
    "(of identifiers, contacts, address and name of the patient, only what the question asks for "
    "is shown)"
)
_TYPE_AFTER_VALUE = re.compile(r" \([^()]*\)$")
"""An identifier has its type behind it: `1869658 (Medical Record Number)`."""

_DOSAGE_FACTS = ("dose", "frequency", "dosage")
_NOT_LISTED_FACTS = word_list("fact not listed")
_WORD = re.compile(r"\w+")

PERSONAL_DETAILS = word_list("personal detail")
"""Facts of a patient's row."""

_NOT_ASKING = "other"
_GAP = re.escape(" .. ")
_UP_TO_SIX_WORDS = r"\s(?:\S+\s){0,6}"
_OF_A_PATIENT = word_list("shown element of Patient")
_THE_PATIENT = word_list("element with patient")
"""Fields of other resources that name the patient, which every one of them does."""

_DETAIL_OF_FIELD = {
    "identifier": "identifier",
    "subscriberId": "identifier",
    "address": "address",
    "contact": "contact",
}
_COARSE_ADDRESS = ("city", "state", "country")


class AskedDetails(NamedTuple):
    """Which of `PERSONAL_DETAILS` a question asks for, and which types of identifiers; () for all."""

    details: frozenset[str]
    identifier_types: tuple[re.Pattern[str], ...] = ()

    def identifiers(
        self, identifiers: Iterable[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        """Return those that are asked for; where none has the type, those without a type."""
        if "identifier" not in self.details:
            return []
        if not self.identifier_types:
            return list(identifiers)
        typed = []
        untyped = []
        for identifier in identifiers:
            fields = {name: identifier.get(name, "") for name in ("type", "system")}
            text = json.dumps(fields, ensure_ascii=False).casefold()
            if any(pattern.search(text) for pattern in self.identifier_types):
                typed.append(identifier)
            elif "type" not in identifier:
                untyped.append(identifier)
        return typed or untyped


def asked_details(question: str) -> AskedDetails:
    """Return what of the person a question asks for."""
    text = question.casefold().replace("’", "'")
    words_of_detail = {}
    identifier_types = []
    for kind, name, words in read_rows("asking/data/personal_details.tsv", 3):
        if kind == "detail":
            words_of_detail[name] = _pattern(words)
        elif kind == "identifier" and _pattern(name).search(text):
            identifier_types.append(_pattern(words))
    other_meanings = words_of_detail.pop(_NOT_ASKING)
    details = set()
    for detail, pattern in words_of_detail.items():
        # Words that are a part of what means something else do not count.
        remaining = text
        for match in reversed(list(other_meanings.finditer(text))):
            if not pattern.fullmatch(match[0]):
                remaining = f"{remaining[: match.start()]} {remaining[match.end() :]}"
        if pattern.search(remaining):
            details.add(detail)
    return AskedDetails(frozenset(details), tuple(identifier_types))


def without_personal_details(
    resource: Mapping[str, Any], asked: AskedDetails
) -> dict[str, Any]:
    """Return a resource without what identifies or reaches the patient, but for what is asked."""
    is_patient = resource.get("resourceType") == "Patient"
    fields = {}
    for field, value in resource.items():
        known = (
            _patient_field(field, value, asked)
            if is_patient
            else _field(field, value, asked)
        )
        if known not in (None, [], {}):
            fields[field] = known
    return fields


def _patient_field(field: str, value: Any, asked: AskedDetails) -> Any:
    """Return what is shown of a field of a Patient; None for nothing."""
    detail = "patient_name" if field == "name" else _DETAIL_OF_FIELD.get(field, "")
    if field == "identifier":
        return asked.identifiers(value)
    if field in _OF_A_PATIENT or detail in asked.details:
        return value
    if field == "address":
        coarse = []
        for address in value:
            coarse.append(
                {part: address[part] for part in _COARSE_ADDRESS if part in address}
            )
        return coarse
    return _telecom(value, asked) if field == "telecom" else None


def _field(field: str, value: Any, asked: AskedDetails) -> Any:
    """Return what is shown of a field of another resource; None for nothing.

    The name of a related person is shown: who is the proxy?
    """
    if field == "telecom":
        return value if "contact" in asked.details else _telecom(value, asked)
    if field in _DETAIL_OF_FIELD:
        return value if _DETAIL_OF_FIELD[field] in asked.details else None
    return None if field in _THE_PATIENT else value


def _telecom(points: Iterable[Mapping[str, Any]], asked: AskedDetails) -> list[Any]:
    """Return the ways to reach a person that are asked for."""
    points_to_show = []
    for point in points:
        detail = "email" if point.get("system") == "email" else "phone"
        if detail in asked.details:
            points_to_show.append(point)
    return points_to_show


def without_words(text: str, words: Collection[str]) -> str:
    """Return a text in which these words, in any case, are replaced by an ellipsis."""
    if not words:
        return text
    longest_first = sorted(words, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", "…", text, flags=re.IGNORECASE)


def _pattern(words: str) -> re.Pattern[str]:
    """Return the pattern of words between bars."""
    longest_first = sorted(words.split("|"), key=len, reverse=True)
    forms = [re.escape(form).replace(_GAP, _UP_TO_SIX_WORDS) for form in longest_first]
    return re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)")


class MarkedRecord:
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
        answer = answer_by_grammar(question, self._queries)
        for piece in answer.evidence:
            self._evidence[piece.id] = piece
        if answer.status not in (Status.ANSWERED, Status.NOT_FOUND):  # It is no query.
            return [NOT_COMPUTED, *self._fact_lines(answer)] if answer.lines else []
        # How a question was read stands above, so that a misreading is seen.
        lines = [f"Read as: {answer.query}"] if answer.query else []
        if answer.message:
            lines.append(answer.message)
        lines += self._fact_lines(answer)
        for remark in answer.remarks:
            lines.append(f"Remark: {remark}")
        return lines

    def answered(self, question: str) -> list[str]:
        """Return what the grammar answers, or that it cannot read the question. Raises as above."""
        return self.found(question) or [NOT_READ]

    def _fact_lines(self, answer: Answer) -> list[str]:
        hidden = self._hidden_details()
        dates = {row.id: row.date[:10] for row in answer.evidence}
        lines = []
        for line in answer.lines:
            text = line.text.casefold()
            if any(detail in text for detail in hidden):
                lines.append(DETAILS_HIDDEN)
            else:
                latest = max(
                    (dates.get(name, "") for name in line.citations), default=""
                )
                lines.append(self._show(line.citations, line.text, latest))
        return lines

    def _hidden_details(self) -> set[str]:
        """Return the values of the personal details that the question does not ask for."""
        hidden = set()
        for detail in {*self._hidden, "identifier"}:
            for value in self._personal_values(detail):
                if len(value) >= _MIN_DETAIL:
                    hidden.add(value.casefold())
        return hidden - self._requested_identifiers()

    def hidden_words(self) -> frozenset[str]:
        """Return names, numbers and addresses of the patient that the question does not ask for."""
        words = self._hidden_details()
        if "patient_name" in self._hidden:
            for name in self._personal_values("patient_name"):
                for part in name.split():
                    if len(part.strip(".,")) > 1:
                        words.add(part.strip(".,"))
        return frozenset(words)

    def _personal_values(self, detail: str) -> Iterator[str]:
        for row in self._query_rows("patient"):
            for value in row.facts.get(detail, ()):
                yield _TYPE_AFTER_VALUE.sub("", value)

    def _requested_identifiers(self) -> set[str]:
        identifiers = self._asked.identifiers(
            self._queries.patient.get("identifier", ())
        )
        return {
            str(identifier.get("value", "")).casefold() for identifier in identifiers
        }

    def listed(
        self, kind: str, words: str = "", since: str = "", until: str = ""
    ) -> list[str]:
        """Return the rows of a kind, latest first, that have these words or mean the same concept.

        A word stands for all that begin with it. Raises as the record does, and `KeyError` for an
        unknown kind.
        """
        plural = KINDS[kind].plural
        all_rows = self._all(kind)
        rows = self._rows(kind, words)
        if not rows and words.strip():
            if not all_rows:
                return [f"The record has no {plural}."]
            line = f"No row of {len(all_rows)} {plural} has these words"
            if names := _nearest_names(words, all_rows):
                line = f"{line}; other names: {'; '.join(names)}"
            return [line]
        rows.sort(key=lambda row: row.local_time or datetime.min, reverse=True)
        within = [row for row in rows if _is_between(row, since, until)]
        heading = f"{len(within)} of {len(all_rows)} {plural}:"
        if rows and not within:
            latest = rows[0].local_time
            date = f", the latest on {date_text(latest)}" if latest else ""
            heading = f"{heading} {len(rows)} at other times{date}"
        lines = [heading]
        for row in within[:_MAX_ROWS]:
            lines.append(self._row_line(kind, row))
        hidden = len(within) - _MAX_ROWS
        if hidden > 0:
            lines.append(f"({hidden} earlier ones are not shown)")
        for caveat in self._query({"what": kind}).caveats:
            if caveat.kind == "dated_later":
                lines.append(caveat.text)
        if kind == "patient" and self._hidden:
            lines.append(DETAILS_HIDDEN)
        return lines

    def resource(self, mark: str) -> list[str]:
        """Return all that the resources of a mark say; empty for a mark that was not shown.

        A row that is read keeps its mark.
        """
        source = self.shown.get(mark.strip("[] "))
        lines: list[str] = []
        if source is not None:
            for name in source.ids[:3]:
                lines += self._read(source, name)
        return lines

    def _read(self, source: ShownSource, name: str) -> Iterator[str]:
        """Yield the line of one resource of a row, under the row's mark if it has no other."""
        resource_type, _, resource_id = name.partition("/")
        resource = self._queries.record.get(resource_type, resource_id)
        if resource is None:
            return
        known = without_personal_details(resource, self._asked)
        projected = project(known, Resolver(self._queries.record))
        details = json.dumps(projected, ensure_ascii=False)[:_MAX_RESOURCE_CHARACTERS]
        if source.ids != (name,):
            # One of several resources that make a row has a source of its own.
            evidence = None if resource_type == "Patient" else self._evidence.get(name)
            text = evidence.text if evidence and evidence.text else details
            self._show((name,), text, source.date)
            source = self.shown[self._marks[((name,), text)]]
        self.shown[source.mark] = source.model_copy(update={"details": details})
        yield f"[{source.mark}] {details}"
        if resource_type == "Patient" and self._hidden:
            yield DETAILS_HIDDEN

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
        return Evidence.of_resource(name, source.text, source.date)

    def _all(self, kind: str) -> Sequence[Row]:
        """Return the rows of a kind, that of the patient with the personal details asked for."""
        rows = self._query_rows(kind)
        if kind != "patient":
            return rows
        requested = self._requested_identifiers()
        shown_rows = []
        for row in rows:
            facts = {
                name: row.facts[name] for name in row.facts if name not in self._hidden
            }
            if "identifier" in facts:
                identifiers = []
                for identifier in facts["identifier"]:
                    if identifier.split(" (")[0].casefold() in requested:
                        identifiers.append(identifier)
                facts["identifier"] = tuple(identifiers)
            shown_rows.append(replace(row, facts=facts))
        return shown_rows

    def _query_rows(self, kind: str, **fields: object) -> Sequence[Row]:
        """Return what a query finds, with reasons, and what is no fact: planned, denied, cancelled."""
        result = self._query({"what": kind, **fields})
        return (*result.rows, *result.left_out)

    def _query(self, fields: dict[str, object]) -> QueryResult:
        kind = KINDS[str(fields["what"])]
        if "reason" in kind.returns:
            fields = {**fields, "returns": "reason"}
        query = Query.model_validate({**fields, "summary": "count"})
        return self._queries(with_concept_names(query))

    def _rows(self, kind: str, words: str) -> list[Row]:
        """Return the rows that have all the words, and those of the concept that they name.

        A word stands for all that begin with it.
        """
        if not words.strip():
            return list(self._all(kind))
        wanted = _words(words)
        rows = []
        for row in self._all(kind):
            texts = [*row.names, row.text]
            for coding in row.codings:
                texts.append(coding.display)
            for facts in row.facts.values():
                texts += facts
            words_of_row = _words(" ".join(texts))
            if all(_begins_any(word, words_of_row) for word in wanted):
                rows.append(row)
        if concepts_called(words):
            known = {(row.refs, row.name) for row in rows}
            try:
                rows_of_concept = self._query_rows(kind, concepts=(words,))
            except (
                CannotExecute,
                ValueError,
            ):  # No rows of the kind have such a concept.
                return rows
            for row in rows_of_concept:
                if (row.refs, row.name) not in known:
                    rows.append(row)
        return rows

    def _row_line(self, kind: str, row: Row) -> str:
        name = clean_name(row.name) or KINDS[kind].singular
        parts = [name, value_text(row), flag_text(row)]
        for fact, values in row.facts.items():
            if fact in _NOT_LISTED_FACTS:
                continue
            # What the name of the row says is not repeated.
            new: dict[str, None] = {}
            for value in map(clean_name, filter(None, values)):
                if value.casefold() not in name.casefold():
                    new[value] = None
            if new:
                parts.append(f"{fact.replace('_', ' ')} {'; '.join(new)}")
        if kind == "patient" and row.local_time:
            parts.append(f"age {full_years(row.local_time.date(), self._now.date())}")
        has_dosage = row.value is not None or any(map(row.facts.get, _DOSAGE_FACTS))
        if kind == "medication" and not has_dosage:
            parts.append("no dosage given")
        if row.local_end is not None:
            end = date_text(row.local_end)
            if end != date_text(row.local_time or datetime.min):
                parts.append(f"until {end}")
        status = drug_status(row) if kind in DRUGS else row_status(row)
        if status:
            # How sure or how firm it is: confirmed, an order, a plan.
            details = ", ".join(row.facts.get("status_detail", ()))
            suffix = f" ({details})" if details else ""
            parts.append(f"status {status}{suffix}")
        date = ""
        if row.local_time and kind != "patient":  # A birth date dates nothing.
            date = date_text(row.local_time)
        return self._show(row.refs[:1], ", ".join(filter(None, parts)), date)

    def _show(self, names: Iterable[str], text: str, date: str) -> str:
        """Return a line under its mark, the same one each time that it is shown."""
        ids = tuple(dict.fromkeys(names))
        mark = self._marks.setdefault((ids, text), f"r{len(self._marks) + 1}")
        kinds = dict.fromkeys(name.partition("/")[0] for name in ids)
        title = f"the record ({', '.join(kinds)})" if kinds else "the record"
        source = ShownSource(mark=mark, ids=ids, text=text, date=date, title=title)
        self.shown.setdefault(mark, source)
        return f"[{mark}] {date}: {text}" if date else f"[{mark}] {text}"


def _words(text: str) -> set[str]:
    return set(_WORD.findall(normalise_text(text)))


def _begins_any(word: str, words: set[str]) -> bool:
    """Whether a word is one of these, or letters with which one of them begins."""
    if word in words:
        return True
    if len(word) < _MIN_BEGINNING or not word.isalpha():
        return False
    return any(longer.startswith(word) for longer in words)


def _nearest_names(words: str, rows: Iterable[Row]) -> list[str]:
    """Return the names of rows that are like these words, or all where there are few.

    Of equal ones the most frequent come first.

    How much alike the two most similar words are counts in tenths: closer is no likeness.
    """
    counts = Counter(clean_name(row.name) for row in rows if row.name)
    likeness: dict[str, float] = {}
    for name in counts:
        ratios = []
        for wanted, word in product(_words(words), _words(name)):
            ratios.append(SequenceMatcher(None, wanted, word).ratio())
        likeness[name] = round(max(ratios, default=0.0), 1)
    nearest = sorted(counts, key=lambda name: (-likeness[name], -counts[name]))
    if len(nearest) <= _MAX_NAMES:
        return nearest
    alike = [name for name in nearest if likeness[name] >= _MIN_LIKENESS]
    return alike[:_MAX_NAMES]


def _is_between(row: Row, since: str, until: str) -> bool:
    """Whether a row lies between two dates as precise as they are written; one undated always."""
    if row.local_time is None:
        return True
    start = date_text(row.local_time)
    end = date_text(row.local_end) if row.local_end else start
    return (not since or end[: len(since)] >= since) and (
        not until or start[: len(until)] <= until
    )
