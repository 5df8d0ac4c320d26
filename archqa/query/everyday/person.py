"""Questions about the person: age, sex, address, language, whether she is alive."""

from archqa.query.everyday.asks import Ask, use_plain_words
from archqa.query.everyday.draft import Draft
from archqa.query.everyday.marks import Account


def read_person(account: Account) -> Draft:
    """The queries of a clause about the person: one for each field."""
    marks = account.use("person")
    fields = list(dict.fromkeys(mark.value for mark in marks))
    if "alive" in fields and account.use("field", "time"):
        fields[fields.index("alive")] = "death_time"
    if "alive" in fields:
        account.use("still")
        account.use("state", "current")
    if "birth_date" in fields:
        account.use("field", "time")
    if "practitioner" in fields:
        account.use("field", "practitioner")
    use_plain_words(account)
    account.use("join")
    account.use("noun", "measure")
    asks = tuple(Ask(field) for field in dict.fromkeys(fields))  # type: ignore[arg-type]
    return Draft(("patient",), asks)
