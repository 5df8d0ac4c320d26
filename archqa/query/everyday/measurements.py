"""Questions about results: laboratory tests, vital signs, panels, scores, social history."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from archqa.query.concepts import Concept, concept_named, ucum_unit
from archqa.query.everyday.asks import (
    Ask,
    Form,
    counts,
    fields_of,
    form_of,
    position_of,
    unit_of,
    use_plain_words,
)
from archqa.query.everyday.draft import Draft
from archqa.query.everyday.marks import Account, Mark
from archqa.query.everyday.naming import Nameable, Named, NameLimit, names_of, named_marks
from archqa.query.everyday.reading import Declined
from archqa.query.everyday.declining import decline
from archqa.query.everyday.stays import stay_of
from archqa.query.everyday.tables import read_table
from archqa.query.model import Flag, Query, RowKind, ValueTest
from archqa.query.scope import When

MEASUREMENTS = Nameable(frozenset({"measurement"}), frozenset({"observation"}))
_FIELDS = frozenset({"time", "elapsed", "value", "flag", "practitioner", "place"})
_SYSTOLIC_FROM = 100
"""A single number for a blood pressure is the systolic one from here on; below it is ambiguous."""


class _Limits(NamedTuple):
    """What limits the results besides names and time."""

    flag: Flag | None = None
    test: ValueTest | None = None

    @property
    def fields(self) -> dict[str, object]:
        """The fields of a query."""
        return {"flag": self.flag, "value": self.test}


def read_measurements(account: Account) -> Draft | Declined:
    """The queries of a clause about results."""
    form = form_of(account.clause)
    named = _named(account)
    what = _what(account, named)
    stay = stay_of(account)
    position = position_of(account)
    if account.use("state", "current"):
        position = position or "last"
    _use_words(account)
    declined = _declined(account, form, named, position)
    if declined is not None:
        return declined
    spans = account.use_spans()
    limits = _Limits(_flag(account, form), _test(account))
    is_dated = bool(spans or stay.visit or stay.companion)
    asks = tuple(_varied(account, _asks(account, form, named, position, is_dated)))
    named = _of_single_values(named, limits, asks)
    return Draft((what,), asks, named, spans, stay, limits.fields)


def _named(account: Account) -> Named:
    """The measurements that are named; each of an ambiguous word is a limit of its own."""
    named = names_of(account, MEASUREMENTS)
    limits = []
    for limit in named.limits:
        if len(limit.concepts) > 1 and not limit.names and not account.clause.has("join", "or"):
            limits += [NameLimit(concepts=(concept,)) for concept in limit.concepts]
        else:
            limits.append(limit)
    is_ambiguous = len(named.limits) == 1 and len(limits) > 1
    return Named(tuple(limits), "or" if is_ambiguous else named.joined)


def _what(account: Account, named: Named) -> RowKind:
    if named:
        account.use("row", "lab", "observation", "vital")
        return "observation"
    for what in ("lab", "vital"):
        if account.use("row", what):
            return what
    account.use("row", "observation")
    return "observation"


def _use_words(account: Account) -> None:
    use_plain_words(account)
    account.use("wh", "how", "how_much")
    account.use("noun", "measure")
    account.use("verb", "measure", "do", "get", "take")
    account.use("ever")
    account.use("history")


def _declined(account: Account, form: Form, named: Named, position: str | None) -> Declined | None:
    """What no query can tell: whether only the last value passes, or whether all are normal."""
    clause = account.clause
    is_last = form.is_yes_no and (position is not None or form.is_present)
    if clause.has("test") and is_last and not _is_of_any_time(account):
        return decline("last_compared", *last_values(named))
    if clause.has("flag", "normal") and form.is_yes_no and not named:
        return decline("unnamed_normal", Query(what="lab", flag="abnormal"))
    if clause.has("field", "reason"):
        return decline("why_value", *last_values(named))
    return None


def last_values(named: Named) -> Iterator[Query]:
    """The last value of each name."""
    for limit in named.limits[:2]:
        yield Query(
            what="observation",
            names=limit.names,
            concepts=limit.concepts,
            when=When(position="last"),
        )


def _is_of_any_time(account: Account) -> bool:
    clause = account.clause
    return clause.has("ever") or clause.has("exists") or clause.has("span")


def _flag(account: Account, form: Form) -> Flag | None:
    """The flag that limits the results; of the last value, the flag itself is asked."""
    flags = account.clause.of("flag")
    if len({mark.value for mark in flags}) != 1:
        return None
    if _asks_flag_of_last(account, form):
        return None
    account.use_marks(flags)
    flag: Flag = flags[0].value  # type: ignore[assignment]
    return flag


def _asks_flag_of_last(account: Account, form: Form) -> bool:
    """Is her potassium high: the flag of the last value."""
    if not account.clause.has("flag") or not form.is_yes_no or _is_of_any_time(account):
        return False
    return form.is_present or account.clause.has("position", "last")


def _test(account: Account) -> ValueTest | None:
    """The comparison with a number, if its unit is that of the measurement."""
    tests = account.clause.of("test")
    if len(tests) != 1 or not _has_unit_of_concept(account, tests[0]):
        return None
    account.use_marks(tests)
    return tests[0].test


def _has_unit_of_concept(account: Account, test: Mark) -> bool:
    """Whether the unit after the number, if any, is the one in which values are shown."""
    after = [mark for mark in account.clause.marks if mark.start >= test.end]
    written = test.unit
    unit_marks = []
    while after and not written and after[0].kind in {"unknown", "sign"}:
        unit_marks.append(after.pop(0))
        written = _known_unit("".join(mark.value for mark in unit_marks))
    if not written:
        return True
    units = {concept.unit for concept in account.clause.concepts if concept.kind == "measurement"}
    if units != {_known_unit(written)}:
        return False
    account.use_marks(unit_marks)
    return True


@cache
def _known_unit(text: str) -> str:
    return ucum_unit(text) or ""


def _varied(account: Account, asks: Iterable[Ask]) -> Iterator[Ask]:
    """The asks for each extreme, and for each of two positions: first and last."""
    extremes = _values_of(account, "extreme")
    positions = _values_of(account, "position")
    for ask in asks:
        if extremes:
            for extreme in extremes:
                yield ask._replace(extreme=extreme, position=None)  # type: ignore[arg-type]
        elif positions:
            for position in positions:
                yield ask._replace(position=position)  # type: ignore[arg-type]
        else:
            yield ask


def _values_of(account: Account, kind: str) -> tuple[str, ...]:
    """The values of marks that nothing has used; several must be joined."""
    values = tuple(dict.fromkeys(mark.value for mark in account.unused(kind)))
    if len(values) > 1 and not account.clause.has("join"):
        return ()
    account.use(kind)
    return values


def _asks(
    account: Account, form: Form, named: Named, position: object, is_dated: bool
) -> Iterator[Ask]:
    """What is asked: a number of results, a change, whether there are any, values or dates."""
    fields = fields_of(account, _FIELDS)
    if _asks_count(account):
        account.use("series")
        yield Ask("value", "count")
        return
    if account.use("summary", "average"):
        account.use("series")
        yield Ask("value", "average")
        return
    if account.clause.has("summary", "change") or account.clause.has("trend"):
        yield from _changes(account, form)
        return
    if _asks_flag_of_last(account, form):
        account.use("flag")
        yield Ask("flag", position="last")
        return
    yield from _values(account, form, named, fields, position, is_dated)


def _asks_count(account: Account) -> bool:
    asks_how_often = bool(account.use("wh", "how_often"))
    return counts(account) or asks_how_often


def _changes(account: Account, form: Form) -> Iterator[Ask]:
    """How much it changed; and, where a direction or a trend is asked for, every value."""
    trends = account.use("trend")
    series = account.use("series")
    is_amount = account.clause.has("wh", "how_much") or "much" in account.clause.words
    only_change = account.use("summary", "change") and is_amount and not trends and not series
    if not only_change or form.is_yes_no:
        yield Ask("value")
    yield Ask("value", "change")


def _values(
    account: Account,
    form: Form,
    named: Named,
    fields: tuple[str, ...],
    position: object,
    is_dated: bool,
) -> Iterator[Ask]:
    is_series = bool(account.use("series")) | account.clause.has("history")
    at: object = position
    if "elapsed" in fields:
        unit = unit_of(account.clause.of("field", "elapsed"))
        yield Ask("elapsed", position=position or "last", unit=unit)  # type: ignore[arg-type]
        return
    if form.is_yes_no and not fields:
        yield _yes_no(account, form, named, position)
        return
    is_limited = account.clause.has("flag") or account.clause.has("test")
    if at is None and not (is_dated or is_series or is_limited or _has_plural(account)):
        at = None if "time" in fields else "last"
    returned = fields or ("value",)
    if set(returned) == {"time", "value"}:
        returned = ("value",)
    for field in returned:
        yield Ask(field, position=at)  # type: ignore[arg-type]


def _yes_no(account: Account, form: Form, named: Named, position: object) -> Ask:
    """Whether there is any result; of what is told by its value, such as smoking, the value."""
    if not _is_status(named):
        return Ask("value", "exists", position=position)  # type: ignore[arg-type]
    if form.is_present and not account.clause.has("ever"):
        return Ask("value", position="last")
    return Ask("value")


def _is_status(named: Named) -> bool:
    names = {concept for limit in named.limits for concept in limit.concepts}
    statuses = {row[0] for row in read_table("status_measurements.tsv")}
    return bool(names) and names <= statuses


def _has_plural(account: Account) -> bool:
    """Whether results are asked for, not one result."""
    return any(mark.text.endswith("s") for mark in account.clause.of("noun", "measure"))


def _of_single_values(named: Named, limits: _Limits, asks: tuple[Ask, ...]) -> Named:
    """For an extreme, a comparison or a summary: the single measurements of a panel."""
    summaries = {ask.summary for ask in asks} - {"each", "count", "exists"}
    has_extreme = any(ask.extreme for ask in asks)
    if not (has_extreme or limits.test or summaries):
        return named
    expanded: list[NameLimit] = []
    for limit in named.limits:
        expanded += _single_values(limit, limits.test)
    return named._replace(limits=tuple(expanded))


def _single_values(limit: NameLimit, test: ValueTest | None) -> Iterator[NameLimit]:
    if len(limit.concepts) != 1 or limit.names:
        yield limit
        return
    concept = concept_named("measurement", limit.concepts[0])
    for name in _parts_with_one_value(concept, test):
        yield NameLimit(concepts=(name,))


def _parts_with_one_value(concept: Concept, test: ValueTest | None) -> tuple[str, ...]:
    if concept.name != "blood pressure":
        return concept.parts[:1] or (concept.name,)
    systolic, diastolic = "systolic blood pressure", "diastolic blood pressure"
    if test is None:
        return (systolic, diastolic)
    if test.number < _SYSTOLIC_FROM:
        raise ValueError("a single number below 100 may be a systolic or a diastolic pressure")
    return (systolic,)


def has_measurements(account: Account) -> bool:
    """Whether a clause names a measurement."""
    return bool(named_marks(account.clause, MEASUREMENTS))
