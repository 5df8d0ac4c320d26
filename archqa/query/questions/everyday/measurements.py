"""Questions about results: laboratory tests, vital signs, panels, scores, social history, cultures."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Literal, NamedTuple, cast

from archqa.query.model import Aggregation, Flag, Query, ReturnedField, RowKind, ValueTest
from archqa.query.questions.everyday.asks import (
    Ask,
    Draft,
    Form,
    counts,
    fields_of,
    form_of,
    newest_of,
    position_of,
    stay_of,
    unit_of,
    use_plain_words,
)
from archqa.query.questions.everyday.clause import Account, Mark
from archqa.query.questions.everyday.declining import Declined, decline
from archqa.query.questions.everyday.names import (
    Nameable,
    Named,
    NameLimit,
    names_of,
    use_for_before_names,
)
from archqa.query.scope import Position, When
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import concept_named, related
from archqa.terminology.units import ucum_unit

_FIELDS = frozenset({"time", "elapsed", "value", "flag", "practitioner", "place"})


_REACHING = frozenset({"get", "got", "gone", "go", "went", "reach", "reached", "been", "run"})
_VALUE_WORDS = frozenset({"ex", "former", "non", "nonsmoker", "current", "smoker", "drinker"})


class MeasurementQuestion(NamedTuple):
    """A clause about results. is_dated: spans of time or a stay limit the results."""

    account: Account
    form: Form
    named: Named
    is_dated: bool

    @property
    def position(self) -> Position | None:
        """The position in time, if it names exactly one; "current" is the last one."""
        clause = self.account.clause
        values = {mark.value for mark in self.account.unused("position")}
        if clause.has("state", "current"):
            values.add("last")
        return cast("Position", values.pop()) if len(values) == 1 else None

    @property
    def is_of_any_time(self) -> bool:
        """Whether results of any time are meant, not the last one."""
        clause = self.account.clause
        return clause.has("ever") or clause.has("exists") or clause.has("span")

    @property
    def asks_flag_of_last(self) -> bool:
        """Is her potassium high: the flag of the last value is asked for."""
        clause = self.account.clause
        if not clause.has("flag") or not self.form.is_yes_no or self.is_of_any_time:
            return False
        return self.form.is_present or clause.has("position", "last")


def measurement_asks(question: MeasurementQuestion) -> tuple[Ask, ...]:
    """The asks; the position is used only if one of them holds it.

    Raises ValueError if a date or a person is asked of a summary, which has none.
    """
    account = question.account
    fields = fields_of(account, _FIELDS)
    account.use("series", "dates")
    asks = list(_summaries(question))
    if asks and set(fields) - {"value"}:
        raise ValueError("a summary has no date")
    if not asks:
        asks = list(_varied(account, _results(question, fields)))
    if any(ask.position for ask in asks):
        account.use("position")
        account.use("state", "current")
    return tuple(asks)


def _summaries(question: MeasurementQuestion) -> Iterator[Ask]:
    """A number of results, an average, or a change."""
    account = question.account
    if counts(account) or account.use("wh", "how_often"):
        yield Ask("value", "count")
        if account.use("series", "dates"):
            yield Ask("value")
    elif account.use("summary", "average"):
        account.use("series")
        yield Ask("value", "average")
    elif account.clause.has("summary", "change") or account.clause.has("trend"):
        yield from _changes(question)


def _changes(question: MeasurementQuestion) -> Iterator[Ask]:
    """How much it changed; and, where a direction or a trend is asked for, every value."""
    account = question.account
    account.use("summary", "change")
    # A change of a blood pressure would be of two numbers: its values are listed.
    if any(limit.concepts == ("blood pressure",) for limit in question.named.limits):
        account.use("trend", "any")
        account.use("series")
        yield Ask("value")
        return
    shows_values = bool(account.use("trend")) | bool(account.use("series"))
    if shows_values or question.form.is_yes_no or "much" not in account.clause.words:
        yield Ask("value")
    yield Ask("value", "change")


def _results(question: MeasurementQuestion, fields: tuple[str, ...]) -> Iterator[Ask]:
    if question.asks_flag_of_last:
        question.account.use("flag")
        yield Ask("flag", position="last")
    elif question.form.is_yes_no and not fields:
        yield _yes_no(question)
    else:
        yield from _fields(question, fields)


def _yes_no(question: MeasurementQuestion) -> Ask:
    """Whether there is any result; of what is told by its value, such as smoking, the last value.

    Whether she ever smoked is told by all values together.
    """
    has_ever = question.account.clause.has("ever")
    question.account.use("outcome")
    if not _is_status(question.named) or has_ever:
        return Ask("value", "exists", position=question.position)
    return Ask("value", position="last") if question.form.is_present else Ask("value")


def _names_one_value(question: MeasurementQuestion) -> bool:
    """Whether the words name a value of a status and not the status: "an ex-smoker"."""
    marks = question.account.clause.of("concept")
    texts = " ".join(mark.text for mark in marks).split()
    return _is_status(question.named) and bool(_VALUE_WORDS & set(texts))


def _is_status(named: Named) -> bool:
    names = {concept for limit in named.limits for concept in limit.concepts}
    return bool(names) and names <= set(related("status"))


def _fields(question: MeasurementQuestion, fields: tuple[str, ...]) -> Iterator[Ask]:
    if "time" in fields and _names_one_value(question):
        raise ValueError("when it had this value cannot be asked")
    returned = fields or ("value",)
    if set(returned) == {"time", "value"}:
        returned = ("value",)
    at = question.position or _implied_position(question, returned)
    for field in returned:
        if field == "elapsed":
            unit = unit_of(question.account.clause.of("field", "elapsed"))
            yield Ask("elapsed", position=at or "last", unit=unit)
        else:
            yield Ask(cast("ReturnedField", field), position=at)


def _implied_position(
    question: MeasurementQuestion, returned: tuple[str, ...]
) -> Literal["last"] | None:
    """The last one, unless words speak of several results, or of those of some time."""
    clause = question.account.clause
    is_series = bool(question.account.use("series")) or clause.has("history")
    is_limited = clause.has("flag") or clause.has("test")
    has_plural = any(mark.text.endswith("s") for mark in clause.of("noun", "measure"))
    if clause.has("newest"):
        return None
    if question.is_dated or is_series or is_limited or has_plural or "time" in returned:
        return None
    return "last"


def _varied(account: Account, asks: Iterable[Ask]) -> Iterator[Ask]:
    """The asks for each extreme, and for each of two positions: first and last."""
    extremes = _extremes(account)
    positions = _joined_values(account, "position")
    for ask in asks:
        for extreme in extremes:
            yield ask._replace(extreme=extreme, position=None)  # type: ignore[arg-type]
        for position in positions if len(positions) > 1 else ():
            yield ask._replace(position=position)  # type: ignore[arg-type]
        if not extremes and len(positions) < 2:
            yield ask


def _extremes(account: Account) -> tuple[str, ...]:
    """Highest and lowest; the worst where it is known which way is bad; how low it got."""
    how_far = account.use("wh", "how_high", "how_low")
    if how_far and (account.clause.has("ever") or _REACHING & account.clause.words):
        # How low did it get, how high has it ever been: not how high it is.
        account.use("verb", "visit")
        return ("maximum" if how_far[0].value == "how_high" else "minimum",)
    if not account.clause.has("extreme", "worst"):
        return _joined_values(account, "extreme")
    account.use("extreme", "worst")
    names = {each.name for each in account.clause.concepts if each.kind == "measurement"}
    worst = related("worst")
    extremes = {extreme for name in names for extreme in worst.get(name, ())}
    if len(extremes) != 1:
        raise ValueError("the record does not say which value is the worst")
    return tuple(extremes)


def _joined_values(account: Account, kind: str) -> tuple[str, ...]:
    """The values of marks that nothing has used; several must be joined by "and"."""
    values = tuple(dict.fromkeys(mark.value for mark in account.unused(kind)))
    if len(values) > 1 and not account.clause.has("join", "and"):
        return ()
    if kind == "extreme":
        account.use(kind)
    return values


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
    use_plain_words(account)
    account.use("wh", "how", "how_much")
    account.use("noun", "measure")
    account.use("verb", "measure", "do", "get", "taken", "test_positive")
    account.use("noun", "episode")
    account.use("ever")
    account.use("history")
    clause, form = account.clause, question.form
    is_last = form.is_yes_no and (question.position is not None or form.is_present)
    if clause.has("test") and is_last and not question.is_of_any_time:
        return decline("last_compared", *last_values(named))
    if clause.has("flag", "normal") and form.is_yes_no and not named:
        return decline("unnamed_normal", Query(what="lab", flag="abnormal"))
    if clause.has("field", "reason"):
        return decline("why_value", *last_values(named))
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


_DRUGS = Nameable(frozenset({"drug", "drug_class"}), frozenset())
_CULTURES = Nameable(frozenset({"measurement"}), frozenset())
_FIELDS_OF_CULTURES = frozenset({"time", "value"})


class CultureQueries(NamedTuple):
    """The queries of a clause about cultures; the same words may mean several kinds of rows."""

    asked: tuple[Query, ...]
    joined: Literal["and", "or"] = "or"

    def queries(self) -> tuple[Query, ...]:
        """The queries."""
        return self.asked


def read_cultures(account: Account) -> CultureQueries:
    """The queries of a clause about cultures. Raises ValueError if their parts contradict."""
    specimens: list[str] = []
    for mark in account.use("specimen"):
        specimens += mark.value.split("|")
    stay = stay_of(account)
    when = When(visit=stay.visit, spans=account.use_spans(), position=position_of(account))
    limits: dict[str, Any] = {"specimens": specimens, "when": when}
    if stay.companion is not None:
        limits["companion"] = stay.companion
    if account.clause.has("susceptibility"):
        return CultureQueries((_susceptibility(account, limits),))
    form = form_of(account.clause)
    fields = fields_of(account, _FIELDS_OF_CULTURES)
    is_count = counts(account)
    germs = _germs(account)
    has_grown = bool(account.use("verb", "grow")) or bool(account.use("outcome", "positive"))
    _use_words_of_cultures(account)
    cultures = names_of(account, _CULTURES)
    limits["specimens"] = (*limits["specimens"], *_specimens(cultures))
    if is_count or (form.is_yes_no and not fields):
        summary: Aggregation = "count" if is_count else "exists"
        # Whether, or in how many cultures, something grew.
        if germs:
            return CultureQueries((Query(what="organism", names=germs, summary=summary, **limits),))
        grew = True if has_grown else None
        asked = Query(what="microbiology_test", summary=summary, grew=grew, **limits)
        return CultureQueries((asked, *_as_results(cultures, limits, summary, has_grown=has_grown)))
    returned: ReturnedField = "time" if fields == ("time",) else "value"
    is_germ = has_grown or germs or _asks_for_germs(account)
    what: RowKind = "organism" if is_germ else "microbiology_test"
    asked = Query(what=what, names=germs, returns=returned, **limits)
    return CultureQueries((asked, *_as_results(cultures, limits, "each", has_grown=has_grown)))


def _as_results(
    cultures: Named, limits: dict[str, Any], summary: Aggregation, *, has_grown: bool
) -> Iterator[Query]:
    """The same of records that hold cultures as other results."""
    concepts = tuple(concept for limit in cultures.limits for concept in limit.concepts)
    if concepts:
        flag: Flag | None = "positive" if has_grown else None
        others = {name: value for name, value in limits.items() if name != "specimens"}
        yield Query(what="observation", concepts=concepts, summary=summary, flag=flag, **others)


def _specimens(cultures: Named) -> Iterator[str]:
    """What was cultured: `BLOOD` of a blood culture."""
    for limit in cultures.limits:
        for concept in limit.concepts:
            yield concept.removesuffix(" culture").upper()


def _germs(account: Account) -> tuple[str, ...]:
    """The germs that are named, as a record spells them."""
    return tuple(dict.fromkeys(mark.value for mark in account.use("germ")))


def _susceptibility(account: Account, limits: dict[str, Any]) -> Query:
    """What the germs were resistant or sensitive to: all results, or that for one drug."""
    drugs = names_of(account, _DRUGS)
    limits["organisms"] = _germs(account)
    account.use("susceptibility")
    account.use("row", "medication")
    account.use("verb", "grow")
    _use_words_of_cultures(account)
    if len(drugs.limits) > 1:
        raise ValueError("several medicines at once")
    for limit in drugs.limits:
        limits["concepts"] = limit.concepts
    return Query(what="susceptibility", returns="value", **limits)


def _use_words_of_cultures(account: Account) -> None:
    account.use("row", "microbiology", "lab")
    use_plain_words(account)
    account.use("verb", "get", "do", "measure", "find", "taken")
    account.use("noun", "measure")
    account.use("ever")
    account.use("series")


def _asks_for_germs(account: Account) -> bool:
    words = {"germ", "germs", "bug", "bugs", "organism", "organisms", "bacteria", "bacterium"}
    words |= {"pathogen", "pathogens", "microbe", "microbes"}
    return bool(words & account.clause.words)
