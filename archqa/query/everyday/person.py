"""Questions about the person: age, sex, address, language, whether she is alive."""

from typing import cast

from archqa.query.everyday.asks import Ask, use_plain_words
from archqa.query.everyday.draft import Draft
from archqa.query.everyday.marks import Account
from archqa.query.model import Aggregation, ReturnedField


def read_person(account: Account) -> Draft:
    """The queries of a clause about the person: one for each field."""
    marks = account.use("person")
    fields = list(dict.fromkeys(mark.value for mark in marks))
    if "contact" in fields:  # Who is to be contacted stands there with the telephone number.
        fields = [field for field in fields if field not in {"phone", "address"}]
    asks_death = "died" in fields
    if asks_death:
        fields[fields.index("died")] = "death_time"
    asks_date = bool(account.use("field", "time")) if "death_time" in fields else False
    if "alive" in fields:
        account.use("still")
        account.use("state", "current")
    if "birth_date" in fields:
        account.use("field", "time")
    if "practitioner" in fields:
        account.use("field", "practitioner")
    if "age" in fields:
        account.use("state", "current")
    if asks_death and account.use("series", "dates"):
        asks_date = True
    account.use("link", "for")
    use_plain_words(account)
    account.use("join")
    account.use("noun", "measure")
    is_yes_no = asks_death and not asks_date
    asks = tuple(_ask(field, is_yes_no=is_yes_no) for field in dict.fromkeys(fields))
    return Draft(("patient",), asks)


def _ask(field: str, *, is_yes_no: bool) -> Ask:
    """Whether she has died is another question than whether she is alive: yes is no."""
    summary: Aggregation = "exists" if is_yes_no and field == "death_time" else "each"
    return Ask(cast("ReturnedField", field), summary)
