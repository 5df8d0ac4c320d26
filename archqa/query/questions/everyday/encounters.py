"""Questions about visits: emergency, hospital, office; when, where, with whom and what for."""

from collections.abc import Iterator

from archqa.query.model import Aggregation, VisitClass
from archqa.query.questions.everyday.asks import (
    Ask,
    Draft,
    Form,
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
from archqa.query.questions.everyday.clause import Account
from archqa.query.questions.everyday.names import Nameable, names_of, reasons_of

_NAMED = Nameable(frozenset(), frozenset({"encounter"}))
_FIELDS = frozenset(
    {"time", "end_time", "elapsed", "length_of_stay", "practitioner", "place", "reason"}
    | {"for_what", "visit_type", "discharge_destination", "status"}
)
_CLASSES: dict[str, tuple[VisitClass, ...]] = {
    "emergency": ("emergency",),
    "inpatient": ("inpatient",),
    "hospital": ("inpatient", "emergency"),
    "icu": ("icu",),
    "ambulatory": ("ambulatory",),
    "virtual": ("virtual",),
    "home": ("home",),
}


def read_encounters(account: Account) -> Draft:
    """The queries of a clause about visits."""
    form = form_of(account.clause)
    classes = _classes(account)
    compounds = account.clause.of("row", "encounter") + account.clause.of("class")
    reasons = reasons_of(account, compounds=compounds)
    named = names_of(account, _NAMED)
    asks = tuple(_asks(account, form))
    use_plain_words(account)
    account.use("row", "encounter")
    account.use("verb", "visit", "get", "taken", "stay", "take")
    account.use("noun", "episode")
    account.use("stay")
    account.use("ever")
    account.use("series")
    if account.clause.has("field", "practitioner"):
        account.use("link", "with")  # "Who was her last visit with".
    limits: dict[str, object] = {"classes": classes, "reasons": reasons}
    if len(account.clause.of("per")) == 1:
        limits["per"] = account.use("per")[0].value
    limits["newest"] = newest_of(account)
    return Draft(("encounter",), asks, named, account.use_spans(), limits=limits)


def _classes(account: Account) -> tuple[VisitClass, ...]:
    """The classes; of several only those that "or" or "and" joins, or the intensive care unit."""
    marks = account.clause.of("class")
    if not marks and _is_about_stays(account):
        return ("inpatient",)
    values = {mark.value for mark in marks}
    if values == {"icu", "inpatient"}:
        values = {"icu"}
    elif len(values) > 1 and not account.clause.has("join"):
        account.use_marks(marks[:1])
        return _CLASSES[marks[0].value]
    account.use_marks(marks)
    classes = [name for value in _CLASSES if value in values for name in _CLASSES[value]]
    return tuple(dict.fromkeys(classes))


def _is_about_stays(account: Account) -> bool:
    clause = account.clause
    fields = clause.has("field", "discharge_destination", "length_of_stay")
    return fields or clause.has("verb", "discharge", "stay") or clause.has("stay")


def _asks(account: Account, form: Form) -> Iterator[Ask]:
    asks = tuple(_open_asks(account, form))
    position = position_of(account) if may_have_position(account, asks) else None
    use_past(account)
    state = state_of(account, may_end=False)
    for ask in asks:
        is_now = form.asks_now and ask.summary == "exists" and not account.clause.has("ever")
        if is_now and account.clause.has("class", "inpatient", "icu"):
            state = state or "current"
        yield ask._replace(position=position or ask.position, state=state)


def _open_asks(account: Account, form: Form) -> Iterator[Ask]:
    how_often = account.use("wh", "how_often")
    lengths = account.use("length")
    if lengths:
        # The longest or the shortest stay.
        account.use("field", "length_of_stay")
        account.use("wh", "how_long")
        summary: Aggregation = "maximum" if lengths[0].value == "longest" else "minimum"
        yield Ask("length_of_stay", summary)
        return
    if counts(account) or how_often or account.clause.has("per"):
        yield Ask("time", "count")
        return
    fields = _fields_of_visits(account)
    if form.is_yes_no:
        yield Ask("time", "exists")
    elif not fields:
        yield Ask("time")
    for field in dict.fromkeys(fields):
        yield _field(account, field)


def _fields_of_visits(account: Account) -> list[str]:
    """The fields that are asked for; where somebody was discharged to is no place of the visit."""
    fields = [plain_field(each) for each in fields_of(account, _FIELDS)]
    if account.use("wh", "how_long") and "elapsed" not in fields:
        fields.append("length_of_stay")
    if "time" in fields and account.use("verb", "discharge"):
        fields[fields.index("time")] = "end_time"
    if "place" in fields and account.use("verb", "discharge"):
        fields[fields.index("place")] = "discharge_destination"
    if "discharge_destination" in fields:
        account.use("verb", "discharge")
    return fields


def _field(account: Account, field: str) -> Ask:
    if field == "elapsed":
        unit = unit_of(account.clause.of("field", "elapsed"))
        return Ask("elapsed", position="last", unit=unit)
    if field == "length_of_stay":
        marks = account.clause.of("wh", "how_long") + account.clause.of("field", "length_of_stay")
        return Ask("length_of_stay", unit=unit_of(marks))
    return Ask(field)  # type: ignore[arg-type]
