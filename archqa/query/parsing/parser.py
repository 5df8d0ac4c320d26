"""The embedded parser: a question, its context and the patient's record → a typed query, without any model.

Names are spotted first, so that "less than 96 consecutive hours" inside a procedure is no comparison; then numbers,
times, visits and ordinals are claimed; the rest are cue words, and what none of them explains is a refusal.
"""

from pydantic import ValidationError

from archqa.errors import NotUnderstood
from archqa.fhir import Record
from archqa.query.base import Query
from archqa.query.parsing import assembling, context, leftover, reading, spelling
from archqa.query.parsing.context import Context
from archqa.query.parsing.naming import Candidate, spot
from archqa.query.parsing.text import key, plain, words
from archqa.query.parsing.vocabulary import Names, names_of


class Parser:
    """Reads questions about the patients of one record. Safe to use from several threads."""

    def __init__(self, record: Record) -> None:
        self._names: Names = names_of(record)

    def parse(self, question: str, assumption: str = "", patient: str = "") -> Query:
        """The query that a question asks. `patient` is the id of the Patient resource.

        Raises `NotUnderstood`, which names the part, rather than guess.
        """
        question, clock = context.said_clock(question)
        said = context.read(assumption)
        said = said._replace(now=said.now or clock)
        vocabulary = self._names.vocabulary
        theirs = self._names.theirs(patient) if patient else frozenset()
        text = spelling.corrected(plain(question), vocabulary.words, vocabulary.single)
        candidates = _renamed(text, said, spot(text, vocabulary, theirs))
        found = reading.read(text, said, candidates)
        leftover.settle(found, vocabulary, theirs)
        try:
            return assembling.query(found.read)
        except ValueError as error:
            raise NotUnderstood(question, f"holds parts that do not go together ({_reason(error)})") from None


def parse(question: str, assumption: str, record: Record, patient: str) -> Query:
    """The query that a question about a patient asks; what is known of the record is kept for the next question.

    Raises `NotUnderstood`.
    """
    return Parser(record).parse(question, assumption, patient)


def _reason(error: ValueError) -> str:
    errors = error.errors() if isinstance(error, ValidationError) else []
    return "; ".join(str(each["msg"]).removeprefix("Value error, ") for each in errors) or str(error)


def _renamed(text: str, said: Context, candidates: list[Candidate]) -> list[Candidate]:
    """The context's own names ("Search for 'Daily Weight' to find weight") go before those of the vocabulary."""
    found = []
    spoken_of = [one for one in candidates if one.kind == "vital" and _name_of(text, said, one)]
    for each in candidates:
        if each.kind != "vital" and any(each.overlaps(one.start, one.end) for one in spoken_of):
            continue
        name = _name_of(text, said, each)
        found.append(each._replace(names=(name,), said="exact") if name and each.kind == "vital" else each)
    return found


def _name_of(text: str, said: Context, each: Candidate) -> str | None:
    spoken = " ".join(word.text for word in words(text[each.start : each.end]))
    if spoken in said.called:
        return said.called[spoken]
    return next((to for from_, to in said.called.items() if each.kind == "vital" and _means(each, to, from_)), None)


def _means(each: Candidate, name: str, spoken: str) -> bool:
    return any(key(one) in {key(name), key(spoken)} for one in each.names)
