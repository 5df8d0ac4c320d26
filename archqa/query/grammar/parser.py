"""The embedded parser: a question, its context and the patient's record → a typed query, without any model.

Names are spotted first, so that "less than 96 consecutive hours" inside a procedure is no comparison; then numbers,
times, visits and ordinals are claimed; the rest are cue words, and what none of them explains is a refusal.
"""

from pydantic import ValidationError

from archqa.errors import NotUnderstood
from archqa.fhir import Record
from archqa.query.grammar import assembly, context, scan, spelling, unresolved
from archqa.query.grammar.context import QuestionContext
from archqa.query.grammar.names import Candidate, find_candidates
from archqa.query.grammar.text import lookup_key, normalize_question, tokenize
from archqa.query.grammar.vocabulary import RecordVocabulary, record_vocabulary
from archqa.query.model import Query


class Parser:
    """Reads questions about the patients of one record. Safe to use from several threads."""

    def __init__(self, record: Record) -> None:
        self._names: RecordVocabulary = record_vocabulary(record)

    def parse(self, question: str, assumption: str = "", patient: str = "") -> Query:
        """The query that a question asks. `patient` is the id of the Patient resource.

        Raises `NotUnderstood`, which names the part, rather than guess.
        """
        question, clock = context.extract_clock(question)
        said = context.parse_context(assumption)
        said = said._replace(now=said.now or clock)
        vocabulary = self._names.vocabulary
        theirs = self._names.theirs(patient) if patient else frozenset()
        text = spelling.correct_spelling(
            normalize_question(question), vocabulary.words, vocabulary.single
        )
        candidates = _renamed(text, said, find_candidates(text, vocabulary, theirs))
        found = scan.parse_question(text, said, candidates)
        unresolved.resolve_unresolved(found, vocabulary, theirs)
        try:
            return assembly.build_query(found.read)
        except ValueError as error:
            raise NotUnderstood(
                question, f"holds parts that do not go together ({_reason(error)})"
            ) from None


def parse(question: str, assumption: str, record: Record, patient: str) -> Query:
    """The query that a question about a patient asks; what is known of the record is kept for the next question.

    Raises `NotUnderstood`.
    """
    return Parser(record).parse(question, assumption, patient)


def _reason(error: ValueError) -> str:
    errors = error.errors() if isinstance(error, ValidationError) else []
    return "; ".join(str(each["msg"]).removeprefix("Value error, ") for each in errors) or str(
        error
    )


def _renamed(text: str, said: QuestionContext, candidates: list[Candidate]) -> list[Candidate]:
    """The context's own names ("Search for 'Daily Weight' to find weight") go before those of the vocabulary."""
    found = []
    spoken_of = [one for one in candidates if one.kind == "vital" and _name_of(text, said, one)]
    for each in candidates:
        if each.kind != "vital" and any(each.overlaps(one.start, one.end) for one in spoken_of):
            continue
        name = _name_of(text, said, each)
        found.append(
            each._replace(names=(name,), said="exact") if name and each.kind == "vital" else each
        )
    return found


def _name_of(text: str, said: QuestionContext, each: Candidate) -> str | None:
    spoken = " ".join(word.text for word in tokenize(text[each.start : each.end]))
    if spoken in said.record_names:
        return said.record_names[spoken]
    return next(
        (
            to
            for from_, to in said.record_names.items()
            if each.kind == "vital" and _means(each, to, from_)
        ),
        None,
    )


def _means(each: Candidate, name: str, spoken: str) -> bool:
    return any(lookup_key(one) in {lookup_key(name), lookup_key(spoken)} for one in each.names)
