"""The words of an answer about a record: numbers, dates, displays of codes, rows and what a query asks for."""

import ast
import calendar
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from functools import cache, lru_cache
from typing import Literal, NamedTuple, cast

from archqa.core.recorded_numbers import RecordedNumber
from archqa.core.tables import TableRow, read_rows
from archqa.query.execution.rows import Row
from archqa.query.kinds import KINDS, LISTS
from archqa.query.model import Query
from archqa.query.scope import Span, When
from archqa.query.values import DAYS_PER_UNIT
from archqa.terminology.codes import measurements_coded
from archqa.terminology.concepts import concept_named, concept_text
from archqa.terminology.cues import result_patterns

_KEPT_DECIMALS = 3
"""Decimals that a recorded number keeps; more are an artefact of conversion or simulation."""

_FEW_DECIMALS = re.compile(rf"-?\d+\.\d{{1,{_KEPT_DECIMALS}}}")
_SIGNIFICANT_DIGITS = 4
_MAX_DAYS_IN_DAYS = 60
"""Lengths up to this are said in days, longer ones in months and years."""


def number_text(number: float) -> str:
    """Return a number as recorded: 6.40, 13; with many decimals to four digits, at least two decimals."""
    if isinstance(number, RecordedNumber) and _FEW_DECIMALS.fullmatch(number.text):
        return number.text
    text = f"{number:.10f}".rstrip("0").rstrip(".")
    decimals = len(text.partition(".")[2])
    if decimals > _KEPT_DECIMALS:
        exponent = int(f"{abs(number):e}".partition("e")[2])
        decimals = max(2, _SIGNIFICANT_DIGITS - 1 - exponent)
        text = f"{number:.{decimals}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def computed_text(number: float) -> str:
    """Return a number that was computed, such as an average, to two decimals or three digits."""
    if 0 < abs(number) < 1:
        return f"{number:.3g}"
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def date_text(time: datetime | date) -> str:
    """Return a date, `2026-04-28`, or the leading part of it that the record has: `2026-04`."""
    return time.isoformat()[:10]


def clock_text(time: datetime) -> str:
    """Return a date with the time of day, `2026-04-28 08:30`; midnight is a bare date."""
    if time.hour == 0 and time.minute == 0:
        return date_text(time)
    return f"{time:%Y-%m-%d %H:%M}"


def is_narrow(when: When) -> bool:
    """Whether a day or two are asked for, so that the time of day matters."""
    return any(map(_is_narrow_span, when.spans))


def _is_narrow_span(span: Span) -> bool:
    if span.ago is not None:
        is_short = span.ago.unit == "day" and span.ago.count <= 2
        return is_short or span.ago.unit in {"hour", "minute"}
    if span.relation not in {"in", "since"}:
        return False
    if span.days_back is not None:
        return span.days_back <= 1
    return span.day is not None and span.relation == "in"


class Length(NamedTuple):
    """A length of time in whole years, months and days of the calendar."""

    years: int
    months: int
    days: int

    @property
    def text(self) -> str:
        """The two largest parts: `3 years and 2 months`; days alone below a month."""
        parts = []
        if self.years:
            parts.append(counted(self.years, "year", "years"))
        if self.months:
            parts.append(counted(self.months, "month", "months"))
        if self.days and not self.years:
            parts.append(counted(self.days, "day", "days"))
        return " and ".join(parts) or "0 days"


def length_between(start: date, end: date) -> Length:
    """Return the length from a date to a later one; of dates in the wrong order, no length."""
    months = (end.year - start.year) * 12 + end.month - start.month
    if end.day < start.day:
        months -= 1
    if months < 0:
        return Length(0, 0, 0)
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    last_day = calendar.monthrange(year, month + 1)[1]
    anniversary = date(year, month + 1, min(start.day, last_day))
    last = end.date() if isinstance(end, datetime) else end
    days = (last - anniversary).days
    return Length(months // 12, months % 12, days)


def in_unit(length: timedelta, unit: str) -> str:
    """Return a length of time in one unit: `166.5 hours`."""
    number = computed_text(length.total_seconds() / 86400 / DAYS_PER_UNIT[unit])
    return f"{number} {unit}" if number == "1" else f"{number} {unit}s"


def since_text(start: datetime, now: datetime) -> str:
    """Return how long ago a date is: `3 years and 2 months ago`, `12 days ago`, `today`."""
    days = (now.date() - start.date()).days
    if days < 0:
        return f"in {stay_text(start=now, end=start)}"
    if days == 0:
        return "today"
    if days <= _MAX_DAYS_IN_DAYS:
        return f"{counted(days, 'day', 'days')} ago"
    return f"{length_between(start, now).text} ago"


def stay_text(start: datetime, end: datetime) -> str:
    """Return the length of a stay: in hours and minutes within two days, in days up to two months."""
    minutes = round((end - start).total_seconds() / 60)
    has_clocks = start.time() != end.time()
    if has_clocks and minutes < 48 * 60:
        parts = []
        if minutes >= 60:
            parts.append(counted(minutes // 60, "hour", "hours"))
        if minutes % 60:
            parts.append(counted(minutes % 60, "minute", "minutes"))
        return " and ".join(parts)
    days = (end.date() - start.date()).days
    if days <= _MAX_DAYS_IN_DAYS:
        return counted(days, "day", "days")
    return length_between(start, end).text


def full_years(birth: date, day: date) -> int:
    """Return the age in whole years."""
    has_had_birthday = (day.month, day.day) >= (birth.month, birth.day)
    return day.year - birth.year - (not has_had_birthday)


def counted(count: int, singular: str, plural: str) -> str:
    """Return a number with its noun: `1 visit`, `12 visits`."""
    return f"{count} {singular if count == 1 else plural}"


def counted_results(rows: Sequence[Row]) -> str:
    """Return `1 result`, `2 results`."""
    return counted(len(rows), "result", "results")


def listed(texts: list[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


_SNOMED_TAG = re.compile(
    r"(?:(?<!\s)\s++)?\((?:disorder|finding|procedure|situation|regime/therapy|morphologic abnormality"
    r"|observable entity|physical object|substance|person|event|body structure|product"
    r"|medicinal product|clinical drug|qualifier value|environment|organism|occupation"
    r"|record artifact|social concept|specimen|assessment scale|context-dependent category)\)$"
)
"""The semantic tag at the end of a SNOMED CT fully specified name."""

_LOINC_PROPERTY = re.compile(r"(?<!\s)\s++\[[^\]]{0,200}\](?!\S)")
"""Property and scale in a LOINC long common name, [Mass/volume]; mm[Hg] is none."""

_LOINC_BLOOD = re.compile(
    r"(?<!\s)\s++in (?:Serum or Plasma|Serum, Plasma or Blood|Serum|Plasma|Blood)\b"
)
_LOINC_METHOD = re.compile(
    r"(?<!\s)\s++by (?:Automated count|Manual count|calculation|Computation)\b"
)
_CAPITAL_UNIT = re.compile(r"\b(?:MG|ML|MCG|MEQ|UNT|ACTUAT)\b")
_EXPORTED = re.compile(r"^\{.*\}$", re.DOTALL)


def clean_name(name: str) -> str:
    """Return a display as people read it: without semantic tag, LOINC property and capital units."""
    return sentence_case(without_marks(name))


@lru_cache(maxsize=16384)
def without_marks(name: str) -> str:
    """Return a display as `clean_name`, without a capital first letter where it has none."""
    text = " ".join(exported_text(name).replace("_", " ").split())
    for pattern in (_SNOMED_TAG, _LOINC_PROPERTY, _LOINC_METHOD, _LOINC_BLOOD):
        text = pattern.sub("", text)
    return _CAPITAL_UNIT.sub(lambda match: short_words("strength unit")[match[0]], text)


def sentence_case(text: str) -> str:
    """Return a text with a capital first letter; `pH` keeps its own."""
    if text[1:2].isupper():
        return text
    return text[:1].upper() + text[1:]


def exported_text(text: str) -> str:
    """The text in a dictionary that an export wrote where a text belongs; else the text itself.

    It is the `text`, else what is to be measured and its bound: `Hemoglobin A1c < 7`.
    """
    if not _EXPORTED.match(text):
        return text
    try:
        exported = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    if not isinstance(exported, dict):
        return text
    if isinstance(exported.get("text"), str):
        return str(exported["text"]) or text
    observation = exported.get("observation")
    if not isinstance(observation, dict):
        return text
    codes = observation.get("codes") or [{}]
    display = codes[0].get("display", "") if isinstance(codes[0], dict) else ""
    if not display:
        return text
    parts = [display, observation.get("operator", ""), observation.get("value", "")]
    return " ".join(map(str, filter(lambda part: part != "", parts)))


MEASURED = frozenset(LISTS["measured_kinds"])
"""Kinds of rows that have a result."""

STAYS = frozenset({"hospital_visit", "icu_stay", "care_unit", "encounter"})
"""Kinds of rows that are a visit, each told on a line of its own."""

DRUGS = frozenset({"medication", "administration", "dispense"})

ENDED = frozenset(LISTS["ended_statuses"])
"""Statuses of what has ended."""

Assertion = Literal["negative", "past", "positive", ""]


class RowWords(NamedTuple):
    """How rows of one kind are called.

    `named` says what is missing, `lead` what a name is; `dated` stands before the date.
    """

    singular: str
    plural: str
    named: str
    lead: str
    dated: str
    silent: frozenset[str]


class FieldWords(NamedTuple):
    """How a field is said in a line (`at {}`), and how its absence is (`the place`)."""

    said: str
    absent: str


@cache
def _all_row_words() -> dict[str, RowWords]:
    words = {}
    for table, what, nouns, named, lead, dated, silent in _words_table():
        if table == "row":
            kind = KINDS[what]
            singular, plural = (
                nouns.split("|") if nouns != "-" else (kind.singular, kind.plural)
            )
            statuses = frozenset(silent.split("|"))
            words[what] = RowWords(
                singular, plural, named, lead.replace("-", "{}"), dated, statuses
            )
    return words


def row_words(what: str) -> RowWords:
    """Return how rows of a kind are called."""
    return _all_row_words()[what]


@cache
def field_words() -> dict[str, FieldWords]:
    """Return how the fields are said."""
    words = {}
    for table, field, said, absent, *_ in _words_table():
        if table == "field":
            words[field] = FieldWords(said, absent)
    return words


@cache
def short_words(table: str) -> dict[str, str]:
    """Return how the things of another table than rows and fields are said: units, classes."""
    return {name: said for kind, name, said, *_ in _words_table() if kind == table}


def _words_table() -> tuple[TableRow, ...]:
    return read_rows("query/wording/data/words.tsv", 7, optional=3)


def asserts(text: str) -> Assertion:
    """Return what a result in words asserts; empty for one that asserts neither, such as a genus."""
    for assertion, pattern in result_patterns():
        if pattern.search(text):
            return "" if assertion == "neither" else cast("Assertion", assertion)
    return ""


def denies(name: str) -> bool:
    """Whether a name itself says that there is nothing: "No known allergy"."""
    return (
        re.match(r"(?:no|not|never|none|absence of|denies)\b", name, re.IGNORECASE)
        is not None
    )


def row_label(query: Query, row: Row) -> str:
    """Return what a result is called: the concept that was asked for, else its display."""
    for name in _measurements(query.concepts):
        concept = concept_named("measurement", name)
        if concept in measurements_coded(row.codings):
            return sentence_case(concept_text(name))
    return clean_name(row.name) or "Result without a name"


@lru_cache(maxsize=256)
def _measurements(names: tuple[str, ...]) -> tuple[str, ...]:
    """The single measurements among concepts; of a panel, its parts."""
    singles: dict[str, None] = {}
    for name in names:
        try:
            concept = concept_named("measurement", name)
        except KeyError:
            continue
        singles.update(
            dict.fromkeys(_measurements(concept.parts) if concept.parts else (name,))
        )
    return tuple(singles)


def row_status(row: Row) -> str:
    """Return the status in words; empty if the row has none."""
    statuses = row.fact("status")
    return statuses[0].replace("-", " ") if statuses else ""


_DATED = {"MedicationStatement": "stated", "MedicationDispense": "dispensed"}


def dated_word(what: str, row: Row) -> str:
    """Return the word before the date of a row: what was handed over was not ordered."""
    resource_type = row.refs[0].partition("/")[0]
    return _DATED.get(resource_type, row_words(what).dated)


def drug_status(row: Row) -> str:
    """Return the status of a medicine, why it has it, and what tells whether it is current."""
    status = row_status(row)
    if row.refs[0].startswith("MedicationDispense/") and status == "completed":
        status = ""
    reasons = row.fact("status_reason")
    if reasons:
        status = f"{status}: {'; '.join(reasons)}".removeprefix(": ")
    return ", ".join(filter(None, (status, currency_text(row))))


def currency_text(row: Row) -> str:
    """Return what tells whether a medicine is current besides its status; empty for a death."""
    currency = row.currency
    if currency is None:
        return ""
    date = date_text(currency.date) if currency.date else ""
    if currency.reason == "later_order":
        return f"but the later order of {date} is {currency.status or 'over'}"
    if currency.reason == "never_ended" or (
        currency.reason == "death" and row.end is None and row_status(row) == "active"
    ):
        return "never ended in the record"
    if currency.days is None:
        is_unknown = currency.reason == "supply_unknown"
        return "for how long is not recorded" if is_unknown else ""
    text = f"{number_text(currency.days)} days' supply"
    if currency.dispensed:
        text = f"dispensed {date_text(currency.dispensed)}, {text}"
    if currency.reason == "supply_over":
        text = f"{text}, which ran out about {date}"
    return text


def death_text(row: Row) -> str:
    """Return that the patient has died, if that is why a medicine is not current; else nothing."""
    currency = row.currency
    if currency is None or currency.reason != "death":
        return ""
    date = f" on {date_text(currency.date)}" if currency.date else ""
    return f"the patient died{date}"


_RESULT_WORDS = {"family_history": "of the"}
"""How the limit `results` is said of a kind whose results are relatives."""


def noun(query: Query, count: int) -> str:
    """Return what the rows of a query are, without their names: `emergency visits`."""
    words = row_words(query.what)
    text = words.singular if count == 1 else words.plural
    return " ".join([*_adjectives(query), text])


def asked_names(query: Query) -> str:
    """Return the names and concepts that are asked for: `warfarin or heparin`."""
    return _names((*map(concept_text, query.concepts), *query.names))


def subject(query: Query) -> str:
    """Return what is missing, with every limit but the time: `warfarin`, `visit for COVID-19`."""
    names = asked_names(query)
    text = noun(query, 1)
    if names:
        named = row_words(query.what).named.format(names)
        text = " ".join([*_adjectives(query), named])
    return " ".join([text, *_limits(query)])


def counted_rows(query: Query, count: int) -> str:
    """Return a number of rows with every limit but the time: `12 emergency visits`."""
    parts = [str(count), noun(query, count)]
    if names := asked_names(query):
        parts.append(f"of {names}")
    return " ".join([*parts, *_limits(query)])


def counted_limits(query: Query, count: int) -> str:
    """Return every limit but names and time, as it follows a number of rows; empty without any."""
    limits = list(_limits(query))
    if query.state == "ended":
        limits.append("that has ended" if count == 1 else "that have ended")
    return " ".join(limits)


def _adjectives(query: Query) -> Iterator[str]:
    if query.state == "current":
        yield "current"
    if query.flag:
        yield query.flag
    if query.classes:
        yield " or ".join(map(short_words("class").__getitem__, query.classes))


def _limits(query: Query) -> Iterator[str]:
    limits = {
        "for": tuple(map(concept_text, query.reasons)),
        "from specimen": query.specimens,
        "with organism": query.organisms,
        "by route": query.routes,
        "admitted through": query.admission_sources,
        _RESULT_WORDS.get(query.what, "with result"): query.results,
    }
    for word, names in limits.items():
        if names:
            yield f"{word} {_names(names)}"
    if query.value:
        yield f"with a value {query.value}"
    if query.grew is not None:
        yield "in which an organism grew" if query.grew else "in which no organism grew"
    if companion := query.companion:
        rows = row_words(companion.what).plural
        if names := (*map(concept_text, companion.concepts), *companion.names):
            rows = f"{rows} of {_names(names)}"
        text = (
            f"{short_words('within')[companion.within]} {rows} {companion.when}".strip()
        )
        yield text if companion.order == "any" else f"{companion.order} and {text}"


def _names(names: tuple[str, ...]) -> str:
    return " or ".join(dict.fromkeys(map(without_marks, names)))
