"""Questions about all other kinds of rows: problems, procedures, allergies, vaccines, plans.

What each kind accepts stands in `data/kinds_of_rows.tsv`.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, cast

from archqa.core.tables import read_rows
from archqa.query.model import Aggregation, Query, ReturnedField, RowKind, State
from archqa.query.questions.everyday.asks import (
    Ask,
    Draft,
    Form,
    Stay,
    asks_last_time,
    counts,
    fields_of,
    form_of,
    may_have_position,
    newest_of,
    plain_field,
    position_of,
    state_of,
    stay_of,
    unit_of,
    use_past,
    use_plain_words,
)
from archqa.query.questions.everyday.clause import Account, Clause
from archqa.query.questions.everyday.declining import Declined, decline
from archqa.query.questions.everyday.names import (
    Nameable,
    Named,
    NameLimit,
    names_of,
    reasons_of,
    use_for_before_names,
)
from archqa.terminology.concepts import find_concepts, related
from archqa.terminology.matching import expand
from archqa.terminology.words import common_forms


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
    spans = account.use_spans()
    return Draft(
        (what,), asks, named, spans, stay, {"reasons": reasons, "newest": newest_of(account)}
    )


def _dates(kind: GeneralKind, named: Named) -> Iterator[Query]:
    """Since when each named thing is there."""
    for limit in named.limits:
        yield Query(what=kind.what, names=limit.names, concepts=limit.concepts, returns="time")


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
    # "History of asthma" asks whether there was any; "allergy history" asks for all.
    has_history_of = any("of" in mark.text.split() for mark in account.clause.of("history"))
    asks_history_of = has_history_of and not fields and named and not form.tense
    if form.is_yes_no or asks_history_of:
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


def _implied_state(account: Account, kind: GeneralKind, form: Form, ask: Ask) -> State | None:
    """What somebody has is current; what she had or has had may have ended."""
    if not kind.is_current_in_present or account.clause.has("ever"):
        return None
    asks_history = account.clause.has("history") or account.clause.has("row", "history")
    if asks_history or account.clause.has("span"):
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


_DRUGS = frozenset({"drug", "drug_class"})


def read_allergies(account: Account) -> Draft | Declined:
    """The queries of a clause about allergies."""
    categories = {mark.value for mark in account.use("category")}
    if categories and not _are_all(account, categories):
        return decline("category", Query(what="allergy", returns="name"))
    return read_general_rows(account, "allergy")


def _are_all(account: Account, categories: set[str]) -> bool:
    """Whether every allergy of the patient is of the category that is asked for."""
    allergens = account.vocabulary.own("allergy")
    if categories != {"drug"}:
        return not allergens
    for allergen in allergens:
        kinds = {match.concept.kind for match in find_concepts(allergen)}
        if kinds.isdisjoint(_DRUGS):
            return False
    return True


def read_care_plans(account: Account) -> Draft | Declined:
    """The queries of a clause about care plans."""
    draft = read_general_rows(account, "care_plan")
    if isinstance(draft, Declined):
        return draft
    named = Named(tuple(map(_of_condition, draft.named.limits)), draft.named.joined)
    draft = draft._replace(named=named)
    if len(named.limits) != 1 or len(draft.asks) != 1:
        return draft
    return draft._replace(reasons_instead_of_names=tuple(_reasons(named.limits[0])))


def _of_condition(limit: NameLimit) -> NameLimit:
    """The limit with the condition whose values a measurement tells: cholesterol, sugar."""
    conditions = related("condition of measurement")
    names = [name for each in limit.concepts for name in conditions.get(each, (each,))]
    return limit._replace(concepts=tuple(names))


def _reasons(limit: NameLimit) -> Iterator[str]:
    yield from limit.concepts
    yield from limit.names


_IMAGING = frozenset(
    {"chest x-ray", "x-ray", "ct scan", "mri scan", "ultrasound", "mammogram", "echocardiogram"}
    | {"bone density scan"}
)
"""Procedures that a record may hold as imaging studies."""


def read_procedures(account: Account) -> Draft | Declined:
    """The queries of a clause about procedures."""
    draft = read_general_rows(account, "procedure")
    if isinstance(draft, Declined) or len(draft.asks) > 1 or len(draft.named.limits) != 1:
        return draft
    concepts = account.clause.of("concept")
    if any(common_forms(mark.text) in _devices() for mark in concepts):
        return draft._replace(kinds=("procedure", "device"))
    if set(draft.named.limits[0].concepts) & _IMAGING:
        return draft._replace(kinds=("procedure", "imaging"))
    return draft


@cache
def _devices() -> frozenset[tuple[str, ...]]:
    rows = read_rows("terminology/data/items.tsv", 3)
    forms = (form for kind, cell, _ in rows if kind == "device" for form in expand(cell))
    return frozenset(map(common_forms, forms))


_WORDS_OF_FIELDS = (
    ("alive", "still", ()),
    ("alive", "state", ("current",)),
    ("age", "state", ("current",)),
    ("birth_date", "field", ("time",)),
    ("practitioner", "field", ("practitioner",)),
)
"""Marks that go with a field: still alive, current age, who is her doctor."""


def read_person(account: Account) -> Draft:
    """The queries of a clause about the person: one for each field. Raises ValueError."""
    fields = _fields_of_person(account)
    asks_death = "died" in fields
    if asks_death:
        fields[fields.index("died")] = "death_time"
    for field, kind, values in _WORDS_OF_FIELDS:
        if field in fields:
            account.use(kind, *values)
    asks_date = False
    if "death_time" in fields:
        asks_date = bool(account.use("field", "time") + account.use("series", "dates"))
    account.use("link", "for")
    use_plain_words(account)
    account.use("noun", "measure")
    is_yes_no = asks_death and not asks_date
    asks = tuple(_ask_of_person(field, is_yes_no=is_yes_no) for field in dict.fromkeys(fields))
    return Draft(("patient",), asks)


def _fields_of_person(account: Account) -> list[str]:
    """The fields that are asked for, each once. Raises ValueError where a word stands for nothing."""
    marks = account.use("person")
    fields = list(dict.fromkeys(mark.value for mark in marks))
    is_joined = account.clause.has("join")
    if len(fields) < len(marks) and not is_joined:
        raise ValueError("two words for one thing: the family's doctor is another one")
    if is_joined and account.clause.has("noun", "named"):
        if not _asks_name_too(account.clause):
            raise ValueError("a name of what is not clear")
        fields = ["patient_name", *(field for field in fields if field != "patient_name")]
    if "contact" in fields:  # Who is to be contacted stands there with the telephone number.
        fields = [field for field in fields if field not in {"phone", "address"}]
    return fields


def _asks_name_too(clause: Clause) -> bool:
    """Whether "name" stands before "and" or a comma: "name and phone"."""
    named = {mark.end for mark in clause.of("noun", "named")}
    return any(mark.start in named for mark in clause.of("join"))


def _ask_of_person(field: str, *, is_yes_no: bool) -> Ask:
    """Whether she has died is another question than whether she is alive: yes is no."""
    summary: Aggregation = "exists" if is_yes_no and field == "death_time" else "each"
    return Ask(cast("ReturnedField", field), summary)
