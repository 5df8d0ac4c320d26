"""Questions about medicines: which, since when, at what dose, what for, still or stopped."""

from collections.abc import Iterator

from archqa.query.model import Query, RowKind, State
from archqa.query.questions.everyday.asks import (
    Ask,
    Draft,
    Form,
    asks_last_time,
    counts,
    fields_of,
    form_of,
    may_have_position,
    plain_field,
    position_of,
    state_of,
    stay_of,
    unit_of,
    use_plain_words,
)
from archqa.query.questions.everyday.clause import Account
from archqa.query.questions.everyday.declining import Declined, decline
from archqa.query.questions.everyday.names import (
    Nameable,
    Named,
    named_marks,
    names_of,
    reasons_of,
    use_for_before_names,
)

DRUGS = Nameable(frozenset({"drug", "drug_class"}), frozenset({"medication", "administration"}))
_FIELDS = frozenset(
    {"dose", "frequency", "reason", "for_what", "time", "elapsed", "practitioner", "route"}
    | {"status", "place"}
)
_OF_ORDERS = frozenset({"dose", "frequency", "reason", "practitioner", "status", "place"})
"""Fields that an order has, and a dose that was given usually has not."""

_OF_GIVING = ("give", "administer", "get")
"""With these verbs a dose is what was given, not its strength: when was the last dose given."""


_TAKING = frozenset({"on", "take", "takes", "taking", "use", "uses", "using"})


def read_medications(account: Account) -> Draft | Declined:
    """The queries of a clause about medicines."""
    form = form_of(account.clause)
    compounds = account.clause.of("row", "medication") + named_marks(account.clause, DRUGS)
    reasons = reasons_of(account, compounds=compounds)
    named = names_of(account, DRUGS)
    use_for_before_names(account, DRUGS)
    clause = account.clause
    is_change = clause.has("verb", "stop") or clause.has("state", "ended")
    if clause.has("field", "reason") and (is_change or clause.has("summary", "change")):
        return decline("why_stopped", *orders(named))
    stay = stay_of(account)
    asks = tuple(_asks(account, form, named))
    kinds = _kinds(account, named, asks)
    use_plain_words(account)
    account.use("row", "medication")
    account.use(
        "verb",
        "take",
        "taken",
        "use",
        "order",
        "administer",
        "give",
        "get",
        "treat",
        "start",
        "put",
    )
    account.use("ever")
    account.use("series")
    account.use("history")
    spans = account.use_spans()
    return Draft(kinds, asks, named, spans, stay, {"reasons": reasons})


def orders(named: Named) -> Iterator[Query]:
    """The orders of each name, with their status."""
    for limit in named.limits[:2]:
        yield Query(what="medication", names=limit.names, concepts=limit.concepts, returns="status")


def _asks(account: Account, form: Form, named: Named) -> Iterator[Ask]:
    clause = account.clause
    has_end = clause.has("verb", "stop") or clause.has("state", "ended")
    if has_end and form.is_yes_no and named_marks(clause, DRUGS) and not clause.has("field"):
        # Was metformin stopped: there are ended orders; and is there a current one.
        account.use("verb", "stop")
        account.use("state", "ended")
        yield Ask("name", "exists", state="ended")
        yield Ask("name", "exists", state="current")
        return
    asks = tuple(_open_asks(account, form, named))
    position = position_of(account) if may_have_position(account, asks) else None
    state = state_of(account) or _implied_state(account, form, named)
    for ask in asks:
        at = position or ask.position
        yield ask._replace(position=at, state=ask.state or state)


def _open_asks(account: Account, form: Form, named: Named) -> Iterator[Ask]:
    """What is asked, before position and state of the whole clause."""
    if counts(account):
        yield _count(account)
        return
    fields = _fields(account)
    lasts_until_now = form.is_present or form.tense == "perfect"
    if not fields and named and lasts_until_now and account.use("wh", "how_long"):
        yield Ask("elapsed", position="first", state="current")
        return
    if form.is_yes_no:
        yield Ask("name", "exists")
    elif not fields:
        yield Ask("name")
    for field in fields:
        yield _field(account, field)


def _fields(account: Account) -> tuple[str, ...]:
    """The fields that are asked for, in plain words or by how much and how often."""
    fields = dict.fromkeys(map(plain_field, fields_of(account, _FIELDS)))
    if {"time", "dose"} <= fields.keys() and account.clause.has("verb", *_OF_GIVING):
        del fields["dose"]
    if not fields and asks_last_time(account):
        fields["time"] = None
    if not fields and named_marks(account.clause, DRUGS) and _asks_what_it_treats(account):
        fields["reason"] = None
    if account.use("wh", "how_much"):
        fields = {"dose": None, **fields}
    if account.use("wh", "how_often"):
        fields["frequency"] = None
    return tuple(fields)


def _asks_what_it_treats(account: Account) -> bool:
    """What is the propranolol treating."""
    clause = account.clause
    return clause.has("verb", "treat") and clause.has("wh", "what") and not clause.has("link")


def _field(account: Account, field: str) -> Ask:
    clause = account.clause
    if field == "time" and (clause.has("verb", "stop") or clause.has("state", "ended")):
        account.use("verb", "stop")
        return Ask("end_time", state="ended")
    if field == "time" and clause.has("verb", "start"):
        return Ask("time", position="first")
    if field == "elapsed":
        return Ask("elapsed", position="last", unit=unit_of(clause.of("field", "elapsed")))
    if field == "dose" and not clause.has("verb", "take", "use") and not clause.has("span"):
        has_state = clause.has("state") or clause.has("still")
        return Ask("dose", position=None if has_state else "last")
    return Ask(field)  # type: ignore[arg-type]


def _count(account: Account) -> Ask:
    """How many times is a number of orders, how many medicines one of names."""
    words = {word for mark in account.clause.of("summary", "count") for word in mark.text.split()}
    if words & {"times", "occasions"} or _names_orders(account):
        return Ask("name", "count")
    return Ask("name", "count_distinct")


def _names_orders(account: Account) -> bool:
    """Whether prescriptions are asked for, not medicines."""
    nouns = {word for mark in account.clause.of("row", "medication") for word in mark.text.split()}
    return bool(nouns & {"prescription", "prescriptions", "rx", "orders"})


def _implied_state(account: Account, form: Form, named: Named) -> State | None:
    """What somebody takes is current; so is a bare list of medicines."""
    clause = account.clause
    if clause.has("ever") or clause.has("span") or clause.has("position"):
        return None
    if clause.has("history") or clause.has("during") or clause.has("class"):
        return None
    if form.is_present:
        is_of_order = clause.has("field") and not clause.words & _TAKING
        return None if named and is_of_order else "current"
    is_bare = not form.tense and not named and not clause.has("verb")
    return "current" if is_bare and not clause.has("exists") else None


def _kinds(account: Account, named: Named, asks: tuple[Ask, ...]) -> tuple[RowKind, ...]:
    """Orders; of what may have been given in hospital, the doses given as well."""
    clause = account.clause
    if clause.has("verb", "administer"):
        return ("administration",)
    is_given = bool(named) or clause.has("verb", "give")
    is_of_order = clause.has("verb", "order") or not is_given or _names_orders(account)
    states = {ask.state for ask in asks}
    fields = {ask.returns for ask in asks}
    if is_of_order or states != {None} or fields & _OF_ORDERS or len(asks) > 1:
        return ("medication",)
    if clause.has("summary") or len(named.limits) > 1:
        return ("medication",)
    return ("medication", "administration")
