"""Questions about results: laboratory tests, vital signs, panels, scores, social history."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from archqa.query.model import Flag, Query, RowKind, ValueTest
from archqa.query.questions.everyday.asks import Ask, form_of, newest_of, use_plain_words
from archqa.query.questions.everyday.declining import decline
from archqa.query.questions.everyday.draft import Draft
from archqa.query.questions.everyday.marks import Account, Mark
from archqa.query.questions.everyday.measurement_asks import MeasurementQuestion, measurement_asks
from archqa.query.questions.everyday.naming import (
    Nameable,
    Named,
    NameLimit,
    names_of,
    use_for_before_names,
)
from archqa.query.questions.everyday.reading import Declined
from archqa.query.questions.everyday.stays import stay_of
from archqa.query.scope import When
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import concept_named
from archqa.terminology.units import ucum_unit

MEASUREMENTS = Nameable(frozenset({"measurement"}), frozenset({"observation"}))
_SYSTOLIC_FROM = 100
"""A single number for a blood pressure is the systolic one from here on; below it is ambiguous."""


class _Limits(NamedTuple):
    """What limits the results besides names and time."""

    flag: Flag | None = None
    test: ValueTest | None = None
    newest: int | None = None

    @property
    def fields(self) -> dict[str, object]:
        """The fields of a query."""
        return {"flag": self.flag, "value": self.test, "newest": self.newest}


def read_measurements(account: Account) -> Draft | Declined:
    """The queries of a clause about results."""
    named = _named(account)
    if account.clause.has("noun", "measure") or account.clause.has("row"):
        use_for_before_names(account, MEASUREMENTS)
    what = _what(account, named)
    stay = stay_of(account)
    spans = account.use_spans()
    is_dated = bool(spans or stay.visit or stay.companion)
    question = MeasurementQuestion(account, form_of(account.clause), named, is_dated)
    _use_words(account)
    declined = _declined(question)
    if declined is not None:
        return declined
    limits = _Limits(_flag(question), _test(account), newest_of(account))
    asks = measurement_asks(question)
    named = _of_single_values(named, limits, asks)
    return Draft((what,), asks, named, spans, stay, limits.fields)


def _named(account: Account) -> Named:
    """The measurements that are named; each of an ambiguous word is a limit of its own."""
    named = names_of(account, MEASUREMENTS)
    limits: list[NameLimit] = []
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
    account.use("verb", "measure", "do", "get", "taken", "test_positive")
    account.use("noun", "episode")
    account.use("ever")
    account.use("history")


def _declined(question: MeasurementQuestion) -> Declined | None:
    """What no query can tell: whether only the last value passes, or whether all are normal."""
    clause, form = question.account.clause, question.form
    is_last = form.is_yes_no and (question.position is not None or form.is_present)
    if clause.has("test") and is_last and not question.is_of_any_time:
        return decline("last_compared", *last_values(question.named))
    if clause.has("flag", "normal") and form.is_yes_no and not question.named:
        return decline("unnamed_normal", Query(what="lab", flag="abnormal"))
    if clause.has("field", "reason"):
        return decline("why_value", *last_values(question.named))
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


def _flag(question: MeasurementQuestion) -> Flag | None:
    """The flag that limits the results; of the last value, the flag itself is asked."""
    outcomes = question.account.clause.of("outcome")
    if len(outcomes) == 1 and not question.form.is_yes_no:
        question.account.use_marks(outcomes)
        return "positive" if outcomes[0].value == "positive" else "negative"
    flags = question.account.clause.of("flag")
    if len({mark.value for mark in flags}) != 1 or question.asks_flag_of_last:
        return None
    question.account.use_marks(flags)
    flag: Flag = flags[0].value  # type: ignore[assignment]
    return flag


def _test(account: Account) -> ValueTest | None:
    """The comparison with a number, if its unit is that of the measurement."""
    tests = account.clause.of("test")
    if len(tests) != 1 or not _has_unit_of_concept(account, tests[0]):
        return None
    account.use_marks(tests)
    return tests[0].test


def _has_unit_of_concept(account: Account, test: Mark) -> bool:
    """Whether the unit after the number, if any, is the one in which values are shown."""
    unit, marks = (test.unit, []) if test.unit else _unit_after(account, test)
    if not unit:
        return True
    units = {concept.unit for concept in account.clause.concepts if concept.kind == "measurement"}
    if units != {ucum_unit(unit)}:
        return False
    account.use_marks(marks)
    return True


def _unit_after(account: Account, test: Mark) -> tuple[str, list[Mark]]:
    """The longest unit in the unknown words and signs right after a number, and their marks."""
    unit: tuple[str, list[Mark]] = ("", [])
    marks: list[Mark] = []
    for mark in account.clause.marks:
        if mark.start < test.end:
            continue
        if mark.kind not in {"unknown", "sign"}:
            break
        marks.append(mark)
        text = "".join(part.value for part in marks)
        if _is_unit(text):
            unit = (text, list(marks))
    return unit


@cache
def _is_unit(text: str) -> bool:
    return ucum_unit(text) is not None


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
    """Both blood pressures, or the measurement that stands for a panel."""
    if concept.name != "blood pressure":
        return concept.parts[:1] or (concept.name,)
    systolic, diastolic = "systolic blood pressure", "diastolic blood pressure"
    if test is None:
        return (systolic, diastolic)
    if test.number < _SYSTOLIC_FROM:
        raise ValueError("a single number below 100 may be a systolic or a diastolic pressure")
    return (systolic,)
