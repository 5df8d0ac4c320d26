"""Questions about cultures: whether anything grew, what, and what it was resistant to."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from archqa.query.model import Aggregation, Flag, Query, ReturnedField, RowKind
from archqa.query.questions.everyday.asks import (
    counts,
    fields_of,
    form_of,
    position_of,
    use_plain_words,
)
from archqa.query.questions.everyday.marks import Account
from archqa.query.questions.everyday.naming import Nameable, Named, names_of
from archqa.query.questions.everyday.stays import stay_of
from archqa.query.scope import When

_DRUGS = Nameable(frozenset({"drug", "drug_class"}), frozenset())
_CULTURES = Nameable(frozenset({"measurement"}), frozenset())
_FIELDS = frozenset({"time", "value"})


class CultureQueries(NamedTuple):
    """The queries of a clause about cultures; the same words may mean several kinds of rows."""

    asked: tuple[Query, ...]
    joined: Literal["and", "or"] = "or"

    def queries(self) -> tuple[Query, ...]:
        """The queries."""
        return self.asked


def read_cultures(account: Account) -> CultureQueries:
    """The queries of a clause about cultures. Raises ValueError if their parts contradict."""
    limits = _limits(account)
    if account.clause.has("susceptibility"):
        return CultureQueries((_susceptibility(account, limits),))
    form = form_of(account.clause)
    fields = fields_of(account, _FIELDS)
    is_count = counts(account)
    germs = _germs(account)
    has_grown = bool(account.use("verb", "grow")) or bool(account.use("outcome", "positive"))
    _use_words(account)
    cultures = names_of(account, _CULTURES)
    limits["specimens"] = (*limits["specimens"], *_specimens(cultures))
    if is_count or (form.is_yes_no and not fields):
        summary: Aggregation = "count" if is_count else "exists"
        return _whether_grown(cultures, germs, summary, limits, has_grown=has_grown)
    returned: ReturnedField = "time" if fields == ("time",) else "value"
    is_germ = has_grown or germs or _asks_for_germs(account)
    what: RowKind = "organism" if is_germ else "microbiology_test"
    asked = Query(what=what, names=germs, returns=returned, **limits)
    return CultureQueries((asked, *_as_results(cultures, limits, "each", has_grown=has_grown)))


def _whether_grown(
    cultures: Named,
    germs: tuple[str, ...],
    summary: Aggregation,
    limits: dict[str, Any],
    *,
    has_grown: bool,
) -> CultureQueries:
    """Whether, or in how many cultures, something grew."""
    if germs:
        return CultureQueries((Query(what="organism", names=germs, summary=summary, **limits),))
    grew = True if has_grown else None
    asked = Query(what="microbiology_test", summary=summary, grew=grew, **limits)
    return CultureQueries((asked, *_as_results(cultures, limits, summary, has_grown=has_grown)))


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


def _limits(account: Account) -> dict[str, Any]:
    """Specimens, stay, spans and position."""
    marks = account.use("specimen")
    specimens = tuple(name for mark in marks for name in mark.value.split("|"))
    stay = stay_of(account)
    when = When(visit=stay.visit, spans=account.use_spans(), position=position_of(account))
    limits: dict[str, Any] = {"specimens": specimens, "when": when}
    if stay.companion is not None:
        limits["companion"] = stay.companion
    return limits


def _susceptibility(account: Account, limits: dict[str, Any]) -> Query:
    """What the germs were resistant or sensitive to: all results, or that for one drug."""
    drugs = names_of(account, _DRUGS)
    limits["organisms"] = _germs(account)
    account.use("susceptibility")
    account.use("row", "medication")
    account.use("verb", "grow")
    _use_words(account)
    if len(drugs.limits) > 1:
        raise ValueError("several medicines at once")
    for limit in drugs.limits:
        limits["concepts"] = limit.concepts
    return Query(what="susceptibility", returns="value", **limits)


def _use_words(account: Account) -> None:
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
