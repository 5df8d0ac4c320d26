"""What is asked of results: the last value, all of them, a number, an extreme, a change."""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, cast

from archqa.query.model import ReturnedField
from archqa.query.questions.everyday.asks import Ask, Form, counts, fields_of, unit_of
from archqa.query.questions.everyday.marks import Account
from archqa.query.questions.everyday.naming import Named
from archqa.query.scope import Position
from archqa.terminology.concepts import related

_FIELDS = frozenset({"time", "elapsed", "value", "flag", "practitioner", "place"})


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
    if _has_two_parts(question.named):
        account.use("trend", "any")
        account.use("series")
        yield Ask("value")
        return
    shows_values = bool(account.use("trend")) | bool(account.use("series"))
    if shows_values or question.form.is_yes_no or "much" not in account.clause.words:
        yield Ask("value")
    yield Ask("value", "change")


def _has_two_parts(named: Named) -> bool:
    """Whether a change would be of two numbers; the values are listed then."""
    return any(limit.concepts == ("blood pressure",) for limit in named.limits)


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
    if _asks_how_far(account):
        marks = account.use("wh", "how_high", "how_low")
        account.use("verb", "visit")
        return ("maximum" if marks[0].value == "how_high" else "minimum",)
    account.use("wh", "how_high", "how_low")
    if not account.clause.has("extreme", "worst"):
        return _joined_values(account, "extreme")
    account.use("extreme", "worst")
    names = {each.name for each in account.clause.concepts if each.kind == "measurement"}
    worst = related("worst")
    extremes = {extreme for name in names for extreme in worst.get(name, ())}
    if len(extremes) != 1:
        raise ValueError("the record does not say which value is the worst")
    return tuple(extremes)


def _asks_how_far(account: Account) -> bool:
    """How low did it get, how high has it ever been: not how high it is."""
    clause = account.clause
    if not clause.has("wh", "how_high", "how_low"):
        return False
    words = {"get", "got", "gone", "go", "went", "reach", "reached", "been", "run"}
    return bool(words & clause.words) or clause.has("ever")


def _joined_values(account: Account, kind: str) -> tuple[str, ...]:
    """The values of marks that nothing has used; several must be joined by "and"."""
    values = tuple(dict.fromkeys(mark.value for mark in account.unused(kind)))
    if len(values) > 1 and not account.clause.has("join", "and"):
        return ()
    if kind == "extreme":
        account.use(kind)
    return values
