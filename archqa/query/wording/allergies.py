"""What a record says of there being no allergy: that none is known, or that nobody could tell."""

from collections.abc import Sequence
from datetime import datetime

from archqa.query.execution.findings import QueryResult
from archqa.query.execution.histories import (
    allergy_statement,
    contradicts,
    covers,
)
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import is_fact, row_state
from archqa.query.model import Query
from archqa.query.wording.details import Execute, Part, Statement
from archqa.query.wording.support import Support
from archqa.query.wording.words import asked_names, clean_name, short_words, subject


def denial_text(row: Row, support: Support) -> str:
    """Return `No known drug allergies are recorded (stated on 2024-03-05, as “NKDA”)`."""
    statement = allergy_statement(row)
    date = support.date(row, row.time)
    stated = f"stated on {date}" if date else "date not recorded"
    name = clean_name(row.name)
    if statement.kind == "not_assessed":
        text = f"Whether there are allergies is not known: “{name}” is recorded"
        return f"{text} ({stated})"
    known = short_words("no allergy").get(statement.scope, name)
    verb = "are" if known.endswith("allergies") else "is"
    is_code = row.name.islower() and " " not in row.name
    if not is_code and name.casefold() != known.casefold():
        stated = f"{stated}, as “{name}”"
    return f"{known} {verb} recorded ({stated})"


def _limited_text(row: Row, support: Support) -> str:
    """The text of a denial, and that it is about some substances only."""
    text = denial_text(row, support)
    statement = allergy_statement(row)
    if statement.kind == "not_assessed" or statement.scope == "all":
        return text
    return f"{text}, which says nothing of others"


def _denials(result: QueryResult) -> list[Row]:
    """The rows by which there is no allergy, or nobody could tell, and that have not ended."""
    rows = []
    for row in reversed(result.left_out):
        is_denial = is_fact("allergy", row) and allergy_statement(row).kind != "allergy"
        if is_denial and not _has_ended(result.query, row):
            rows.append(row)
    return rows


def _has_ended(query: Query, row: Row) -> bool:
    now = datetime.fromisoformat(query.now) if query.now else None
    return row_state("allergy", row, now) == "ended"


def _without_names(query: Query) -> Query:
    changes = {"names": (), "concepts": (), "state": None}
    return query.model_copy(update=changes)


def with_denials(
    part: Part, query: Query, rows: Sequence[Row], support: Support, execute: Execute
) -> Part:
    """Return a part about allergies, followed by what the record says against them."""
    current = [row for row in rows if not _has_ended(query, row)]
    statements = list(part.statements)
    for denial in _denials(execute(_without_names(query))):
        scope = allergy_statement(denial).scope
        contradicted = [row for row in current if contradicts(row, scope)]
        if asked_names(query) and not contradicted:
            continue
        lead = ""
        if contradicted:
            times = [row.local_time for row in contradicted if row.local_time]
            is_older = denial.local_time and times and denial.local_time < max(times)
            lead = "Before that: " if is_older else "Against this: "
        text = f"{lead}{_limited_text(denial, support)}"
        statements.append(Statement(text, (denial,)))
    return part._replace(statements=tuple(statements))


def no_allergy_part(
    query: Query, result: QueryResult, support: Support, execute: Execute
) -> Part | None:
    """Return what a record says of there being no such allergy; None if it says nothing."""
    everything = execute(_without_names(query))
    is_named = bool(asked_names(query))
    decisive = _refutations(result, support)
    undecided: list[Statement] = []
    named_denials = _denials(result)
    general_denials = [row for row in _denials(everything) if row not in named_denials]
    for row in (*named_denials, *general_denials):
        statement = allergy_statement(row)
        if statement.scope == "named":
            is_decisive = row in named_denials
        elif is_named:
            is_contradicted = any(
                contradicts(other, statement.scope) for other in everything.chosen
            )
            is_decisive = (
                statement.kind == "denied"
                and covers(statement.scope, query.concepts)
                and not is_contradicted
            )
        else:
            is_decisive = True
        if is_decisive and is_named:
            text = denial_text(row, support)
            decisive.append(Statement(text[:1].lower() + text[1:], (row,)))
        else:
            text = _limited_text(row, support)
            (decisive if is_decisive else undecided).append(Statement(text, (row,)))
    if decisive:
        part = Part((*decisive, *undecided))
        return part.as_no() if is_named else part
    if undecided and is_named:
        message = f"No {subject(query)} is recorded."
        return Part(tuple(undecided), is_found=False, message=message)
    return None


def _refutations(result: QueryResult, support: Support) -> list[Statement]:
    """The allergies that were looked into and are none."""
    statements = []
    for row in result.left_out:
        if is_fact("allergy", row):
            continue
        date = support.date(row, row.time) or "date not recorded"
        name = clean_name(row.name)
        statements.append(Statement(f"{name} is recorded as refuted ({date})", (row,)))
    return statements
