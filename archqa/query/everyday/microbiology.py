"""Questions about cultures: whether anything grew, what, and what it was resistant to."""

from typing import Any, NamedTuple

from archqa.query.everyday.asks import counts, fields_of, form_of, position_of, use_plain_words
from archqa.query.everyday.marks import Account
from archqa.query.everyday.naming import Nameable, names_of
from archqa.query.everyday.stays import stay_of
from archqa.query.model import Query, ReturnedField
from archqa.query.scope import When

_DRUGS = Nameable(frozenset({"drug", "drug_class"}), frozenset())
_ORGANISMS = Nameable(frozenset({"condition"}), frozenset({"observation"}))
_FIELDS = frozenset({"time", "value"})


class CultureQueries(NamedTuple):
    """The queries of a clause about cultures; the same words may mean several kinds of rows."""

    asked: tuple[Query, ...]
    joined: Any = "or"

    def queries(self) -> tuple[Query, ...]:
        """The queries."""
        return self.asked


def read_cultures(account: Account) -> CultureQueries:
    """The queries of a clause about cultures. Raises ValueError if their parts contradict."""
    form = form_of(account.clause)
    limits = _limits(account)
    if account.clause.has("susceptibility"):
        return CultureQueries((_susceptibility(account, limits),))
    fields = fields_of(account, _FIELDS)
    is_count = counts(account)
    has_grown = bool(account.use("verb", "grow")) or bool(account.use("outcome", "positive"))
    is_yes_no = form.is_yes_no and not fields
    account.use("row", "microbiology", "lab")
    _use_words(account)
    if is_count or is_yes_no:
        summary = "count" if is_count else "exists"
        grew = True if has_grown else None
        asked = Query(what="microbiology_test", summary=summary, grew=grew, **limits)
        return CultureQueries((asked,))
    returned: ReturnedField = "time" if fields == ("time",) else "value"
    what = "organism" if has_grown or _asks_for_germs(account) else "microbiology_test"
    return CultureQueries((Query(what=what, returns=returned, **limits),))


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
    organisms = names_of(account, _ORGANISMS)
    drugs = names_of(account, _DRUGS)
    account.use("susceptibility")
    account.use("row", "microbiology", "medication")
    _use_words(account)
    if len(organisms.limits) > 1 or len(drugs.limits) > 1:
        raise ValueError("several germs or medicines at once")
    if organisms:
        limit = organisms.limits[0]
        limits["organisms"] = (*limit.names, *limit.concepts)
    for limit in drugs.limits:
        limits["concepts"] = limit.concepts
    return Query(what="susceptibility", returns="value", **limits)


def _use_words(account: Account) -> None:
    use_plain_words(account)
    account.use("verb", "get", "do", "measure", "find", "taken")
    account.use("noun", "measure")
    account.use("ever")
    account.use("series")


def _asks_for_germs(account: Account) -> bool:
    words = {"germ", "germs", "bug", "bugs", "organism", "organisms", "bacteria", "bacterium"}
    words |= {"pathogen", "pathogens", "microbe", "microbes"}
    return bool(words & account.clause.words)
