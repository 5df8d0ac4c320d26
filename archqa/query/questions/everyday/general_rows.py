"""Questions about all other kinds of rows: problems, procedures, allergies, vaccines, plans.

What each kind accepts stands in `data/kinds_of_rows.tsv`.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, cast

from archqa.core.tables import read_rows
from archqa.query.model import Query, ReturnedField, RowKind, State
from archqa.query.questions.everyday.asks import (
    Ask,
    Form,
    asks_last_time,
    counts,
    fields_of,
    form_of,
    may_have_position,
    newest_of,
    plain_field,
    position_of,
    state_of,
    unit_of,
    use_past,
    use_plain_words,
)
from archqa.query.questions.everyday.declining import decline
from archqa.query.questions.everyday.draft import Draft
from archqa.query.questions.everyday.marks import Account
from archqa.query.questions.everyday.naming import Nameable, Named, names_of, use_for_before_names
from archqa.query.questions.everyday.reading import Declined
from archqa.query.questions.everyday.reasons import reasons_of
from archqa.query.questions.everyday.stays import Stay, stay_of


class GeneralKind(NamedTuple):
    """What a kind of rows accepts.

    concepts: kinds of concepts that name its rows. listed, named: the field returned of a list,
    and of rows that a name without further words asks for. has_object: "for" leads to a name.
    """

    what: RowKind
    concepts: frozenset[str]
    listed: ReturnedField
    named: ReturnedField
    fields: frozenset[str]
    verbs: frozenset[str]
    has_reason: bool
    is_current_in_present: bool
    in_stays: bool
    can_end: bool
    has_object: bool

    @property
    def nameable(self) -> Nameable:
        """What names its rows."""
        return Nameable(self.concepts, frozenset({self.what}))


def read_general_rows(account: Account, what: RowKind) -> Draft | Declined:
    """The queries of a clause about rows of a kind of the table."""
    kind = general_kinds()[what]
    form = form_of(account.clause)
    named = names_of(account, kind.nameable)
    if what == "procedure":
        use_for_before_names(account, kind.nameable)
    if account.clause.has("field", "reason") and not kind.has_reason:
        return decline("why_value", *_dates(kind, named))
    reasons = reasons_of(account) if kind.has_reason else ()
    stay = stay_of(account) if kind.in_stays else Stay()
    asks = tuple(_asks(account, kind, form, named))
    _use_words(account, kind)
    spans = account.use_spans()
    return Draft(
        (what,), asks, named, spans, stay, {"reasons": reasons, "newest": newest_of(account)}
    )


def _dates(kind: GeneralKind, named: Named) -> Iterator[Query]:
    """Since when each named thing is there."""
    for limit in named.limits:
        yield Query(what=kind.what, names=limit.names, concepts=limit.concepts, returns="time")


def _use_words(account: Account, kind: GeneralKind) -> None:
    use_plain_words(account)
    account.use("row", kind.what)
    if kind.what == "diagnosis":
        account.use("row", "history")
    if kind.has_object:
        account.use("link", "for")
    account.use("verb", *kind.verbs, "test_positive")
    account.use("noun", "episode")
    account.use("ever")
    account.use("series")
    account.use("history")


def _asks(account: Account, kind: GeneralKind, form: Form, named: Named) -> Iterator[Ask]:
    asks = tuple(_open_asks(account, kind, form, named))
    position = position_of(account) if may_have_position(account, asks) else None
    if not kind.can_end:
        use_past(account)
    state = state_of(account) if kind.can_end else None
    for ask in asks:
        now = _implied_state(account, kind, form, ask)
        at = None if ask.summary == "count" else position or ask.position
        yield ask._replace(position=at, state=ask.state or state or now)


def _open_asks(account: Account, kind: GeneralKind, form: Form, named: Named) -> Iterator[Ask]:
    """What is asked, before position and state of the whole clause."""
    has_ended = _use_end(account, kind)
    if counts(account) or account.use("wh", "how_often"):
        account.use("field", "dose")
        yield Ask(kind.listed, "count")
        if account.clause.has("position") and account.clause.has("join"):
            yield Ask("time")
        return
    fields = [plain_field(field) for field in fields_of(account, kind.fields)]
    if not fields and asks_last_time(account):
        fields = ["time"]
    if "elapsed" in kind.fields and account.use("wh", "how_long") and "elapsed" not in fields:
        yield Ask("elapsed", position="first")
        return
    is_had = not fields and named and not form.tense and "of" in _words_of_history(account)
    if form.is_yes_no or is_had:
        yield Ask(kind.named, "exists", state="ended" if has_ended else None)
    elif not fields:
        yield Ask(kind.named if named else kind.listed)
    for field in dict.fromkeys(fields):
        yield _field(account, kind, field, has_ended=has_ended)


def _use_end(account: Account, kind: GeneralKind) -> bool:
    """Whether the end of rows is asked for: resolved, went away, ended."""
    if "end_time" not in kind.fields:
        return False
    is_ended = account.clause.has("field", "time") and account.clause.has("state", "ended")
    return bool(account.use("verb", "resolve", "stop")) or is_ended


def _field(account: Account, kind: GeneralKind, field: str, *, has_ended: bool) -> Ask:
    if field == "time" and has_ended:
        return Ask("end_time", state="ended")
    if field == "time" and kind.what != "diagnosis" and account.clause.has("verb", "start"):
        return Ask("time", position="first")
    if field == "elapsed":
        unit = unit_of(account.clause.of("field", "elapsed"))
        return Ask("elapsed", position="last", unit=unit)
    return Ask(cast("ReturnedField", field))


def _words_of_history(account: Account) -> frozenset[str]:
    """ "History of asthma" asks whether there was any; "allergy history" asks for all."""
    return frozenset(word for mark in account.clause.of("history") for word in mark.text.split())


def _asks_history(account: Account) -> bool:
    return account.clause.has("history") or account.clause.has("row", "history")


def _implied_state(account: Account, kind: GeneralKind, form: Form, ask: Ask) -> State | None:
    """What somebody has is current; what she had or has had may have ended."""
    if not kind.is_current_in_present or account.clause.has("ever"):
        return None
    if _asks_history(account) or account.clause.has("span"):
        return None
    if ask.summary == "count" and "have" not in account.clause.words:
        return None
    is_date = ask.returns in {"time", "end_time"} and ask.summary != "exists"
    if account.clause.has("position") or is_date:
        return None
    if form.is_present:
        return "current"
    is_bare_list = not form.tense and not form.is_yes_no and ask.returns == kind.listed
    is_named = account.clause.has("concept") or account.clause.has("name")
    return "current" if is_bare_list and not is_named else None


@cache
def general_kinds() -> dict[str, GeneralKind]:
    """The kinds of `data/kinds_of_rows.tsv`."""
    return {
        row[0]: _general_kind(row)
        for row in read_rows("query/questions/everyday/data/kinds_of_rows.tsv", 7)
    }


def _general_kind(row: tuple[str, ...]) -> GeneralKind:
    what, concepts, listed, named, fields, verbs, traits = row
    return GeneralKind(
        what=cast("RowKind", what),
        concepts=frozenset(concepts.split()) - {"-"},
        listed=cast("ReturnedField", listed),
        named=cast("ReturnedField", named),
        fields=frozenset(fields.split()),
        verbs=frozenset(verbs.split()),
        has_reason="reason" in fields.split(),
        is_current_in_present="current" in traits.split(),
        in_stays="stays" in traits.split(),
        can_end="ends" in traits.split(),
        has_object="for" in traits.split(),
    )
