"""Questions about the person: age, sex, address, language, whether she is alive."""

from typing import cast

from archqa.query.model import Aggregation, ReturnedField
from archqa.query.questions.everyday.asks import Ask, use_plain_words
from archqa.query.questions.everyday.draft import Draft
from archqa.query.questions.everyday.marks import Account, Clause

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
    fields = _fields(account)
    asks_death = "died" in fields
    if asks_death:
        fields[fields.index("died")] = "death_time"
    for field, kind, values in _WORDS_OF_FIELDS:
        if field in fields:
            account.use(kind, *values)
    asks_date = "death_time" in fields and _asks_date(account)
    account.use("link", "for")
    use_plain_words(account)
    account.use("noun", "measure")
    is_yes_no = asks_death and not asks_date
    asks = tuple(_ask(field, is_yes_no=is_yes_no) for field in dict.fromkeys(fields))
    return Draft(("patient",), asks)


def _fields(account: Account) -> list[str]:
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


def _asks_date(account: Account) -> bool:
    """Whether the date of a death is asked for."""
    return bool(account.use("field", "time")) | bool(account.use("series", "dates"))


def _asks_name_too(clause: Clause) -> bool:
    """Whether "name" stands before "and" or a comma: "name and phone"."""
    named = {mark.end for mark in clause.of("noun", "named")}
    return any(mark.start in named for mark in clause.of("join"))


def _ask(field: str, *, is_yes_no: bool) -> Ask:
    """Whether she has died is another question than whether she is alive: yes is no."""
    summary: Aggregation = "exists" if is_yes_no and field == "death_time" else "each"
    return Ask(cast("ReturnedField", field), summary)
