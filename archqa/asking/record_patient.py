"""What a record says of the patient, in sentences: age, sex, death, language, address."""

from datetime import date, datetime
from typing import NamedTuple

from archqa.asking.record_displays import clean_name
from archqa.asking.record_numbers import full_years, listed
from archqa.asking.record_statements import Statement
from archqa.fhir import Resource
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.model import Query

_FULL_DATE = len("1971-08-28")
_FIELD_WORDS = {
    "sex": "sex",
    "birth_date": "date of birth",
    "age": "date of birth",
    "marital_status": "marital status",
    "ethnicity": "race and ethnicity",
    "language": "language",
    "address": "address",
    "phone": "phone number",
    "email": "email address",
    "identifier": "identifier",
    "contact": "emergency contact",
    "patient_name": "name",
    "practitioner": "general practitioner",
    "place": "managing organization",
}
_AS_RECORDED = frozenset(
    {"birth_date", "phone", "email", "address", "identifier", "contact", "patient_name"}
)
"""Fields whose values are shown as they stand in the record."""

_PRONOUNS = {"female": ("She", "Her"), "male": ("He", "His")}


class Person(NamedTuple):
    """Who the patient is in a sentence: `She`, `Her`."""

    subject: str
    possessive: str


def person_of(patient: Resource) -> Person:
    """Return the pronouns of a patient whose sex is recorded, else `The patient`."""
    gender = str(patient.get("gender", ""))
    return Person(*_PRONOUNS.get(gender, ("The patient", "The patient's")))


def missing_field(query: Query) -> str:
    """Return what of the patient is not recorded: `phone number`."""
    return _FIELD_WORDS.get(query.returns, query.returns.replace("_", " "))


def patient_statements(query: Query, result: QueryResult, patient: Resource) -> list[Statement]:
    """Return what the record says of the patient; nothing if it does not say."""
    person = person_of(patient)
    statements = []
    for row in result.chosen:
        text = _sentence(query, result, row, person)
        if text:
            statements.append(Statement(text, (row,)))
    return statements


def _sentence(query: Query, result: QueryResult, row: Row, person: Person) -> str:
    if query.returns in {"alive", "death_time"}:
        return _life_text(query, row, person)
    if query.returns == "age":
        return _age_text(result, row, person, query.now)
    values = [clean_name(value) for value in row.facts.get(query.returns, ())]
    if query.returns in _AS_RECORDED:
        values = list(row.facts.get(query.returns, ()))
    values = list(dict.fromkeys(values))
    if not values:
        return ""
    if query.returns == "birth_date":
        return f"{person.subject} was born on {values[0]}."
    if query.returns == "sex":
        return f"{person.subject} is {values[0].lower()}."
    verb = "is" if len(values) == 1 else "are recorded as"
    word = _FIELD_WORDS.get(query.returns, query.returns.replace("_", " "))
    if query.returns == "marital_status":
        values = [value.lower() for value in values]
    return f"{person.possessive} {word} {verb} {listed(values)}."


def _life_text(query: Query, row: Row, person: Person) -> str:
    """Whether the patient is alive, or has died: the answer to the one is not that to the other."""
    asks_alive = query.returns == "alive"
    death = death_text(row, person)
    if death:
        verdict = "No, " if asks_alive else ""
        if query.summary == "exists" and not asks_alive:
            verdict = "Yes, "
        return f"{verdict}{_inside(death, person) if verdict else death}"
    if asks_alive:
        return "Yes, as far as the record tells: no death is recorded."
    if query.summary == "exists":
        return "No, no death is recorded."
    return ""


def death_text(row: Row, person: Person) -> str:
    """Return `He died on 2011-07-17 at age 34.`; empty without a death."""
    deaths = row.facts.get("death_time", ())
    if not deaths:
        return ""
    death = parse_datetime(deaths[0])
    if death is None:
        return f"{person.subject} died; the record does not say when."
    text = f"{person.subject} died on {deaths[0][:_FULL_DATE]}"
    birth = _birth(row)
    return f"{text} at age {full_years(birth, death.date())}." if birth else f"{text}."


def _age_text(result: QueryResult, row: Row, person: Person, now: str | None) -> str:
    death = death_text(row, person)
    recorded = next(iter(row.facts.get("birth_date", ())), "")
    if death:
        return f"{death[:-1]} (born {recorded})." if recorded else death
    ages = [value for value in result.answer.values if isinstance(value, int | float)]
    birth = _birth(row)
    if birth and now and not result.query.when.spans and not result.query.when.visit:
        ages = [full_years(birth, datetime.fromisoformat(now).date())]
    if not ages or not recorded:
        return ""
    about = "" if birth else "about "
    return f"{person.subject} is {about}{ages[0]:.0f} years old (born {recorded})."


def _birth(row: Row) -> date | None:
    """The date of birth, if the day is recorded."""
    for text in row.facts.get("birth_date", ()):
        if len(text) >= _FULL_DATE:
            birth = parse_datetime(text)
            return birth.date() if birth else None
    return None


def _inside(sentence: str, person: Person) -> str:
    """A sentence after "No, ": its pronoun small."""
    return f"{person.subject.lower()}{sentence[len(person.subject) :]}"
