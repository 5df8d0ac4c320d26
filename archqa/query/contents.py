"""What the record of one patient contains, in the words of a query: for whoever writes queries.

The rows of every kind are counted by name and attribute. The card shows them to a model: every kind
is on it, and those that a question is about are described. The remaining room goes to their names
and attributes in turn, the most frequent first.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from archqa.fhir import FhirError, Record
from archqa.query.conventions import Conventions, get_conventions
from archqa.query.execution.chart import Chart
from archqa.query.execution.executor import execute
from archqa.query.execution.rows import Coding, Row
from archqa.query.kinds import KINDS, RowKind
from archqa.query.model import MICROBIOLOGY, CannotExecute, Query
from archqa.query.wording.queries import kind_description
from archqa.query.wording.words import exported_text

MAX_CARD_CHARACTERS = 2800
"""About 700 tokens: a call of the planner has at most 5,000."""

MAX_NAME_CHARACTERS = 100
"""A longer name is cut where it is only shown; no real name of a code is longer than 255."""


class Dates(NamedTuple):
    """The first and the last day of some rows; empty where no row has a date."""

    first: str
    last: str

    def __str__(self) -> str:
        if self.first == self.last:
            return self.first
        return f"{self.first} to {self.last}"


class CountedValue(NamedTuple):
    """A value and the number of rows that have it."""

    value: str
    number: int

    def __str__(self) -> str:
        return f"{quoted_name(self.value)} {self.number}"


def counted(values: Counter[str]) -> tuple[CountedValue, ...]:
    """The values, the most frequent first."""
    ordered = sorted(values.items(), key=lambda each: (-each[1], each[0]))
    return tuple(CountedValue(value, count) for value, count in ordered)


def quoted_name(name: str) -> str:
    """A name in quotation marks, cut if it is very long."""
    if len(name) > MAX_NAME_CHARACTERS:
        name = f"{name[:MAX_NAME_CHARACTERS]}…"
    return f'"{name}"'


def rows_text(count: int, dates: Dates) -> str:
    """`34 rows, 2150-01-01 to 2150-03-02`."""
    rows = "1 row" if count == 1 else f"{count} rows"
    return f"{rows}, {dates}" if dates.first else rows


_KINDS_OF_RESULTS: tuple[RowKind, ...] = ("lab", "vital", "output")
"""Kinds whose rows are rows of `observation`, too."""

_SERVER_FAILS = 500
"""The HTTP status from which a record fails; below it, it lacks a type or a parameter."""


LIMIT_OF_FACT = {
    "route": "routes",
    "specimen": "specimens",
    "organism": "organisms",
    "admission_source": "admission_sources",
    "class": "classes",
    "status": "status",
    "result": "results",
}
"""Attributes of rows, and what a query calls a limit on them (a status is none: `state` reads it)."""


class NamedRows(NamedTuple):
    """The rows of one kind with one name.

    `codings` are all codes and texts that stand for it, `units` those of its values, the most
    frequent first.
    """

    name: str
    number: int
    dates: Dates
    codings: tuple[Coding, ...]
    units: tuple[str, ...] = ()


class KindContents(NamedTuple):
    """The rows of one kind: their names and attributes, the most frequent first."""

    what: RowKind
    number: int
    dates: Dates
    names: tuple[NamedRows, ...]
    facts: dict[str, tuple[CountedValue, ...]]
    starts: tuple[str, ...] = ()


class RecordContents(NamedTuple):
    """All rows of a patient by kind; a kind without rows is missing."""

    kinds: dict[RowKind, KindContents]


def contents_of(chart: Chart, conventions: str | Conventions) -> RecordContents:
    """Return what the patient's record holds, read once for each chart.

    Raises `FhirError` and `ServerUnavailable` as the record does.
    """
    rules = get_conventions(conventions)
    key = f"contents by {rules.name}"
    return chart.get_or_compute(key, lambda: _read(chart.record, chart.patient, rules))


def _read(record: Record, patient: str, conventions: Conventions) -> RecordContents:
    """Count the rows on a chart of their own, which is dropped: a large one takes a gigabyte."""
    chart = Chart(record, patient)
    kinds: dict[RowKind, KindContents] = {}
    for kind in KINDS.values():
        if kind.what in _KINDS_OF_RESULTS:
            continue  # The rows of all kinds of results are those of `observation`, read once.
        rows = _rows(chart, kind.what, conventions)
        named = rows
        if kind.what == "observation":
            rows_by_kind: dict[str, list[Row]] = defaultdict(list)
            for row in rows:
                rows_by_kind[next(iter(row.facts.get("kind", ())), "")].append(row)
            for what in _KINDS_OF_RESULTS:
                kinds[what] = _contents(what, rows_by_kind[what], rows_by_kind[what])
            named = []
            for row_kind, rows_of_kind in rows_by_kind.items():
                if row_kind not in _KINDS_OF_RESULTS and row_kind not in MICROBIOLOGY:
                    named += rows_of_kind
        kinds[kind.what] = _contents(kind.what, rows, named)
    in_order = (kind.what for kind in KINDS.values())
    return RecordContents(
        {what: kinds[what] for what in in_order if kinds[what].number}
    )


def _rows(chart: Chart, what: RowKind, conventions: Conventions) -> list[Row]:
    """The rows of a kind; none of a type that a server does not have."""
    query = Query(what=what, summary="count")
    try:
        result = execute(query, chart.record, chart.patient, conventions, chart=chart)
    except CannotExecute:
        return []
    except FhirError as error:
        if error.status >= _SERVER_FAILS:
            raise
        return []
    return list(result.rows)


def _contents(what: RowKind, rows: Sequence[Row], named: Iterable[Row]) -> KindContents:
    """Count rows; `named` are those whose names and attributes are listed."""
    kind = KINDS[what]
    rows_by_name: dict[str, list[Row]] = defaultdict(list)
    values_by_fact: dict[str, Counter[str]] = defaultdict(Counter)
    for row in named:
        name = _one_line(exported_text(row.name))
        if name and kind.named:
            rows_by_name[name].append(row)
        for fact in LIMIT_OF_FACT.keys() & row.facts.keys():
            values_by_fact[fact].update(set(map(_one_line, row.facts[fact])))
    names = [
        _named_rows(name, rows_of_name) for name, rows_of_name in rows_by_name.items()
    ]
    names.sort(key=lambda named_rows: (-named_rows.number, named_rows.name))
    facts = {}
    for fact in LIMIT_OF_FACT:
        if fact in values_by_fact:
            facts[fact] = counted(values_by_fact[fact])
    starts: list[str] = []
    if kind.stays and what != "care_unit":
        starts = sorted(_days(rows), reverse=True)
    return KindContents(
        what=what,
        number=len(rows),
        dates=dates_of(rows),
        names=tuple(names),
        facts=facts,
        starts=tuple(dict.fromkeys(starts)),
    )


def _named_rows(name: str, rows: Sequence[Row]) -> NamedRows:
    codings: dict[Coding, None] = {}
    units: Counter[str] = Counter()
    for row in rows:
        codings.update(dict.fromkeys(row.codings))
        for row_name in row.names:
            codings[Coding("", "", row_name)] = None
        if row.unit:
            units[row.unit] += 1
    frequent_units = tuple(unit.value for unit in counted(units))
    return NamedRows(name, len(rows), dates_of(rows), tuple(codings), frequent_units)


def dates_of(rows: Iterable[Row]) -> Dates:
    """The first and the last day of the rows."""
    days = _days(rows)
    return Dates(min(days, default=""), max(days, default=""))


def _days(rows: Iterable[Row]) -> list[str]:
    return [f"{row.local_time:%Y-%m-%d}" for row in rows if row.local_time is not None]


def _one_line(text: str) -> str:
    return " ".join(text.split())


@dataclass
class _Line:
    """A line of the card whose first values are shown, as far as there is room."""

    label: str
    values: tuple[str, ...]
    shown: int = 0

    def text(self, shown: int) -> str:
        """The line with its first values, and how many more there are; empty without any."""
        if not shown:
            return ""
        hidden = len(self.values) - shown
        more = f" … and {hidden} more" if hidden else ""
        return f"\n  {self.label}: {', '.join(self.values[:shown])}{more}"


def contents_card(
    contents: RecordContents,
    max_characters: int = MAX_CARD_CHARACTERS,
    kinds: Collection[str] = (),
) -> str:
    """The card as text for a prompt: these kinds are described, or all listed if none of them has rows."""
    relevant = [kind for kind in contents.kinds.values() if kind.what in kinds]
    others = []
    for kind in contents.kinds.values():
        if relevant and kind not in relevant:
            others.append(f"{kind.what} {kind.number}")
    absent = [what for what in KINDS if what not in contents.kinds]
    footers = []
    if others:
        footers.append(f"Rows of other kinds: {', '.join(others)}")
    if absent:
        footers.append(f"No rows of: {', '.join(absent)}")
    room = max_characters - len("\n".join(footers))
    lines_by_heading: dict[str, list[_Line]] = {}
    for kind in relevant or contents.kinds.values():
        heading = f"{kind.what}: {rows_text(kind.number, kind.dates)}"
        described = f"{heading}. {kind_description(kind.what)}"
        if relevant and len(described) < room:
            heading = described
        room -= len(heading) + 1
        lines_by_heading[heading] = _lines(kind)
    # One more value of each line in turn, until nothing more fits.
    growing = list(chain.from_iterable(lines_by_heading.values()))
    while growing:
        still_growing = []
        for line in growing:
            growth = len(line.text(line.shown + 1)) - len(line.text(line.shown))
            if line.shown < len(line.values) and growth <= room:
                room -= growth
                line.shown += 1
                still_growing.append(line)
        growing = still_growing
    blocks = []
    for heading, lines in lines_by_heading.items():
        blocks.append(heading + "".join(line.text(line.shown) for line in lines))
    return "\n".join([*blocks, *footers])


def _lines(kind: KindContents) -> list[_Line]:
    """The lines of a kind: starts of stays, attributes, names."""
    lines = []
    if kind.starts:
        lines.append(_Line("starts, latest first", kind.starts))
    for fact, values in kind.facts.items():
        if fact != "status" or KINDS[kind.what].has_state:
            lines.append(_Line(LIMIT_OF_FACT[fact], tuple(map(str, values))))
    if kind.names:
        label = "other names" if kind.what == "observation" else "names"
        names = [CountedValue(named.name, named.number) for named in kind.names]
        lines.append(_Line(f"{label} ({len(names)})", tuple(map(str, names))))
    return lines
