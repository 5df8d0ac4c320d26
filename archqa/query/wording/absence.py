"""What an answer says where no row passes the limits: what was searched, and what there is instead.

One limit after the other is left out of the query. Rows that are there without it answer the
question: what was stopped is not taken currently, a negative test is no positive one.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from archqa.query.execution.findings import Gap, QueryResult
from archqa.query.execution.histories import allergy_statement
from archqa.query.execution.named_rows import concepts_named, is_concept_name
from archqa.query.execution.rows import Row, extreme_rows
from archqa.query.execution.statuses import row_state
from archqa.query.kinds import KINDS, LISTS
from archqa.query.model import Query, ReturnedField, RowKind
from archqa.query.scope import When
from archqa.query.wording.allergies import no_allergy_part, with_denials
from archqa.query.wording.details import (
    Execute,
    Part,
    Says,
    Searched,
    Statement,
    by_label,
    lacks_what_is_asked,
    latest_first,
)
from archqa.query.wording.measured_states import part_by_values
from archqa.query.wording.rows import row_statements, row_text, value_text
from archqa.query.wording.summaries import span_text
from archqa.query.wording.support import Support
from archqa.query.wording.words import (
    MEASURED,
    asked_names,
    asserts,
    counted,
    counted_results,
    counted_rows,
    death_text,
    field_words,
    listed,
    row_label,
    row_words,
    sentence_case,
    subject,
    without_marks,
)
from archqa.terminology.codes import matches_code, measurements_coded
from archqa.terminology.concepts import concept_named, related
from archqa.terminology.labels import measurements_near
from archqa.terminology.words import word_list

_ASSERTING = frozenset({"diagnosis", "medication", "procedure", "device"})
"""Kinds whose rows say yes; results may say either."""

_NAMED_BY_CONCEPT = frozenset({"diagnosis", "procedure", "device"})
"""Kinds whose concepts name rows of other kinds, too: dialysis, pacemaker, homelessness."""

_RESULTS = frozenset({"observation", "microbiology_test"})
_GENERIC = word_list("end of a concept")
"""Words at the end of a concept's name that rows of another kind need not have."""

_UNRECORDED_LIMITS: dict[str, tuple[ReturnedField, str]] = {
    "reasons": ("reason", "For what is not recorded: "),
    "routes": ("route", "By which route is not recorded: "),
}
"""Limits on facts that rows often lack, the fact, and how rows that lack it are introduced."""

_SHOWN = 5
_SIMILAR = 3
"""Similar results that are named where the one that is asked for is absent."""


def absent_part(
    query: Query, result: QueryResult, support: Support, execute: Execute | None
) -> Part:
    """Return what there is instead of rows that pass all limits; else that there are none."""
    if result.gaps:
        return Part(is_found=False)
    if execute is None:
        searched = "; ".join(result.searched)
        return _nothing(query, f"Searched: {searched}." if searched else "")
    by_values = part_by_values(query, support, execute)
    if by_values is not None:
        return by_values
    for limit in LISTS["limits_that_answer"]:
        if getattr(query, limit) not in {None, ()}:
            wider = _without(query, limit)
            if limit == "value":  # A position is one among the rows that pass.
                when = query.when.model_copy(update={"position": None})
                wider = wider.model_copy(update={"when": when})
            rows = execute(wider).chosen
            if rows:
                if limit == "value" and any(row.interval for row in result.undecided):
                    return _undecided_value(query, result, support)
                return _within_other_limits(query, limit, wider, rows, support)
    unknown = (
        _without_number(query, execute)
        or _unrecorded(query, support, execute)
        or _ungrown(query, support, execute)
        or _at_other_visits(query, support, execute)
    )
    if unknown is not None:
        return unknown
    plain = _without(query, *LISTS["limits_that_answer"])
    if plain != query and not execute(plain).chosen:
        query = plain  # There is nothing of it, current or not, high or low.
    return _at_other_times(query, execute) or _established_absence(
        query, result, support, execute
    )


def _established_absence(
    query: Query, result: QueryResult, support: Support, execute: Execute
) -> Part:
    """Rows of other kinds that tell of it; else that there is nothing, and what is similar."""
    nothing = _nothing(query, searched=_searched(query, execute))
    other = _under_other_kinds(query, nothing, support, execute)
    if query.what == "allergy" and other is None:
        other = no_allergy_part(query, result, support, execute)
    elif query.what == "allergy" and other is not None:
        other = with_denials(other, query, other.rows, support, execute)
    if other is not None:
        return other
    notes = _limits_of_the_search(query, execute)
    similar = _similar_results(query, execute)
    if similar:
        texts = []
        for row in similar:
            texts.append(row_text(_all_results(query), row, support))
        notes = (f"Not counted as the same: {listed(texts)}.", *notes)
    return nothing._replace(notes=notes, rows=tuple(similar))


def _at_other_times(query: Query, execute: Execute) -> Part | None:
    """How many rows there are outside of the time that is asked for."""
    if not query.when.spans and query.when.visit is None:
        return None
    rows = execute(_without(query, "when")).chosen
    if not rows:
        return None
    verb = "is" if len(rows) == 1 else "are"
    text = f"At other times there {verb} {counted_rows(query, len(rows))}"
    if span := span_text(rows):
        text = f"{text}, {span}"
    return _nothing(query, f"{text}.")


def nothing_text(subject_text: str, searched: Sequence[Searched]) -> str:
    """Return `No warfarin is recorded: 38 medication orders and 12 doses given were searched.`"""
    text = f"No {subject_text} is recorded"
    total = 0
    present: list[str] = []
    absent: list[str] = []
    for rows in searched:
        total += rows.number
        (present if rows.number else absent).append(rows.text)
    parts = []
    if present:
        verb = "was" if total == 1 else "were"
        parts.append(f"{listed(present)} {verb} searched")
    if absent:
        parts.append(f"the record has {listed(absent)}")
    return f"{text}: {'; '.join(parts)}." if parts else f"{text}."


def _similar_results(query: Query, execute: Execute) -> list[Row]:
    """The newest result of each label that shares words with the measurements of a query."""
    if query.what not in MEASURED or not query.concepts:
        return []
    names = {*query.concepts, *_parts(query.concepts)}
    similar: dict[str, Row] = {}
    for row in execute(_all_results(query)).rows:
        near: set[str] = set()
        for label in row.names:
            near.update(concept.name for concept in measurements_near(label))
        if not names.isdisjoint(near) and (row.value is not None or row.text):
            similar[row.name] = row
    return latest_first(list(similar.values()))[:_SIMILAR]


def _parts(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        with suppress(KeyError):
            yield from concept_named("measurement", name).parts


def _all_results(query: Query) -> Query:
    return Query(what="observation", returns="value", when=query.when, now=query.now)


def _limits_of_the_search(query: Query, execute: Execute) -> tuple[str, ...]:
    """Sentences on what may be missing: resources that could not be classified or not be read."""
    if query.what not in {"lab", "vital"} or query.names or query.concepts:
        return ()
    number = len(execute(_all_results(query)).rows)
    if not number:
        return ()
    results = counted(number, "result", "results")
    verb = "is" if number == 1 else "are"
    return (f"The record has {results} that {verb} of another kind.",)


def unsearched_text(subject_text: str, gaps: Sequence[Gap]) -> str:
    """Return that nothing can be denied, as there may be rows that could not be read."""
    reasons = listed([gap.reason for gap in gaps])
    return f"{sentence_case(subject_text)} could not be searched: {reasons}."


def row_flags(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what each result in words asserts: negative, past, positive, or nothing."""
    for row in rows:
        flags = row.fact("flag")
        if row.fact("organism") and not row.text:
            yield (
                ""
                if asserts(" ".join(row.facts["organism"])) == "negative"
                else "positive"
            )
        elif "negative" in flags or "positive" in flags:
            yield "negative" if "negative" in flags else "positive"
        else:
            yield asserts(row.text)


def _without(query: Query, *limits: str) -> Query:
    fields = Query.model_fields
    return query.model_copy(update={limit: fields[limit].default for limit in limits})


def _nothing(
    query: Query, explanation: str = "", searched: tuple[Searched, ...] = ()
) -> Part:
    subject_text = f"{subject(query)} {query.when}".strip()
    message = nothing_text(subject_text, searched)
    if explanation:
        message = f"{message} {explanation}"
        subject_text = ""
    return Part(
        is_found=False,
        message=message,
        subject=subject_text,
        searched=searched,
    )


def _searched(query: Query, execute: Execute) -> tuple[Searched, ...]:
    """How many rows pass all limits but one, else how many of the kind there are, with a name or without."""
    for limit in LISTS["limits_to_leave_out"]:
        if getattr(query, limit) not in {None, ()}:
            wider = _without(query, limit)
            count = len(execute(wider).rows)
            if count:
                return (Searched(count, counted_rows(wider, count)),)
    rows = execute(_without(query, *LISTS["limits"])).rows
    words = row_words(query.what)
    if not rows:
        return (Searched(0, f"no {words.plural}"),)
    text = counted(len(rows), words.singular, words.plural)
    unnamed = sum(not _has_known_name(row) for row in rows)
    if unnamed and (query.names or query.concepts):
        text = f"{text} ({unnamed} of them without a known name)"
    return (Searched(len(rows), text),)


def _has_known_name(row: Row) -> bool:
    """Whether the record says what a row is, or its code alone does."""
    if not row.name or not row.codings:
        return bool(row.name)
    has_display = any(coding.display for coding in row.codings)
    return has_display or bool(measurements_coded(row.codings))


def _within_other_limits(
    query: Query, limit: str, wider: Query, rows: Sequence[Row], support: Support
) -> Part:
    """What the rows say that do not pass a limit; `wider` is the query without it."""
    if limit == "state":
        return _in_other_state(query, wider, rows, support)
    if limit == "flag":
        return _not_flagged(query, wider, rows)
    if query.what == "family_history":
        return _of_other_relatives(query, rows, support)
    if limit == "value":
        return _beyond_value(query, wider, rows, support)
    if query.what == "encounter":
        return _discharged_otherwise(query, wider, rows, support)
    if query.what == "not_done":
        statements = row_statements(wider, rows, support)
        return Part(statements, verdict="Not done, but not by refusal: ")
    # Results in other words than those asked for: a negative one is a no.
    statements = row_statements(wider, rows, support)
    part = Part(statements[::-1], limit=_SHOWN)
    if set(row_flags(rows)) == {"negative"}:
        return part.as_no()
    return part


def _discharged_otherwise(
    query: Query, wider: Query, rows: Sequence[Row], support: Support
) -> Part:
    """The visits that ended otherwise, as far as the record says how they ended."""
    recorded = [row for row in rows if row.fact("discharge_destination")]
    if not recorded:
        return _nothing(query, "Of no visit is recorded how it ended.")
    wider = wider.model_copy(update={"returns": "discharge_destination"})
    statements = row_statements(wider, recorded, support)
    verdict = "No, none is recorded: "
    return Part(statements, verdict=verdict, says="no", limit=_SHOWN)


def _of_other_relatives(query: Query, rows: Sequence[Row], support: Support) -> Part:
    """The condition among relatives that are not asked for, or that the record does not name."""
    unnamed = [row for row in rows if not row.fact("relative")]
    if unnamed:
        verdict = "Recorded of the family, of which relative is not recorded: "
        return Part(row_statements(query, unnamed, support), verdict=verdict)
    return _nothing(query)._replace(
        statements=row_statements(query, rows, support),
        verdict="Of another relative: ",
    )


def _in_other_state(
    query: Query, stateless: Query, rows: Sequence[Row], support: Support
) -> Part:
    """Rows that have ended where current ones are asked for, or the other way round."""
    now = datetime.fromisoformat(query.now) if query.now else None
    death = next(filter(None, map(death_text, rows)), "")
    no = "No" if query.summary == "exists" else "None"
    says: Says | None = "no" if query.summary == "exists" else None
    if death and query.state == "current":
        verdict = f"{no}: {death}. Recorded before"
        rows = list(map(_with_death, rows))
    elif any(
        row.currency is not None and row.currency.reason == "later_order"
        for row in rows
    ):
        verdict = f"{no}, by the latest order"
    elif any(row_state(query.what, row, now) == "unknown" for row in rows):
        verdict, says = "The record does not say whether this is still so", None
    elif query.summary == "exists":
        verdict = "No, not currently" if query.state == "current" else "No, not ended"
    else:
        verdict = "None currently" if query.state == "current" else "None has ended"
    statements = row_statements(stateless, rows, support)
    words = field_words().get(query.returns)
    if words is None or not all(lacks_what_is_asked(stateless, row) for row in rows):
        return Part(statements, verdict=f"{verdict}: ", says=says, limit=_SHOWN)
    message = f"{verdict}; {words.absent} is not recorded."
    return Part(statements, is_found=False, message=message, limit=_SHOWN)


def _with_death(row: Row) -> Row:
    """The row with the patient as a resource that says something about it."""
    refs = row.currency.refs if row.currency else ()
    return replace(row, context_refs=(*row.context_refs, *refs))


def _not_flagged(query: Query, plain: Query, rows: Sequence[Row]) -> Part:
    """Results of which none is marked so; those without mark and range could not be judged."""
    if not any(row.fact("flag") for row in rows):
        text = f"No {subject(plain)} is marked {query.flag}: {counted_results(rows)}"
        verb = "was" if len(rows) == 1 else "were"
        text = f"{text} {verb} searched, none with a mark or reference range"
        if len({row_label(query, row) for row in rows}) == 1:
            text = f"{text} ({_range(rows)})"
        return Part(is_found=False, message=f"{text}.", rows=tuple(rows))
    statements = []
    for label, group in by_label(rows, lambda row: row_label(query, row)):
        marked: list[Row] = []
        unmarked: list[Row] = []
        for row in group:
            (marked if row.fact("flag") else unmarked).append(row)
        texts = []
        if marked:
            none = "not" if len(marked) == 1 else "none"
            texts.append(
                f"{counted_results(marked)}, {none} marked {query.flag}: {_range(marked)}"
            )
        if unmarked:
            count = counted_results(unmarked)
            texts.append(
                f"{count} without a mark or reference range: {_range(unmarked)}"
            )
        text = f"{label}, {'; '.join(texts)}"
        statements.append(Statement(text, tuple(latest_first(group))))
    part = Part(tuple(statements))
    if query.summary == "exists":
        return part.as_no()
    return part


def _without_number(query: Query, execute: Execute) -> Part | None:
    """That no row has the number of which the extreme is asked for."""
    plain = _without(query, "extreme")
    if query.extreme is None or not execute(plain).chosen:
        return None
    message = f"No number is recorded for {subject(plain)}."
    return Part(is_found=False, message=message)


def _undecided_value(query: Query, result: QueryResult, support: Support) -> Part:
    """The bounds and ranges of which the record does not say whether they pass a limit."""
    rows = [row for row in result.undecided if row.interval is not None]
    plain = _without(query, "value").model_copy(update={"summary": "each", "per": None})
    statements = row_statements(plain, rows, support)
    verb = "this is" if len(rows) == 1 else "these are"
    verdict = f"Cannot be told: {verb} only recorded as a bound or a range, and none is certainly {query.value}: "
    return Part(statements[::-1], verdict=verdict, limit=_SHOWN)


def _beyond_value(
    query: Query, plain: Query, rows: Sequence[Row], support: Support
) -> Part:
    """The values that come nearest to the number that none reaches."""
    test = query.value
    comparable = [row for row in rows if row.interval is not None]
    if test is None or not comparable:
        return Part(
            is_found=False,
            message=f"No number is recorded for {subject(plain)}.",
        )
    if test.comparison == "equal":
        decisive = [min(comparable, key=lambda row: _distance(row, test.number))]
    elif test.comparison in {"less", "at_most"}:
        decisive, _ = extreme_rows(comparable, "minimum")
    else:
        decisive, _ = extreme_rows(comparable, "maximum")
    nearest_text = row_statements(plain, decisive[-1:], support)[0].text
    is_yes_no = query.summary == "exists"
    none = "none" if is_yes_no else "None"
    results = counted(len(comparable), "result", "results")
    text = f"{none} of {results} is {test}; the nearest is {nearest_text}"
    part = Part((Statement(text, tuple(decisive)),))
    return part.as_no() if is_yes_no else part


def _distance(row: Row, number: float) -> float:
    interval = row.interval
    if interval is None:
        return math.inf
    return min(abs(interval.low - number), abs(interval.high - number))


def _unrecorded(query: Query, support: Support, execute: Execute) -> Part | None:
    """Rows of which the record does not say whether they pass a limit: no reason, no route."""
    for limit, (fact, verdict) in _UNRECORDED_LIMITS.items():
        if not getattr(query, limit) or not (query.names or query.concepts):
            continue
        wider = _without(query, limit)
        rows = execute(
            wider.model_copy(update={"returns": fact, "summary": "each", "per": None})
        ).chosen
        if rows and not any(row.fact(fact) for row in rows):
            statements = row_statements(wider, rows, support)
            return Part(statements, verdict=verdict, limit=_SHOWN)
    return None


def _ungrown(query: Query, support: Support, execute: Execute) -> Part | None:
    """Cultures in which nothing grew, where one in which something did is asked for."""
    if not query.grew and query.what != "organism":
        return None
    changes = {
        "what": "microbiology_test",
        "grew": None,
        "returns": "value",
        "summary": "each",
        "per": None,
    }
    tests = query.model_copy(update=changes)
    rows = execute(tests).chosen
    if not rows:
        return None
    part = Part(row_statements(tests, rows, support), limit=_SHOWN)
    if query.summary == "exists":
        return part.as_no("No, nothing grew: ")
    return part._replace(verdict="Nothing grew: ")


def _at_other_visits(query: Query, support: Support, execute: Execute) -> Part | None:
    """The last result, where none is of the visit that is asked for."""
    if query.companion is None or query.companion.what != "encounter":
        return None
    if query.what not in MEASURED or query.when.spans:
        return None
    last = _without(query, "companion").model_copy(
        update={"when": When(position="last")}
    )
    rows = execute(last).chosen
    if not rows:
        return None
    statements = row_statements(last, rows, support)
    return Part(statements, verdict="Not at that visit; the last result: ")


def _under_other_kinds(
    query: Query, nothing: Part, support: Support, execute: Execute
) -> Part | None:
    """Rows of another kind that tell of it, else what is like it, or is so of a relative."""
    near = list(_queries_for_what_is_near(query))
    similar = _first_statements(near, support, execute)
    for other in _queries_under_other_kinds(query):
        rows = _rows_on_it(other, execute)
        if not rows:
            continue
        verdict, says = _verdict_of_other_kind(query, nothing, other, rows)
        if similar and not says:
            break
        return Part(
            row_statements(other, rows, support),
            verdict=verdict,
            says=says,
            rows=tuple(rows),
            limit=_SHOWN,
            is_series=True,
        )
    if similar:
        return nothing._replace(
            statements=similar, verdict="Not the same, but recorded: ", limit=_SHOWN
        )
    if query.what == "diagnosis" and asked_names(query):
        family = query.model_copy(
            update={"what": "family_history", "returns": "value", "state": None}
        )
        of_family = _first_statements([family], support, execute)
        if of_family:
            return nothing._replace(
                statements=of_family, verdict="But of the family: ", limit=_SHOWN
            )
    return None


def _rows_on_it(query: Query, execute: Execute) -> Sequence[Row]:
    """The rows of another kind; of diagnoses on allergies, those that state one."""
    rows = execute(query).chosen
    if query.what != "diagnosis":
        return rows
    return [row for row in rows if allergy_statement(row).kind == "allergy"]


def _verdict_of_other_kind(
    query: Query, nothing: Part, other: Query, rows: Sequence[Row]
) -> tuple[str, Says | None]:
    """How the rows of another kind answer, and whether that is a yes."""
    if other.what in _ASSERTING:
        return f"By {row_words(other.what).plural}: ", "yes"
    # A result may name what is asked for: the housing status "Homeless".
    newest = latest_first(rows)[0]
    for concept in concepts_named(query.concepts, KINDS[query.what].concepts):
        if matches_code(concept, None, None, newest.text):
            return "Yes: " if query.summary == "exists" else "By results: ", "yes"
    words = row_words(other.what).plural
    return f"{nothing.message.rstrip('.')}, but there are {words} on it: ", None


def _first_statements(
    queries: Sequence[Query], support: Support, execute: Execute
) -> tuple[Statement, ...]:
    """The statements of the first query that has rows."""
    for query in queries:
        rows = execute(query).chosen
        if rows:
            return row_statements(query, rows, support)
    return ()


def _queries_for_what_is_near(query: Query) -> Iterator[Query]:
    """Yield queries for what people confuse with it: prediabetes, a PICC line for a port."""
    names: list[str] = []
    for name in query.concepts:
        names += related("not the same").get(name, ())
    if names:
        for what in (query.what, *KINDS[query.what].also_under):
            yield _query_of_kind(query, what, names)


def _queries_under_other_kinds(query: Query) -> Iterator[Query]:
    """Yield queries for what a query names, among rows of other kinds, in the same spans of time."""
    if query.summary == "count":
        for name in query.concepts:
            counted_by = related(f"{query.what} counted by observation").get(name, ())
            if counted_by:
                yield _query_of_kind(query, "observation", counted_by)
        return
    if query.summary not in {"exists", "each"}:
        return
    names = [*map(_without_kind, query.concepts), *map(without_marks, query.names)]
    for what in KINDS[query.what].also_under:
        wanted: list[str] = []
        for name in (*query.concepts, *query.names):
            wanted += related(f"{query.what} by {what}").get(name, ())
        if query.what == "allergy":
            wanted = [f"allergy {name}" for name in names] or ["allergy"]
        elif query.what in _NAMED_BY_CONCEPT and what != "report":
            wanted += query.concepts
            if what not in {"diagnosis", "observation"}:
                wanted += names
        elif query.what != "medication" and what != "diagnosis":
            wanted += names
        if wanted:
            yield _query_of_kind(query, what, wanted)


def _query_of_kind(query: Query, what: RowKind, wanted: Sequence[str]) -> Query:
    """The query for rows of another kind, by concepts and, for what is none, by names."""
    names: list[str] = []
    concepts: list[str] = []
    for name in wanted:
        (concepts if is_concept_name(name) else names).append(name)
    return Query(
        what=what,
        names=tuple(names),
        concepts=tuple(concepts),
        when=query.when.model_copy(update={"position": None}),
        returns="value" if what in _RESULTS else "time",
        now=query.now,
    )


def _without_kind(concept: str) -> str:
    """The name of a concept without the word that tells its kind."""
    words = concept.split()
    return " ".join(words[:-1]) if len(words) > 1 and words[-1] in _GENERIC else concept


def _range(rows: Sequence[Row]) -> str:
    """The lowest and highest of the values, and the time that they cover."""
    numbers = []
    for row in rows:
        if row.value is not None:
            numbers.append(row)
    numbers.sort(key=lambda row: row.value or 0)
    span = span_text(rows)
    if not numbers:
        return span
    low, high = value_text(numbers[0]), value_text(numbers[-1])
    values = low if low == high else f"{low} to {high}"
    return f"{values}, {span}" if span else values
