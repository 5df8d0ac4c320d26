"""The rows of one patient, counted by kind, name and attribute."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from archqa.fhir import FhirError, Record
from archqa.query.conventions import Conventions, get_conventions
from archqa.query.execution.chart import Chart
from archqa.query.execution.executor import execute
from archqa.query.execution.rows import Coding, Row
from archqa.query.kinds import KINDS, RowKind
from archqa.query.model import CannotExecute, Query

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

_MICROBIOLOGY = frozenset({"microbiology_test", "organism", "susceptibility"})

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
    for what in KINDS:
        for contents in _kinds_read(chart, KINDS[what].what, conventions):
            kinds[contents.what] = contents
    return RecordContents({what: kinds[what] for what in _table_order() if what in kinds})


def _table_order() -> list[RowKind]:
    return [kind.what for kind in KINDS.values()]


def _kinds_read(chart: Chart, what: RowKind, conventions: Conventions) -> Iterator[KindContents]:
    """Yield the contents of a kind; those of all kinds of results together, read once."""
    if what in _KINDS_OF_RESULTS:
        return
    rows = _rows(chart, what, conventions)
    if what != "observation":
        yield from _if_any(_contents(what, rows, rows))
        return
    by_kind: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_kind[next(iter(row.facts.get("kind", ())), "")].append(row)
    for kind in _KINDS_OF_RESULTS:
        yield from _if_any(_contents(kind, by_kind[kind], by_kind[kind]))
    told_elsewhere = {*_KINDS_OF_RESULTS, *_MICROBIOLOGY}
    others = [
        row for kind, of_kind in by_kind.items() if kind not in told_elsewhere for row in of_kind
    ]
    yield from _if_any(_contents("observation", rows, others))


def _if_any(contents: KindContents) -> Iterator[KindContents]:
    if contents.number:
        yield contents


def _rows(chart: Chart, what: RowKind, conventions: Conventions) -> Sequence[Row]:
    """The rows of a kind; none of a type that a server does not have."""
    query = Query(what=what, summary="count")
    try:
        return execute(query, chart.record, chart.patient, conventions, chart=chart).rows
    except CannotExecute:
        return ()
    except FhirError as error:
        if error.status >= _SERVER_FAILS:
            raise
        return ()


def _contents(what: RowKind, rows: Sequence[Row], named: Iterable[Row]) -> KindContents:
    """Count rows; `named` are those whose names and attributes are told."""
    by_name: dict[str, list[Row]] = defaultdict(list)
    facts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in named:
        by_name[_one_line(row.name)].append(row)
        for fact in LIMIT_OF_FACT.keys() & row.facts.keys():
            facts[fact].update(set(map(_one_line, row.facts[fact])))
    by_name.pop("", None)
    if not KINDS[what].named:
        by_name.clear()
    names = [_named_rows(name, of_name) for name, of_name in by_name.items()]
    return KindContents(
        what=what,
        number=len(rows),
        dates=_dates(rows),
        names=tuple(sorted(names, key=lambda each: (-each.number, each.name))),
        facts=_counted_facts(facts),
        starts=_starts(rows) if KINDS[what].stays and what != "care_unit" else (),
    )


def _counted_facts(facts: Mapping[str, Counter[str]]) -> dict[str, tuple[CountedValue, ...]]:
    return {fact: counted(facts[fact]) for fact in LIMIT_OF_FACT if fact in facts}


def _named_rows(name: str, rows: Sequence[Row]) -> NamedRows:
    codings: dict[Coding, None] = {}
    for row in rows:
        codings.update(dict.fromkeys(row.codings))
        codings.update((Coding("", "", each), None) for each in row.names)
    units = counted(Counter(row.unit for row in rows if row.unit))
    return NamedRows(
        name, len(rows), _dates(rows), tuple(codings), tuple(each.value for each in units)
    )


def _dates(rows: Iterable[Row]) -> Dates:
    days = [_day(row.local_time) for row in rows if row.local_time is not None]
    return Dates(min(days, default=""), max(days, default=""))


def _starts(rows: Iterable[Row]) -> tuple[str, ...]:
    days = [_day(row.local_time) for row in rows if row.local_time is not None]
    return tuple(dict.fromkeys(sorted(days, reverse=True)))


def _day(time: datetime) -> str:
    return f"{time:%Y-%m-%d}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


MAX_CARD_CHARACTERS = 6000


class _Line(NamedTuple):
    """A line of the card whose values are shown as far as there is room."""

    label: str
    values: tuple[str, ...]

    def text(self, shown: int) -> str:
        """The line with its first values, and how many more there are; empty without any."""
        if not shown:
            return ""
        hidden = len(self.values) - shown
        rest = f" … and {hidden} more" if hidden else ""
        return f"\n  {self.label}: {', '.join(self.values[:shown])}{rest}"

    def growth(self, shown: int) -> int:
        """By how many characters one more value lengthens the line."""
        return len(self.text(shown + 1)) - len(self.text(shown))


class _Block(NamedTuple):
    heading: str
    lines: tuple[_Line, ...]


def contents_card(contents: RecordContents, max_characters: int = MAX_CARD_CHARACTERS) -> str:
    """The card as text for a prompt."""
    blocks = [_block(kind) for kind in contents.kinds.values()]
    absent = _absent_text(contents)
    headings = "\n".join([*(block.heading for block in blocks), absent])
    lines = [line for block in blocks for line in block.lines]
    shown = iter(_shown_values(lines, max_characters - len(headings)))
    texts = [
        block.heading + "".join(line.text(next(shown)) for line in block.lines) for block in blocks
    ]
    return "\n".join([*texts, absent]).strip()


def _shown_values(lines: list[_Line], room: int) -> list[int]:
    """How many values of each line fit: one of each line in turn, until nothing more fits."""
    shown = [0] * len(lines)
    open_places = list(range(len(lines)))
    while open_places:
        still_open = []
        for place in open_places:
            line = lines[place]
            if shown[place] < len(line.values) and line.growth(shown[place]) <= room:
                room -= line.growth(shown[place])
                shown[place] += 1
                still_open.append(place)
        open_places = still_open
    return shown


def _block(kind: KindContents) -> _Block:
    return _Block(f"{kind.what}: {rows_text(kind.number, kind.dates)}", tuple(_lines(kind)))


def _lines(kind: KindContents) -> Iterator[_Line]:
    """Yield the lines of a kind: starts of stays, attributes, names."""
    if kind.starts:
        yield _Line("starts, latest first", kind.starts)
    for fact, values in kind.facts.items():
        if fact != "status" or KINDS[kind.what].has_state:
            yield _values_line(LIMIT_OF_FACT[fact], values)
    if kind.names:
        label = "other names" if kind.what == "observation" else "names"
        names = tuple(CountedValue(each.name, each.number) for each in kind.names)
        yield _values_line(f"{label} ({len(names)})", names)


def _values_line(label: str, values: tuple[CountedValue, ...]) -> _Line:
    return _Line(label, tuple(map(str, values)))


def _absent_text(contents: RecordContents) -> str:
    absent = [what for what in KINDS if what not in contents.kinds]
    return f"No rows of: {', '.join(absent)}" if absent else ""
