"""Current medicines as last ordered, what changed, and what newer notes say of them."""

import re
from collections.abc import Sequence
from functools import cache

from archqa.briefing.allergies import is_allergy_line
from archqa.briefing.notes import (
    NoteLine,
    NoteSentence,
    patient_notes,
    quote,
    with_note,
)
from archqa.briefing.patient_rows import (
    LineDraft,
    PatientRows,
    SectionDraft,
    draft_of_rows,
    is_older,
    newest_groups,
    whole_name,
    with_one_major,
)
from archqa.briefing.verification import named_drugs
from archqa.notes.sections import section_kind, section_label
from archqa.query.execution.currency import OLD_AFTER_YEARS, is_single_dose
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import row_state
from archqa.query.wording.details import strength_text
from archqa.query.wording.words import (
    date_text,
    dated_word,
    death_text,
    drug_status,
    number_text,
    sentence_case,
)
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import find_concepts
from archqa.terminology.cues import cue_pattern
from archqa.terminology.drugs import ingredients_of

RECORDED_AS_CURRENT = "What the record has as current; it does not say what is taken."
LAST_ORDERS = 3
"""Orders that are shown where all are old and none is current."""

NONE_CURRENT = "No medicine order is current. The last orders:"

_RANGE = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)")
_FLUSH = re.compile(r"\bflush\b", re.IGNORECASE)
_AMOUNT = r"(\d+(?:\.\d+)?)"
_DOSE = re.compile(
    rf"(?<![\d/.,]){_AMOUNT} ?(mg|mcg|g|units?)\b(?! ?/ ?d?l\b)", re.IGNORECASE
)
_WORDS_TO_DOSE = 3


def medicines(patient: PatientRows) -> SectionDraft:
    """Return a line for each current product, the one ordered last first; old orders come last.

    A later order of the product that ended closes the ones before it. A newer note that says that
    the drug is not taken, or at another dose, is quoted at the end. Where no product is current,
    what was ordered last, with the date of its end.
    """
    rows = _named_rows(patient)
    current = current_rows(patient)
    if not current:
        single = [row for row in rows if row.ingredient_count == 1]
        groups = newest_groups(single, _product)
        year = patient.now.year - OLD_AFTER_YEARS
        recent = [group for group in groups if not is_older(group, year)]
        lines = []
        for group in recent or groups[:LAST_ORDERS]:
            row = group[-1]
            parts = [*_regimen(row), *_order_dates(patient, row)]
            end = patient.end_date(row)
            if end:
                parts.append(f"until {end}")
            line = draft_of_rows(", ".join(parts), [row])
            is_supportive = cue_pattern("name", "supportive").search(row.name)
            is_minor = bool(is_supportive) or _is_fluid(row)
            line = line._replace(is_minor=is_minor)
            status = drug_status(row)
            lines.append(line.with_remark(status) if status else line)
        death = next(filter(None, map(death_text, rows)), "")
        message = f"{sentence_case(death)}. The last orders:" if death else NONE_CURRENT
        lines = with_one_major(lines)
        return SectionDraft(tuple(lines), message if lines else "")
    groups = newest_groups(current, _product)
    groups.sort(key=_is_old)
    products = set(map(_product, current))
    lines = []
    old_count = 0
    for group in groups:
        line = _order_line(patient, group[-1], rows, products)
        line = line._replace(is_minor=_is_fluid(group[-1]))
        old_count += _is_old(group)
        note = _contradicting_note(patient, group[-1])
        lines.append(with_note(line, "a newer note says", note))
    messages = [RECORDED_AS_CURRENT]
    if old_count:
        verb = "was" if old_count == 1 else "were"
        place = ": at the end" if old_count < len(groups) else ""
        messages.append(
            f"{old_count} {verb} ordered more than {OLD_AFTER_YEARS} years ago{place}."
        )
    return SectionDraft(tuple(lines), " ".join(filter(None, messages)))


def medicine_changes(patient: PatientRows) -> SectionDraft:
    """Return the lines of the last 24 months that say a change of a medicine, newest first.

    A line that states an allergy is none.
    """
    notes = patient_notes(patient)
    cue = cue_pattern("medicine", "change")

    def says_change(part: NoteSentence) -> bool:
        return cue.search(part.text) is not None and bool(named_drugs(part.text))

    changes = []
    for line in notes.lines_where(notes.recent_lines, says_change):
        if not is_allergy_line(line):
            changes.append(line)
    return _quoted_section(changes, "As written; the list of orders may not show it.")


def medicines_in_notes(patient: PatientRows) -> SectionDraft:
    """Return the lines of the newest list of medicines that name one without a current order."""
    notes = patient_notes(patient)
    listing: list[NoteLine] = []
    for line in notes.recent_lines:
        kinds = {section_kind(line.heading), section_kind(section_label(line.text))}
        if "medications" in kinds and not is_allergy_line(line):
            listing.append(line)
    listing = notes.lines_where(listing, lambda part: bool(named_drugs(part.text)))
    ordered: set[str] = set()
    for row in current_rows(patient):
        ordered |= named_drugs(row.name)
    unordered = []
    for line in listing:
        if line.document == listing[0].document and _taken_drugs(line) - ordered:
            unordered.append(line)
    return _quoted_section(
        unordered, "From the newest list of medicines in a note, as written."
    )


def _quoted_section(lines: list[NoteLine], message: str) -> SectionDraft:
    return SectionDraft(tuple(map(quote, lines)), message if lines else "")


def _taken_drugs(line: NoteLine) -> set[str]:
    """The drugs of a line but those that it says are not taken."""
    from archqa.asking.chart.statement_conflicts import (
        is_taken,
    )  # Only where notes list drugs.

    drugs = named_drugs(line.text)
    for match in find_concepts(line.text):
        if match.concept.kind == "drug" and is_taken(match.concept, line.text) is False:
            drugs -= named_drugs(match.concept.name)
    return drugs


def current_rows(patient: PatientRows) -> list[Row]:
    """Return the rows of medicines that are current, oldest first within a product."""
    return [
        row
        for row in _named_rows(patient)
        if row_state("medication", row, patient.now) == "current"
    ]


def _is_old(rows: Sequence[Row]) -> bool:
    """Whether no order of a product is newer than those that may have been forgotten."""
    return all(
        row.currency is not None and row.currency.reason == "never_ended"
        for row in rows
    )


def _named_rows(patient: PatientRows) -> list[Row]:
    """The rows of medicines, without single doses and flushes of a line: nobody is on them."""
    rows = []
    for row in patient.rows("medication"):
        if row.name and not is_single_dose(row) and not _FLUSH.search(row.name):
            rows.append(row)
    return rows


def _is_fluid(row: Row) -> bool:
    """Whether an order is of what carries or goes with others: saline, a local anesthetic."""
    return cue_pattern("name", "fluid").search(row.name) is not None


def _order_line(
    patient: PatientRows, latest: Row, rows: Sequence[Row], products: set[str]
) -> LineDraft:
    """The product as last ordered, its status, and what changed; `products` are the current ones."""
    same, before = _orders_alike(latest, rows)
    is_repeated = len(same) > 1
    parts = [*_regimen(latest), *_order_dates(patient, latest, is_last=is_repeated)]
    text = ", ".join(parts)
    status = drug_status(latest)
    if status:
        text = f"{text} ({status})"
    rows_of_line = same if is_repeated else [latest]
    if is_repeated:
        since = patient.support.date(same[-1], same[-1].authored_on or same[-1].time)
        text = f"{text}; the same in {len(same)} orders since {since}"
    if before is not None:
        # Another product that is itself current was added, and not changed.
        is_added = _product(before) in products and _product(before) != _product(
            same[0]
        )
        if not is_added:
            order_before = ", ".join(
                [*_regimen(before), _order_dates(patient, before)[0]]
            )
            text = (
                f"{text}{',' if is_repeated else ';'} the order before: {order_before}"
            )
            rows_of_line = [*rows_of_line, before]
    unique = {row.refs: row for row in rows_of_line}
    return draft_of_rows(text, unique.values())


def _orders_alike(latest: Row, rows: Sequence[Row]) -> tuple[list[Row], Row | None]:
    """The latest orders that are alike, newest first, and the order before them."""
    latest_day = _day(latest)
    history = []
    for row in rows:
        if (
            row.time
            and _substance(row) == _substance(latest)
            and _day(row) <= latest_day
        ):
            history.append(row)
    history.sort(
        key=lambda row: row.local_time.isoformat() if row.local_time else "",
        reverse=True,
    )
    same: list[Row] = []
    next_year = latest.time.year if latest.time else 0
    for row in history:
        year = row.time.year if row.time else next_year
        if next_year - year > OLD_AFTER_YEARS:
            break  # A treatment of another time of life.
        next_year = year
        if _product(row) == _product(latest) and _dose_texts(row) == _dose_texts(
            latest
        ):
            same.append(row)
        elif not same or _day(row) != _day(same[-1]):  # Else ordered together.
            return same or [latest], row
    return same or [latest], None


def _day(row: Row) -> str:
    return date_text(row.time) if row.time else ""


def _regimen(row: Row) -> list[str]:
    """What an order prescribes: the product and how it is taken."""
    name = f"{whole_name(row.name)} {strength_text(row)}".rstrip()
    return [name, *_dose_texts(row)]


def _dose_texts(row: Row) -> list[str]:
    """Dose, route and frequency as ordered; of a mixture not, where they are the mixture's."""
    if row.ingredient_count > 1:
        return ["in a mixture"]
    texts = []
    has_dose = row.value is not None and bool(row.unit)
    if has_dose:
        bounds = _RANGE.fullmatch(row.text)
        amount = number_text(row.value or 0)
        if bounds:
            amount = "-".join(map(number_text, map(float, bounds.groups())))
        texts.append(f"dose {amount} {row.unit}")
    routes = row.facts.get("route", ())
    if routes:
        texts.append(f"route {whole_name(routes[-1])}")
    frequency = row.facts.get("frequency", ())
    texts += frequency
    if not has_dose and not frequency:
        for instruction in row.facts.get("dosage", ()):
            texts.append(f"instruction: {instruction}")
    return texts


def _order_dates(patient: PatientRows, row: Row, *, is_last: bool = False) -> list[str]:
    """The date on which an order was written, and its start where that is another day."""
    word = dated_word("medication", row)
    date = patient.support.date(row, row.authored_on or row.time)
    dates = [f"{word}, date not recorded"]
    if date:
        dates = [f"last {word} {date}" if is_last else f"{word} {date}"]
    start = patient.date(row)
    if start and start != date:
        dates.append(f"from {start}")
    return dates


def _product(row: Row) -> str:
    return " ".join(whole_name(row.name).casefold().split())


def _substance(row: Row) -> tuple[str, ...]:
    return tuple(sorted(ingredients_of(row.name))) or (_product(row),)


def _contradicting_note(patient: PatientRows, row: Row) -> NoteLine | None:
    """The newest line of a note, newer than an order, that says otherwise of its drug.

    It says that the drug is not taken, or another dose. None where the newest line that says
    whether it is taken agrees with the order.
    """
    notes = patient_notes(patient)
    if not notes.lines:
        return None
    from archqa.asking.chart.statement_conflicts import (
        is_taken,
    )  # Only where notes are.

    written = row.authored_on or row.time
    order_day = written.date().isoformat() if written else ""
    ordered = {match[1] for match in _DOSE.finditer(row.name)}
    if row.value is not None:
        ordered.add(number_text(row.value))
    for drug in _drugs(row.name):
        for line in notes.lines_naming(drug.name):
            doses: set[str] = set()
            speaks_of_drug = says_ended = False
            for part in line.parts:
                doses.update(_doses(drug, part.text))
                taken = is_taken(drug, part.text)
                speaks_of_drug |= taken is not None
                says_ended |= taken is False
            if is_allergy_line(line) or not (speaks_of_drug or doses):
                continue
            differs = bool(doses and ordered) and not doses & ordered
            if line.date[:10] > order_day and (says_ended or differs):
                return line
            break
    return None


def _doses(drug: Concept, text: str) -> list[str]:
    """The doses that stand a few words after a drug: `sertraline 150 mg`."""
    doses = []
    for match in find_concepts(text):
        if match.concept.name == drug.name:
            text_after = text[match.end :]
            dose = _DOSE.search(text_after)
            if dose and len(text_after[: dose.start()].split()) <= _WORDS_TO_DOSE:
                doses.append(dose[1])
    return doses


@cache
def _drugs(name: str) -> tuple[Concept, ...]:
    drugs: dict[str, Concept] = {}
    for match in find_concepts(name):
        if match.concept.kind == "drug":
            drugs[match.concept.name] = match.concept
    return tuple(drugs.values())
