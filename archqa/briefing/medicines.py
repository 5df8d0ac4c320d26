"""Current medicines: as last ordered, and what changed against the order before."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from archqa.asking.record_words import counted, date_text, number_text, row_status
from archqa.briefing.drafts import LineDraft, SectionDraft, draft_of_rows
from archqa.briefing.note_lines import citations_of, quoted
from archqa.briefing.patient_rows import (
    PatientRows,
    groups_of,
    is_older,
    last_day,
    whole_name,
    without_closed,
)
from archqa.briefing.problems import old_message
from archqa.briefing.said_of_drugs import said_otherwise
from archqa.query.execution.rows import Row
from archqa.terminology.drugs import ingredients_of

MAX_MEDICINES = 30
MAX_LAST_ORDERS = 15
OLD_AFTER_YEARS = 5
RECORDED_AS_CURRENT = "What the record has as current; it does not say what is taken."
NONE_CURRENT = "No medicine is recorded as current. The last orders:"

_RANGE = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)")
_FLUSH = re.compile(r"\bflush\b", re.IGNORECASE)
_SINGLE_DOSE = {"once", "once, at once"}
_DATED = {"MedicationStatement": "stated", "MedicationDispense": "dispensed"}
"""The word before the date of what is no order."""


class _Regimen(NamedTuple):
    """What an order prescribes: the product and how it is taken."""

    product: str
    dose: tuple[str, ...]


def medicines(patient: PatientRows) -> SectionDraft:
    """Return a line for each current product, the one ordered last first; old orders come last.

    A later order of the product that ended closes the ones before it. A newer note that says that
    the drug is not taken, or at another dose, is quoted beside. Where no product is current, what
    was ordered last, with the date of its end.
    """
    rows = _named_rows(patient)
    current = current_rows(patient)
    if not current:
        return _last_orders(patient, rows)
    limit = patient.now.year - OLD_AFTER_YEARS
    groups = _newest_first(groups_of(current, _product))
    groups.sort(key=lambda group: is_older(group, limit))
    lines = [_current_line(patient, group, rows, groups, limit) for group in groups]
    rest = len(lines) - MAX_MEDICINES
    more = f"{counted(rest, 'more is', 'more are')} recorded." if rest > 0 else ""
    old = sum(is_older(group, limit) for group in groups[:MAX_MEDICINES])
    messages = (RECORDED_AS_CURRENT, old_message(old, "ordered", limit), more)
    return SectionDraft(tuple(lines[:MAX_MEDICINES]), " ".join(filter(None, messages)))


def current_rows(patient: PatientRows) -> list[Row]:
    """Return the rows of medicines that are current, oldest first within a product."""
    rows = without_closed(patient, "medication", _named_rows(patient), _product)
    return [row for row in rows if patient.state("medication", row) == "current"]


def _named_rows(patient: PatientRows) -> list[Row]:
    return [row for row in patient.rows("medication") if row.name and not _is_passing(row)]


def _is_passing(row: Row) -> bool:
    """Whether a row is a single dose, or the flush of a line: nobody is on it."""
    is_single = not _SINGLE_DOSE.isdisjoint(row.facts.get("frequency", ()))
    return is_single or _FLUSH.search(row.name) is not None


def _current_line(
    patient: PatientRows,
    group: Sequence[Row],
    rows: Sequence[Row],
    groups: Sequence[Sequence[Row]],
    limit: int,
) -> LineDraft:
    line = _line(patient, group[-1], rows, groups)
    if is_older(group, limit):
        line = line._replace(text=f"{line.text} (never ended in the record)")
    note = said_otherwise(patient, group[-1])
    if note is None:
        return line
    cited = tuple(dict.fromkeys((*line.citations, *citations_of(note))))
    return line._replace(text=f"{line.text}; a newer note says: {quoted(note)}", citations=cited)


def _last_orders(patient: PatientRows, rows: list[Row]) -> SectionDraft:
    single = [row for row in rows if row.ingredient_count == 1]
    groups = _newest_first(groups_of(single, _product))
    lines = [_ended_line(patient, group[-1]) for group in groups[:MAX_LAST_ORDERS]]
    return SectionDraft(tuple(lines), NONE_CURRENT if lines else "")


def _ended_line(patient: PatientRows, row: Row) -> LineDraft:
    end = patient.end_date(row)
    parts = [_regimen_text(row), _ordered(patient, row), _start(patient, row)]
    parts.append(f"until {end}" if end else "")
    text = ", ".join(filter(None, parts))
    status = row_status(row)
    return draft_of_rows(f"{text} ({status})" if status else text, [row])


def _line(
    patient: PatientRows, latest: Row, rows: Sequence[Row], current: Sequence[Sequence[Row]]
) -> LineDraft:
    """The product as last ordered, its status, and what changed."""
    same, before = _run(latest, rows)
    parts = [_regimen_text(latest), _ordered(patient, latest, is_last=len(same) > 1)]
    text = ", ".join(filter(None, [*parts, _start(patient, latest)]))
    status = row_status(latest)
    text = f"{text} ({status})" if status else text
    cited = [latest]
    if before is not None and not _is_beside(before, same, current):
        since = f"the same in {len(same)} orders since {_order_date(patient, same[-1])}, "
        text = f"{text}; {since if len(same) > 1 else ''}the order before: {_regimen_text(before)}"
        text = f"{text}, {_ordered(patient, before)}"
        cited = [*same, before] if len(same) > 1 else [latest, before]
    elif len(same) > 1:
        text = f"{text}; the same in {len(same)} orders since {_order_date(patient, same[-1])}"
        cited = same
    return draft_of_rows(text, _unique(cited))


def _run(latest: Row, rows: Sequence[Row]) -> tuple[list[Row], Row | None]:
    """The latest orders that are alike, newest first, and the order before them."""
    history = [row for row in rows if _substance(row) == _substance(latest)]
    history = [row for row in history if row.time and _day(row) <= _day(latest)]
    history.sort(key=_moment, reverse=True)
    same: list[Row] = []
    for row in history:
        if _regimen(row) == _regimen(latest):
            same.append(row)
        elif not same or _day(row) != _day(same[-1]):  # Else ordered together.
            return same or [latest], row
    return same or [latest], None


def _day(row: Row) -> str:
    return date_text(row.time) if row.time else ""


def _moment(row: Row) -> str:
    return row.local_time.isoformat() if row.local_time else ""


def _is_beside(before: Row, same: Sequence[Row], current: Sequence[Sequence[Row]]) -> bool:
    """Whether the other product is itself current: then it was added, and not changed."""
    return any(_product(group[-1]) == _product(before) for group in current) and (
        _product(before) != _product(same[0])
    )


def _newest_first(groups: list[list[Row]]) -> list[list[Row]]:
    groups.sort(key=lambda group: whole_name(group[0].name).casefold())
    groups.sort(key=last_day, reverse=True)
    return groups


def _regimen_text(row: Row) -> str:
    return ", ".join([whole_name(row.name), *_dose_texts(row)])


def _dose_texts(row: Row) -> Iterator[str]:
    """Dose, route and frequency as ordered; of a mixture not, where they are the mixture's."""
    if row.ingredient_count > 1:
        yield "in a mixture"
        return
    has_dose = row.value is not None and bool(row.unit)
    if row.value is not None and row.unit:
        yield f"dose {_amount(row)} {row.unit}"
    frequency = row.facts.get("frequency", ())
    routes = row.facts.get("route", ())
    if routes:
        yield f"route {whole_name(routes[-1])}"
    yield from frequency
    if not has_dose and not frequency:
        yield from (f"instruction: {text}" for text in row.facts.get("dosage", ()))


def _amount(row: Row) -> str:
    """The dose as a number, or the range that was ordered."""
    bounds = _RANGE.fullmatch(row.text)
    if bounds is None:
        return number_text(row.value or 0)
    return "-".join(number_text(float(bound)) for bound in bounds.groups())


def _ordered(patient: PatientRows, row: Row, *, is_last: bool = False) -> str:
    word = _DATED.get(row.refs[0].partition("/")[0], "ordered")
    date = _order_date(patient, row)
    if not date:
        return f"{word}, date not recorded"
    return f"last {word} {date}" if is_last else f"{word} {date}"


def _order_date(patient: PatientRows, row: Row) -> str:
    """The date on which an order was written, else that of its start."""
    return patient.support.date(row, row.authored_on or row.time)


def _start(patient: PatientRows, row: Row) -> str:
    """The start of an order that was written on another day; empty for the same."""
    start = patient.date(row)
    return f"from {start}" if start and start != _order_date(patient, row) else ""


def _product(row: Row) -> str:
    return " ".join(whole_name(row.name).casefold().split())


def _substance(row: Row) -> tuple[str, ...]:
    return tuple(sorted(ingredients_of(row.name))) or (_product(row),)


def _regimen(row: Row) -> _Regimen:
    return _Regimen(_product(row), tuple(_dose_texts(row)))


def _unique(rows: Iterable[Row]) -> list[Row]:
    by_ref = {row.refs: row for row in rows}
    return list(by_ref.values())
